//! `train`: trains and evaluates graph neural networks on partitioned graphs, and samples mini-batches from them.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod class_names;
mod cli;
mod exit;
mod job;
mod node_ids;
mod predict;
mod progress;
mod report;
mod sample;
mod saved_model;
mod settings;
mod sweep;
mod tasks;
mod user_ids;

use anyhow::Context;
use args::dialect::DIALECT;
use clap::CommandFactory;
use cli::{Cli, Command};
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cli::{CommandLine, message, parse_command_line};
use edgecut_cluster::{SPAWNED, Termination, report_to_parent, with_causes};
use edgecut_dist_sampler::remove_abandoned;
use edgecut_graph::end_on_unreadable_pages;
use job::command::{JobCommand, JobFlags};
use job::process_role::ProcessRole;
use job::source::Source;
use settings::flag_names::{set_command_line, with_flags};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    keep_memory();
    edgecut_gpu::watch_panics();
    set_command_line(Cli::command);
    let CommandLine { args: cli, notes } = parse_command_line::<Cli>(&DIALECT);
    // The processes that this one starts have the same flags.
    if std::env::var_os(SPAWNED).is_none() {
        for note in notes {
            message!("note: {note}");
        }
    }
    let result = catch_unwind(AssertUnwindSafe(|| run(cli)));
    // Some device failures surface only as a panic deep inside the backend. The failure that `watch_panics` noted then
    // explains the cause; the panic itself would not.
    let result = match (edgecut_gpu::noted_failure(), result) {
        (Some(failure), Err(_)) => Err(failure.into()),
        (None, Err(panic)) => resume_unwind(panic),
        (_, Ok(result)) => result,
    };
    match result {
        Ok(code) => code,
        Err(error) if error.is::<exit::Stopped>() || error.is::<exit::ReportedElsewhere>() => {
            ExitCode::from(exit::exit_code(&error))
        }
        Err(error) => {
            let text = with_flags(&with_causes(error.as_ref()));
            if !report_to_parent(&text, !error.is::<exit::OtherRankFailed>()) {
                message!("error: {text}");
            }
            ExitCode::from(exit::exit_code(&error))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    end_on_unreadable_pages().context("handle SIGBUS")?;
    let command: &dyn JobCommand = match &cli.command {
        Command::Task(task) => task.args(),
        Command::Sample(args) => &**args,
        Command::Predict(args) => &**args,
        // These have no ranks.
        Command::Report(args) => return report::run(args).map(|()| ExitCode::SUCCESS),
        Command::Sweep(args) => return sweep::run(args).map(|()| ExitCode::SUCCESS),
    };
    let JobFlags { job, part, device, training } = command.flags();
    let has_checkpoints = training.is_some_and(|run| run.checkpoints.checkpoint_dir.is_some());
    let place = ProcessRole::find(job, part.is_some_and(|part| part.server_list().is_some()))?;
    let mut termination = None;
    if let ProcessRole::Rank(rank) = &place {
        // Before any thread starts, since threads inherit the mask of signals.
        if has_checkpoints {
            termination = Some(Termination::catch()?);
        }
        job::start_compute_threads(job, rank)?;
    }
    command.check()?;
    if let (Some(device), ProcessRole::Parent(ranks)) = (device, &place) {
        device.check(ranks.local_world_size)?;
    }
    if let Some(part) = part {
        // The parent checks this before it starts the ranks, so that the error is printed once.
        Source::find(part, job)?.check(&place)?;
    }
    // In a job on several nodes, rank 0 checks its files once the other ranks hear of its failure.
    if let Some(training) = training
        && !place.has_other_nodes()
    {
        training.output.check()?;
    }
    match place {
        ProcessRole::Parent(mut ranks) => {
            ranks.stores_state = has_checkpoints;
            job::process_role::check_master_port(&ranks)?;
            let end = ranks.run(|line| message!("{line}"))?;
            remove_abandoned();
            Ok(ExitCode::from(exit::code_of_ranks(end)))
        }
        ProcessRole::Rank(rank) => {
            command.run(rank, termination.as_ref())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

//! `train`: trains and evaluates graph neural networks on partitioned graphs, and samples mini-batches from them.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod checkpoint_mirror;
mod class_names;
mod cli;
mod distinct;
mod exit;
mod id_map_file;
mod job;
mod node_ids;
mod predict;
mod progress;
mod report;
mod run_page;
mod sample;
mod saved_model;
mod settings;
mod sweep;
mod tasks;
mod urls;

use anyhow::Context;
use args::dialect::DIALECT;
use args::distinct_files::check_distinct;
use clap::CommandFactory;
use cli::{Cli, Command};
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cli::{CommandLine, message, parse_command_line, with_near_argument};
use edgecut_cluster::{RanksEnd, SPAWNED, Termination, report_to_parent, with_causes};
use edgecut_dist_sampler::remove_abandoned;
use edgecut_graph::end_on_unreadable_pages;
use job::command::{JobCommand, JobFlags};
use job::process_role::{ProcessRole, note_of_unread_rank};
use job::source::Source;
use settings::flag_names::{set_command_line, with_flags};
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use urls::{Located, Outputs, located};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    keep_memory();
    edgecut_gpu::watch_panics();
    set_command_line(Cli::command);
    let line = parse_command_line::<Cli>(&DIALECT);
    // The processes that this one starts have the same flags.
    if std::env::var_os(SPAWNED).is_none() {
        for note in &line.notes {
            message!("note: {note}");
        }
    }
    let result = catch_unwind(AssertUnwindSafe(|| run(line)));
    // Some device failures surface only as a panic deep inside the backend. The failure that `watch_panics` noted then
    // explains the cause; the panic itself would not.
    let result = match (edgecut_gpu::noted_failure(), result) {
        (Some(failure), Err(_)) => Err(failure.into()),
        (None, Err(panic)) => resume_unwind(panic),
        (_, Ok(result)) => result,
    };
    match result {
        Ok(code) => code,
        Err(error) if error.is::<exit::Stopped>() || error.is::<exit::Printed>() => {
            ExitCode::from(exit::exit_code(&error))
        }
        Err(error) => {
            let text = with_near_argument(with_flags(&with_causes(error.as_ref())));
            if !report_to_parent(&text, !error.is::<exit::OtherRankFailed>()) {
                message!("error: {text}");
            }
            ExitCode::from(exit::exit_code(&error))
        }
    }
}

fn run(line: CommandLine<Cli>) -> anyhow::Result<ExitCode> {
    end_on_unreadable_pages().context("handle SIGBUS")?;
    let Some(Located { cli, words, outputs, copies }) = located(line)? else { return Ok(ExitCode::SUCCESS) };
    let code = run_without_urls(&cli, words, &outputs)?;
    // The copies are in use until now.
    drop(copies);
    Ok(code)
}

/// Runs a command with local paths. The ranks that it starts have the arguments `words`, if these are given.
fn run_without_urls(cli: &Cli, words: Option<Vec<OsString>>, outputs: &Outputs) -> anyhow::Result<ExitCode> {
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
    if let Some(note) = note_of_unread_rank(job)? {
        message!("{note}");
    }
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
    if let Some(training) = training {
        check_distinct(training, &command.inputs())?;
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
            ranks.args = words;
            job::process_role::check_master_port(&ranks)?;
            let end = ranks.run(|line| message!("{line}"))?;
            remove_abandoned();
            if end == RanksEnd::Done {
                outputs.upload()?;
            }
            Ok(ExitCode::from(exit::code_of_ranks(end)))
        }
        ProcessRole::Rank(rank) => {
            let local_rank = rank.local_rank;
            command.run(rank, termination.as_ref())?;
            // All ranks of this machine have written their files.
            if local_rank == 0 {
                outputs.upload()?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

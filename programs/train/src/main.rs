//! `train`: trains and evaluates graph neural networks on partitioned graphs, and samples mini-batches from them.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod class_names;
mod exit;
mod job;
mod node_ids;
mod predict;
mod progress;
mod report;
mod sample;
mod settings;
mod sweep;
mod tasks;

use anyhow::Context;
use args::dialect::DIALECT;
use args::{Cli, Command};
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cli::{CommandLine, message, parse_command_line};
use edgecut_cluster::{SPAWNED, Termination, with_causes};
use edgecut_dist_sampler::remove_abandoned;
use edgecut_graph::end_on_unreadable_pages;
use job::device::on_device;
use job::process_role::ProcessRole;
use job::source::Source;
use settings::flag_names::with_flags;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    keep_memory();
    edgecut_gpu::watch_panics();
    let CommandLine { args: cli, notes } = parse_command_line::<Cli>(&DIALECT);
    // The processes that this one starts have the same flags.
    if std::env::var_os(SPAWNED).is_none() {
        notes.iter().for_each(|note| message!("note: {note}"));
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
        Err(error) if error.is::<exit::Stopped>() || error.is::<exit::ReportedByRank0>() => {
            ExitCode::from(exit::exit_code(&error))
        }
        Err(error) => {
            // A single write keeps the line intact when several processes report errors at the same time.
            let line = format!("error: {}\n", with_flags(&with_causes(error.as_ref())));
            let _ = std::io::stderr().write_all(line.as_bytes());
            ExitCode::from(exit::exit_code(&error))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    end_on_unreadable_pages().context("handle SIGBUS")?;
    let (job, part, device, output) = match &cli.command {
        Command::Node(args) => (&args.job, Some(&args.part), Some(&args.device), Some(&args.output)),
        Command::Link(args) => (&args.job, Some(&args.part), Some(&args.device), Some(&args.output)),
        Command::Edge(args) => (&args.job, Some(&args.part), Some(&args.device), Some(&args.output)),
        Command::Graph(args) => (&args.job, None, Some(&args.device), Some(&args.output)),
        Command::Sample(args) => (&args.job, Some(&args.part), None, None),
        Command::Predict(args) => {
            (&args.job, predict::reads_parts(args).then_some(&args.part), Some(&args.device), None)
        }
        // These have no ranks.
        Command::Report(args) => return report::run(args).map(|()| ExitCode::SUCCESS),
        Command::Sweep(args) => return sweep::run(args).map(|()| ExitCode::SUCCESS),
    };
    let checkpoints = match &cli.command {
        Command::Node(args) => Some(&args.checkpoints),
        Command::Link(args) => Some(&args.checkpoints),
        Command::Edge(args) => Some(&args.checkpoints),
        Command::Graph(args) => Some(&args.checkpoints),
        _ => None,
    };
    let has_checkpoints = checkpoints.is_some_and(|args| args.checkpoint_dir.is_some());
    let place = ProcessRole::find(job, part.is_some_and(|part| part.server_list().is_some()))?;
    let mut termination = None;
    if let ProcessRole::Rank(rank) = &place {
        // Before any thread starts, since threads inherit the mask of signals.
        if has_checkpoints {
            termination = Some(Termination::catch()?);
        }
        job::start_compute_threads(job, rank)?;
    }
    if let Command::Graph(args) = &cli.command {
        args.check()?;
    }
    check_verbose(&cli.command, job)?;
    if let Command::Predict(args) = &cli.command {
        predict::check(args)?;
    }
    if let (Some(device), ProcessRole::Parent(ranks)) = (device, &place) {
        device.check(ranks.local_world_size)?;
    }
    if let Some(part) = part {
        // The parent checks this before it starts the ranks, so that the error is printed once.
        Source::find(part, job)?.check(&place)?;
    }
    // In a job on several nodes, rank 0 checks its files once the other ranks hear of its failure.
    if let Some(output) = output.filter(|_| !place.has_other_nodes()) {
        output.check()?;
    }
    match place {
        ProcessRole::Parent(mut ranks) => {
            ranks.stores_state = has_checkpoints;
            job::process_role::check_master_port(&ranks)?;
            let end = ranks.run(|line| message!("{line}"))?;
            remove_abandoned();
            Ok(ExitCode::from(exit::code_of_ranks(end)))
        }
        ProcessRole::Rank(mut rank) => {
            let termination = termination.as_ref();
            match &cli.command {
                Command::Node(args) => {
                    on_device!(args.device.of_rank(&mut rank)?, tasks::node::run, args, &rank, termination)?
                }
                Command::Link(args) => {
                    on_device!(args.device.of_rank(&mut rank)?, tasks::link::run, args, &rank, termination)?
                }
                Command::Edge(args) => {
                    on_device!(args.device.of_rank(&mut rank)?, tasks::edge::run, args, &rank, termination)?
                }
                Command::Graph(args) => {
                    on_device!(args.device.of_rank(&mut rank)?, tasks::graph::run, args, &rank, termination)?
                }
                Command::Sample(args) => sample::run(args, &rank)?,
                Command::Predict(args) => on_device!(args.device.of_rank(&mut rank)?, predict::run, args, &rank)?,
                Command::Report(_) | Command::Sweep(_) => {}
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Rejects `--verbose` for commands without epochs, on which it has no effect.
///
/// # Errors
/// [`UsageError`](exit::UsageError).
fn check_verbose(command: &Command, job: &args::JobArgs) -> anyhow::Result<()> {
    match command {
        Command::Sample(_) | Command::Predict(_) if job.verbose => {
            anyhow::bail!(exit::UsageError(
                "--verbose prints details of epochs, which this command does not have: leave it out".into()
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}

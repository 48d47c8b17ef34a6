//! `bench`: benchmarks of Edgecut's hot paths, each compared with a limit of the machine that is measured in the same
//! run.
//!
//! The program does not judge results. Every line shows the work, the time, the throughput, and the limit that the
//! throughput is compared with. Benchmarks use the public interfaces of the crates and the real programs.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bench;
mod limits;
mod measure;
mod peer;
mod work;

use anyhow::Context;
use args::{Cli, Command};
use clap::Parser;
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cli::message;
use measure::report::Report;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

// The allocator of `train`: it affects the time of a step, so benchmarks must use the same one.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The environment variable from which burn's library of matrix products reads its number of threads at its first use.
const MATMUL_THREADS: &str = "MATMUL_NUM_THREADS";

fn main() -> ExitCode {
    keep_memory();
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let threads = cli.common.threads();
    if std::env::var_os(MATMUL_THREADS).is_none() {
        // Changing the own environment is not safe in a multi-threaded process, so the program executes itself again
        // with the variable.
        let program = std::env::current_exe().context("find this program's file")?;
        let error = std::process::Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(MATMUL_THREADS, threads.to_string())
            .exec();
        return Err(error).with_context(|| format!("start this program again with {MATMUL_THREADS}"));
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().context("start the compute threads")?;
    if let Command::Peer(args) = &cli.command {
        return match &args.data {
            Some(dir) => peer::serve_part(dir, args, &cli.common),
            None => bench::all_reduce::run_peer(args, &cli.common),
        };
    }
    let mut report = Report::new();
    let outcome = measure(cli, &mut report);
    // Records from before an error are written as well.
    if let Some(path) = &cli.common.json {
        report.write_json(path)?;
    }
    outcome
}

fn measure(cli: &Cli, report: &mut Report) -> anyhow::Result<()> {
    let common = &cli.common;
    match &cli.command {
        Command::Limits => bench::limits::run(common, report),
        Command::Sampling(args) => bench::sampling::run(args, common, report),
        Command::Gather(args) => bench::gather::run(args, common, report),
        Command::Cache(args) => bench::cache::run(args, common, report),
        Command::Rpc(args) => bench::rpc::run(args, common, report),
        Command::ManyRanks(args) => bench::many_ranks::run(args, common, report),
        Command::Protection(args) => bench::protection::run(args, common, report),
        Command::AllReduce(args) => bench::all_reduce::run(args, common, report),
        Command::Aggregation(args) => bench::aggregation::run(args, common, report),
        Command::Linear(args) => bench::linear::run(args, common, report),
        Command::Step(args) => bench::step::run(args, common, report),
        Command::Epoch(args) => bench::epoch::run(args, common, report),
        Command::Graphs(args) => bench::graphs::run(args, common, report),
        Command::Partition(args) => bench::partition::run(args, common, report),
        Command::Csv(args) => bench::csv::run(args, common, report),
        Command::Tables(args) => bench::tables::run(args, common, report),
        Command::Startup(args) => bench::startup::run(args, common, report),
        Command::All(args) => bench::all::run(args, common, report),
        Command::Peer(_) => unreachable!("a peer reports nothing"),
    }
}

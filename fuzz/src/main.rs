//! `fuzz`: gives changed files and messages to everything that reads bytes of files and of peers.
//!
//! An input breaks a rule if a thread panics, if it takes too long, or if it takes more memory than a constant and a
//! multiple of its size.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod allocation;
mod choices;
mod mutate;
mod runner;
mod sample;
mod target;
mod targets;
mod watchdog;

use allocation::CountingAllocator;
use anyhow::Context;
use clap::Parser;
use edgecut_cli::{message, result};
use runner::{Plan, Tally, note_panics, run};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Gives changed files and messages to everything that reads bytes of files and of peers.
#[derive(Debug, Parser)]
#[command(version = edgecut_cli::version(), after_help = "Example:\n  fuzz --target meta --inputs 1000000 --seed 7")]
struct Args {
    /// The targets, separated by commas; by default all
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    target: Vec<String>,
    /// The number of inputs of each target
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    inputs: u64,
    /// The seed of the inputs
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// The number of the first input. To repeat a failure, give the number that the error names, and `--inputs 1`
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// The most seconds for each target
    #[arg(long, value_name = "S", default_value_t = 86_400)]
    seconds: u64,
    /// The folder for inputs that break a rule
    #[arg(long, value_name = "DIR", default_value = "fuzz-failures")]
    failures: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run_all(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            message!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the targets and prints a line for each. Returns true if no input breaks a rule.
fn run_all(args: &Args) -> anyhow::Result<bool> {
    let chosen = args.target.iter().map(String::as_str);
    let names: Vec<&str> = if args.target.is_empty() { targets::NAMES.to_vec() } else { chosen.collect() };
    let plan = Plan {
        seed: args.seed,
        first: args.first,
        inputs: args.inputs,
        time: Duration::from_secs(args.seconds),
        failures: args.failures.clone(),
    };
    note_panics();
    result!(
        "{:<16}{:>12}{:>12}{:>10}{:>14}{:>10}",
        "target",
        "inputs",
        "accepted",
        "findings",
        "peak bytes",
        "seconds"
    )?;
    let mut is_clean = true;
    for name in names {
        let mut target = targets::by_name(name)?;
        let start = Instant::now();
        let tally = run(name, target.as_mut(), &plan).with_context(|| format!("target {name}"))?;
        let seconds = start.elapsed().as_secs_f64();
        let Tally { inputs, accepted, peak_bytes, findings } = tally;
        result!("{name:<16}{inputs:>12}{accepted:>12}{:>10}{peak_bytes:>14}{seconds:>10.1}", findings.len())?;
        is_clean &= findings.is_empty();
    }
    Ok(is_clean)
}

//! The program `campaign`: injects faults into real jobs at random moments, and checks that they end or continue.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod checkpoints;
mod disks;
mod eavesdropping;
mod faulty_disk;
mod frame;
mod hosts;
mod job;
mod links;
mod moments;
mod partitioning;
mod processes;
mod programs;
mod redirects;
mod serving;
mod soak;
mod switch;
mod table;

use anyhow::ensure;
use clap::{Args, Parser, Subcommand};
use edgecut_cli::{message, result};
use std::process::ExitCode;
use table::Table;

const AFTER_HELP: &str = "\
Examples:
  campaign processes --rounds 200
  campaign links --rounds 50 --seed 7
  campaign links --only 31 --seed 7          one round again
  campaign soak --minutes 60

`processes`, `servers`, `links`, `redirects` and `traffic` need root, for network namespaces, and `disks` for its disks. The
programs train, partition-graph and sampling-server are those beside this one. Exit status: 0 all rounds passed, 1 a round failed, 2 a wrong command line.";

/// Injects faults into jobs of real processes at random moments, and checks what becomes of them.
///
/// A round is determined by the seed and its number, except for the timing of the machine.
#[derive(Parser)]
#[command(name = "campaign", version = edgecut_cli::version(), after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Kill, suspend or terminate one of four training processes. The others must end within 15 seconds and name it, or end
    /// with a checkpoint. Or suspend all four for a while; the job must go on
    Processes(Rounds),
    /// Kill, suspend or terminate one of two servers, or one of two trainers that they serve. The trainers must end within 15
    /// seconds and name the server; a lost trainer disturbs nobody
    Servers(Rounds),
    /// Cut, delay, throttle, reset or corrupt a link between two of four training processes. The job must go on, or end
    /// within 15 seconds with an error that names an end of the link
    Links(Rounds),
    /// Lead connections between three training processes, or of a trainer to two servers, to another of them. Both ends must
    /// refuse the connection with an error that names all three. 120 rounds have each connection with each protection
    Redirects(Rounds),
    /// Kill a training while it writes checkpoints, and resume it. The result must be that of a training without
    /// interruptions, bit for bit
    Checkpoints(Rounds),
    /// Kill, suspend or terminate partition-graph. The folder of the parts must be absent or complete. 15 rounds have each
    /// job with each fault
    Partitioning(Rounds),
    /// Let disks be full, read-only or slow, or fail to write or read, for each program that uses them. There must be one
    /// error that names the file, and no partial file; programs on slow disks must succeed. 28 rounds have each program with
    /// each fault
    Disks(Rounds),
    /// Capture the traffic of two training processes with each protection, and search it for features, control messages and
    /// the secret. With encryption, none of them must be readable
    Traffic,
    /// Run three jobs with short epochs, checkpoints, servers and clients for a long time. Memory, file descriptors,
    /// threads and temporary files must not grow
    Soak(soak::SoakArgs),
}

/// The rounds of a campaign.
#[derive(Args)]
struct Rounds {
    /// Number of rounds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this round only, counted from 0
    #[arg(long)]
    only: Option<u64>,
}

impl Rounds {
    fn numbers(&self) -> Box<dyn Iterator<Item = u64>> {
        match self.only {
            Some(number) => Box::new(std::iter::once(number)),
            None => Box::new(0..self.rounds),
        }
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().kind) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(kind: &Kind) -> anyhow::Result<()> {
    let table = match kind {
        Kind::Processes(rounds) => processes::run(rounds)?,
        Kind::Servers(rounds) => serving::run(rounds)?,
        Kind::Links(rounds) => links::run(rounds)?,
        Kind::Redirects(rounds) => redirects::run(rounds)?,
        Kind::Checkpoints(rounds) => checkpoints::run(rounds)?,
        Kind::Partitioning(rounds) => partitioning::run(rounds)?,
        Kind::Disks(rounds) => disks::run(rounds)?,
        Kind::Traffic => return eavesdropping::run(),
        Kind::Soak(args) => return soak::run(args),
    };
    finish(&table)
}

/// Prints the table, and fails if a round has failed.
fn finish(table: &Table) -> anyhow::Result<()> {
    result!("{}", table.to_string().trim_end())?;
    let failed = table.num_failed();
    ensure!(failed == 0, "{failed} rounds have failed");
    Ok(())
}

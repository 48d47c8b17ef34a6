//! Faults of partition-graph.

use crate::Rounds;
use crate::moments::Moments;
use crate::programs::{Process, program, run as run_command, wait_until};
use crate::table::{Outcome, Table};
use anyhow::{Context, ensure};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The limit of a run.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
const FAULTS: [(&str, Signal); 3] =
    [("killed", Signal::KILL), ("suspended", Signal::STOP), ("terminated", Signal::TERM)];

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let dir = tempfile::tempdir().context("make a temporary folder")?;
    let mut within = [Duration::ZERO; 2];
    for (within, is_limited) in within.iter_mut().zip([false, true]) {
        let start = Instant::now();
        run_command(command(dir.path(), is_limited)?.arg("--overwrite"))?;
        *within = start.elapsed();
    }
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let (name, signal) = moments.one_of(&FAULTS);
        let (with, is_limited) = moments.one_of(&LIMITS);
        let within = within[usize::from(is_limited)];
        let moment = moments.before(within);
        let what = format!("{name} {with} a limit after {:.3} of {:.3} s", moment.as_secs_f64(), within.as_secs_f64());
        let fault = format!("partition-graph {with} a limit of memory is {name}");
        table.note(number, &what, &fault, round(dir.path(), is_limited, signal, moment));
    }
    Ok(table)
}

/// Runs in memory, and runs in scratch files.
const LIMITS: [(&str, bool); 2] = [("without", false), ("with", true)];

fn command(root: &Path, is_limited: bool) -> anyhow::Result<Command> {
    let mut command = Command::new(program("partition-graph")?);
    command.args(["--dataset", "fake", "--avg-num-nodes", "30000", "--num-partitions", "3", "--root-dir"]).arg(root);
    command.args(["--num-channels", "64", "--hotness", "in-degree"]);
    if is_limited {
        command.args(["--memory-limit", "256MiB", "--scratch-dir"]).arg(root.join("scratch"));
    }
    Ok(command)
}

fn round(root: &Path, is_limited: bool, signal: Signal, moment: Duration) -> anyhow::Result<(Outcome, Duration)> {
    let parts = root.join("partitions");
    if parts.exists() {
        std::fs::remove_dir_all(&parts).context("remove the parts")?;
    }
    let mut process = Process::start(&mut command(root, is_limited)?, root.join("log"))?;
    wait_until(Instant::now() + moment, || process.status().is_some());
    process.signal(signal);
    let start = Instant::now();
    if signal == Signal::STOP {
        process.signal(Signal::CONT);
    }
    ensure!(wait_until(start + ENDS_WITHIN, || process.status().is_some()), "it still runs");
    let took = start.elapsed();
    let scratch = std::fs::read_dir(root.join("scratch")).context("read the scratch folder")?;
    ensure!(scratch.count() == 0, "scratch files are left");
    let whole = parts.join("fake").join("3-parts");
    let is_there = whole.exists();
    if signal == Signal::STOP {
        ensure!(is_there, "no parts after a suspension: {}", process.output());
    }
    if is_there {
        verify(&whole)?;
    }
    // A rerun succeeds, and removes what is left.
    run_command(command(root, is_limited)?.arg("--overwrite"))?;
    verify(&whole)?;
    let entries = std::fs::read_dir(parts.join("fake")).context("read the folder of the parts")?;
    let left: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| *path != whole).collect();
    ensure!(left.is_empty(), "left over: {left:?}");
    Ok((if is_there { Outcome::WentOn } else { Outcome::Ended }, took))
}

fn verify(parts: &Path) -> anyhow::Result<()> {
    run_command(Command::new(program("partition-graph")?).arg("verify").arg(parts)).map(drop)
}

//! Faults of processes of a job.

use crate::Rounds;
use crate::job::{Job, Site, names};
use crate::moments::Moments;
use crate::programs::wait_until;
use crate::table::{Outcome, Table};
use anyhow::{bail, ensure};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The number of hosts.
const HOSTS: usize = 4;
/// The time from the start of a job within which the faults occur: rendezvous, epochs, validation, saving, checkpoints.
const WITHIN: Duration = Duration::from_secs(4);
/// The exit status of a training that SIGTERM has ended with a checkpoint.
const STOPPED: i32 = 75;

const FAULTS: [(&str, Signal); 3] =
    [("killed", Signal::KILL), ("suspended", Signal::STOP), ("terminated", Signal::TERM)];

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let site = Site::new(HOSTS)?;
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let (name, signal) = moments.one_of(&FAULTS);
        let victim = moments.below(HOSTS);
        let moment = moments.before(WITHIN);
        let what = format!("rank {victim} {name} {:.3} s after the start", moment.as_secs_f64());
        let result = round(&site, victim, signal, moment);
        table.note(number, &what, &format!("a process is {name}"), result);
    }
    Ok(table)
}

fn round(site: &Site, victim: usize, signal: Signal, moment: Duration) -> anyhow::Result<(Outcome, Duration)> {
    let start = Instant::now();
    let mut job = site.start(&[])?;
    // A process that ends by itself before the fault would be a failure of the round before.
    wait_until(start + moment, || job.all().any(|rank| job.has_ended(rank)));
    let early: Vec<usize> = job.all().filter(|&rank| job.has_ended(rank)).collect();
    ensure!(early.is_empty(), "ranks have ended before the fault: {}", job.outputs(&early));
    job.ranks[victim].signal(signal);
    let others: Vec<usize> = job.all().filter(|&rank| rank != victim).collect();
    let took = job.ended(&others)?;
    if signal == Signal::TERM {
        job.ended(&[victim])?;
    }
    let stopped = others.iter().filter(|&&rank| is_stopped(&mut job, rank)).count();
    if signal == Signal::TERM && stopped == others.len() {
        return Ok((Outcome::Ended, took));
    }
    for &rank in &others {
        let errors = job.errors(rank);
        if !names(&errors, victim) {
            bail!("rank {rank} does not name rank {victim}: {}", job.ranks[rank].output());
        }
    }
    Ok((Outcome::Ended, took))
}

/// Returns true if a rank has ended with a checkpoint.
fn is_stopped(job: &mut Job, rank: usize) -> bool {
    job.ranks[rank].status().and_then(|status| status.code()) == Some(STOPPED)
}

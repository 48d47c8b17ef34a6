//! Faults of processes of a job.

use crate::Rounds;
use crate::job::{ENDS_WITHIN, Job, Site, names};
use crate::moments::Moments;
use crate::programs::wait_until;
use crate::table::{Outcome, Table};
use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// The number of hosts.
const HOSTS: usize = 4;
/// The time from the start of a job within which the faults occur: rendezvous, epochs, validation, saving, checkpoints.
const WITHIN: Duration = Duration::from_secs(4);
/// The exit status of a training that SIGTERM has ended with a checkpoint.
const STOPPED: i32 = 75;

/// The longest suspension of a whole job, above all of its timeouts.
const LONGEST_SUSPENSION: Duration = Duration::from_secs(15);

/// A fault of the processes of a job.
#[derive(Clone, Copy)]
enum Fault {
    /// A signal to one process.
    Signal(Signal),
    /// All processes are suspended, and go on later.
    Suspension,
}

const FAULTS: [(&str, Fault); 4] = [
    ("a process is killed", Fault::Signal(Signal::KILL)),
    ("a process is suspended", Fault::Signal(Signal::STOP)),
    ("a process is terminated", Fault::Signal(Signal::TERM)),
    ("all processes are suspended, and go on", Fault::Suspension),
];

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let site = Site::new(HOSTS)?;
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let (name, fault) = moments.one_of(&FAULTS);
        let victim = moments.below(HOSTS);
        let moment = moments.before(WITHIN);
        let seconds = moment.as_secs_f64();
        let (what, result) = match fault {
            Fault::Signal(signal) => {
                (format!("{name}: rank {victim}, {seconds:.3} s after the start"), round(&site, victim, signal, moment))
            }
            Fault::Suspension => {
                let length = moments.before(LONGEST_SUSPENSION);
                let what = format!("{name} after {:.3} s, {seconds:.3} s after an epoch", length.as_secs_f64());
                (what, suspension(&site, moment, length))
            }
        };
        table.note(number, &what, name, result);
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
        let status = job.ranks[victim].status().context("the status of a process that has ended")?;
        let is_expected = status.code() == Some(STOPPED) || status.signal() == Some(Signal::TERM.as_raw());
        ensure!(is_expected, "the terminated rank {victim} has ended with {status}: {}", job.outputs(&[victim]));
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

/// Suspends all processes for a time. The job must go on.
fn suspension(site: &Site, moment: Duration, length: Duration) -> anyhow::Result<(Outcome, Duration)> {
    let mut job = site.start(&[])?;
    job.wait_until_training()?;
    std::thread::sleep(moment);
    job.ranks.iter().for_each(|rank| rank.signal(Signal::STOP));
    std::thread::sleep(length);
    job.ranks.iter().for_each(|rank| rank.signal(Signal::CONT));
    let start = Instant::now();
    let all: Vec<usize> = job.all().collect();
    ensure!(job.makes_progress(ENDS_WITHIN), "no epoch ends: {}", job.outputs(&all));
    let took = start.elapsed();
    // A late consequence would end the job within the longest timeout.
    ensure!(!wait_until(start + ENDS_WITHIN, || job.all().any(|rank| job.has_ended(rank))), "{}", job.outputs(&all));
    Ok((Outcome::WentOn, took))
}

/// Returns true if a rank has ended with a checkpoint.
fn is_stopped(job: &mut Job, rank: usize) -> bool {
    job.ranks[rank].status().and_then(|status| status.code()) == Some(STOPPED)
}

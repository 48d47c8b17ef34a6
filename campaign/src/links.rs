//! Faults of links between processes of a job.

use crate::Rounds;
use crate::job::{ENDS_WITHIN, Job, Site, names};
use crate::moments::Moments;
use crate::programs::wait_until;
use crate::switch::Fault;
use crate::table::{Outcome, Table};
use anyhow::{bail, ensure};
use std::time::{Duration, Instant};

/// The number of hosts.
const HOSTS: usize = 4;
/// The time from the first epoch within which the faults occur.
const WITHIN: Duration = Duration::from_secs(3);

/// The time within which a job that a reset ends has noticed it.
const AFTER_RESET: Duration = Duration::from_secs(5);

/// The protections of connections.
const PROTECTIONS: [&[&str]; 3] = [&["--check-traffic"], &["--encrypt"], &[]];

/// A fault, and the directions in which the link has it.
#[derive(Clone, Copy)]
struct LinkFault {
    name: &'static str,
    fault: Fault,
    is_mutual: bool,
}

const FAULTS: [LinkFault; 6] = [
    LinkFault { name: "cut in one direction", fault: Fault::Cut, is_mutual: false },
    LinkFault { name: "cut in both directions, so that no end hears of it", fault: Fault::Cut, is_mutual: true },
    LinkFault { name: "delayed by 200 ms", fault: Fault::Delay(Duration::from_millis(200)), is_mutual: false },
    LinkFault { name: "throttled to 250 kB/s", fault: Fault::Throttle(250_000), is_mutual: false },
    LinkFault { name: "reset", fault: Fault::Reset, is_mutual: false },
    LinkFault { name: "corrupted by one bit", fault: Fault::Corrupt, is_mutual: false },
];

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let site = Site::new(HOSTS)?;
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let fault = moments.one_of(&FAULTS);
        let from = moments.below(HOSTS);
        let to = (from + 1 + moments.below(HOSTS - 1)) % HOSTS;
        let moment = moments.before(WITHIN);
        // Without protection, nobody notices a corruption.
        let num_protections = PROTECTIONS.len() - usize::from(fault.fault == Fault::Corrupt);
        let protection = PROTECTIONS[moments.below(num_protections)];
        let what =
            format!("{from} -> {to} {} {:.3} s after an epoch, with {protection:?}", fault.name, moment.as_secs_f64());
        let link = Link { from, to, fault };
        let result = round(&site, &link, protection, moment);
        site.hosts.switch.repair();
        table.note(number, &what, &format!("a link is {}", fault.name), result);
    }
    Ok(table)
}

/// A link with a fault.
struct Link {
    from: usize,
    to: usize,
    fault: LinkFault,
}

fn round(
    site: &Site,
    &Link { from, to, fault: LinkFault { fault, is_mutual, .. } }: &Link,
    protection: &[&str],
    moment: Duration,
) -> anyhow::Result<(Outcome, Duration)> {
    let mut job = site.start(protection)?;
    job.wait_until_training()?;
    std::thread::sleep(moment);
    let switch = &site.hosts.switch;
    switch.set(from, to, Some(fault));
    if is_mutual {
        switch.set(to, from, Some(fault));
    }
    let start = Instant::now();
    let all: Vec<usize> = job.all().collect();
    if matches!(fault, Fault::Delay(_) | Fault::Throttle(_)) {
        ensure!(job.makes_progress(ENDS_WITHIN), "no epoch ends: {}", job.outputs(&all));
        let took = start.elapsed();
        switch.repair();
        ensure!(job.makes_progress(ENDS_WITHIN), "no epoch ends after the repair: {}", job.outputs(&all));
        return Ok((Outcome::WentOn, took));
    }
    // A connection for requests is opened again after a reset.
    if fault == Fault::Reset && goes_on(&mut job) {
        ensure!(switch.fault(from, to).is_none(), "nothing was sent");
        return Ok((Outcome::WentOn, start.elapsed()));
    }
    job.ended(&all)?;
    let took = start.elapsed();
    for &rank in &all {
        let errors = job.errors(rank);
        if !names(&errors, from) && !names(&errors, to) {
            bail!("rank {rank} names no end of the link: {}", job.ranks[rank].output());
        }
    }
    let names_both = |&rank: &usize| names(&job.errors(rank), from) && names(&job.errors(rank), to);
    // An end of the link names the other one, and its own message begins with its rank.
    let end_names_other = names(&job.errors(from), to) || names(&job.errors(to), from);
    ensure!(end_names_other || all.iter().any(names_both), "no rank names both ends: {}", job.outputs(&all));
    if fault == Fault::Corrupt {
        let says = |&rank: &usize| job.errors(rank).contains("modified");
        ensure!(all.iter().any(says), "no rank says that bytes were modified: {}", job.outputs(&all));
    }
    Ok((Outcome::Ended, took))
}

/// Returns true if no rank ends within a few seconds, and the job finishes epochs.
fn goes_on(job: &mut Job) -> bool {
    wait_until(Instant::now() + AFTER_RESET, || job.all().any(|rank| job.has_ended(rank)));
    !job.all().any(|rank| job.has_ended(rank)) && job.makes_progress(ENDS_WITHIN)
}

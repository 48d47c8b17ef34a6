//! Connections between processes of a job, and to servers, that the network leads to another process.

use crate::Rounds;
use crate::job::{ENDS_WITHIN, MASTER_PORT, Site};
use crate::moments::case_of_round;
use crate::programs::{Process, wait_until};
use crate::serving::start_host;
use crate::switch::Redirection;
use crate::table::{Outcome, Table};
use anyhow::{bail, ensure};
use std::time::{Duration, Instant};

/// The number of ranks of a job. Another job has two servers and a trainer on as many hosts.
const HOSTS: usize = 3;
const SERVERS: usize = 2;
const TRAINER: usize = 2;
/// More connections than a process opens to another one.
const MOST_CONNECTIONS: usize = 5;
/// The time in which a job opens its connections.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// The protections of connections. All jobs have a secret.
const PROTECTIONS: [&[&str]; 3] = [&[], &["--check-traffic"], &["--encrypt"]];

/// A connection and those after it, from one host to another, which reach a third one.
#[derive(Clone, Copy)]
struct Case {
    has_servers: bool,
    from: usize,
    to: usize,
    first: usize,
    protection: &'static [&'static str],
}

/// Returns all cases. The later connections of a pair may not exist.
fn cases() -> Vec<Case> {
    let ranks = (0..HOSTS).flat_map(|from| (0..HOSTS).map(move |to| (false, from, to)));
    let clients = (0..SERVERS).map(|server| (true, TRAINER, server));
    let mut cases = Vec::new();
    for (has_servers, from, to) in ranks.filter(|(_, from, to)| from != to).chain(clients) {
        for protection in PROTECTIONS {
            cases.extend((0..MOST_CONNECTIONS).map(|first| Case { has_servers, from, to, first, protection }));
        }
    }
    cases
}

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let site = Site::new(HOSTS)?;
    let cases = cases();
    let mut table = Table::default();
    for number in rounds.numbers() {
        let case = case_of_round(&cases, rounds.seed, number);
        let Case { has_servers, from, to, first, protection } = case;
        let kind = if has_servers { "server" } else { "rank" };
        let what = format!("connection {first} and later ones {from} -> {to}, a {kind}, with {protection:?}");
        let result = round(&site, &case);
        site.hosts.switch.redirect(None);
        table.note(number, &what, &format!("connections reach another {kind}"), result);
    }
    Ok(table)
}

fn round(site: &Site, case: &Case) -> anyhow::Result<(Outcome, Duration)> {
    let &Case { has_servers, from, to, first, protection } = case;
    // Of three hosts, or two servers, one is left.
    let instead = if has_servers { 1 - to } else { HOSTS - from - to };
    site.hosts.switch.redirect(Some(Redirection { from, to, instead, first, opened: Vec::new() }));
    let begin = Instant::now();
    let mut hosts: Vec<Process> = if has_servers {
        (0..HOSTS).map(|host| start_host(site, SERVERS, host, protection)).collect::<anyhow::Result<_>>()?
    } else {
        // All ranks listen on one port, so that each can be reached in place of another.
        site.start(&[&["--listen-port", MASTER_PORT], protection].concat())?.ranks
    };
    // Rank 0 prints the epochs of a job.
    let printer = if has_servers { TRAINER } else { 0 };
    let trains = |hosts: &[Process]| hosts[printer].output().lines().any(|line| line.starts_with("epoch "));
    wait_until(begin + STARTS_WITHIN, || hosts[from].status().is_some() || trains(&hosts));
    let opened = site.hosts.switch.redirect(None).map_or(0, |redirection| redirection.opened.len());
    if opened <= first {
        ensure!(trains(&hosts), "the job does not train: {}", hosts[from].output());
        return Ok((Outcome::WentOn, begin.elapsed()));
    }
    ensure!(!trains(&hosts), "the redirection is not noticed: {}", hosts[from].output());
    if !wait_until(Instant::now() + ENDS_WITHIN, || hosts[from].status().is_some()) {
        bail!("the process still runs: {}", hosts[from].output());
    }
    let names = if has_servers {
        ["client 0".to_owned(), format!("server {to}"), format!("server {instead}")]
    } else {
        [from, to, instead].map(|rank| format!("rank {rank}"))
    };
    let errors: String = hosts[from].output().lines().filter(|line| line.starts_with("error")).collect();
    let [from_name, to_name, found] = &names;
    let names_both = errors.contains(&format!("the connection from {from_name} to {to_name} "));
    ensure!(names_both && errors.contains(&format!("has reached {found}:")), "the error is: {errors}");
    let refused = format!("has reached this process, {found}:");
    ensure!(hosts[instead].output().contains(&refused), "{found} says: {}", hosts[instead].output());
    Ok((Outcome::Ended, begin.elapsed()))
}

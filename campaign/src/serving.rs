//! Faults of servers and of trainers that they serve.

use crate::Rounds;
use crate::hosts::address;
use crate::job::{ENDS_WITHIN, Site};
use crate::moments::Moments;
use crate::programs::{Process, program, wait_until};
use crate::table::{Outcome, Table};
use anyhow::{bail, ensure};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The number of servers, on the first hosts.
const SERVERS: usize = 2;
/// The number of trainers, each a job of its own, on the other hosts.
const TRAINERS: usize = 2;
const PORT: u16 = 29600;
/// The time from the start within which the faults occur.
const WITHIN: Duration = Duration::from_secs(4);

/// The faults of one process.
pub(crate) const FAULTS: [(&str, Signal); 3] =
    [("killed", Signal::KILL), ("suspended", Signal::STOP), ("terminated", Signal::TERM)];

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let site = Site::new(SERVERS + TRAINERS)?;
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let (name, signal) = moments.one_of(&FAULTS);
        let victim = moments.below(SERVERS + TRAINERS);
        let role = if victim < SERVERS { "server" } else { "trainer" };
        let moment = moments.before(WITHIN);
        let what = format!("{role} on host {victim} {name} {:.3} s after the start", moment.as_secs_f64());
        let result = round(&site, victim, signal, moment);
        table.note(number, &what, &format!("a {role} is {name}"), result);
    }
    Ok(table)
}

/// The time in which trainers must reach all servers.
const RENDEZVOUS_TIMEOUT: Duration = Duration::from_secs(10);

fn start(site: &Site, host: usize) -> anyhow::Result<Process> {
    start_host(site, SERVERS, host, &[])
}

/// Starts a server on one of the first `num_servers` hosts, or a trainer on another one, with additional flags.
pub(crate) fn start_host(site: &Site, num_servers: usize, host: usize, flags: &[&str]) -> anyhow::Result<Process> {
    let servers: Vec<String> = (0..num_servers).map(|server| format!("{}:{PORT}", address(server))).collect();
    let mut command = if host < num_servers {
        let mut command = site.hosts.command(host, &program("sampling-server")?);
        command.args(["--server-rank", &host.to_string(), "--dataset-root-dir"]).arg(site.parts());
        command
    } else {
        let mut command = site.hosts.command(host, &program("train")?);
        command.args(["node", "--num-neighbors", "10,5", "--batch-size", "32", "--num-epochs", "1000000"]);
        command.args(["--num-threads", "1", "--num-workers", "1"]);
        command.args(["--rendezvous-timeout", &RENDEZVOUS_TIMEOUT.as_secs().to_string()]);
        command.arg("--metrics").arg(site.path(&format!("metrics-{host}")));
        command
    };
    command.args(["--servers", &servers.join(",")]).args(flags).env("EDGECUT_TOKEN", site.token());
    Process::start(&mut command, site.path(&format!("host-{host}.log")))
}

fn round(site: &Site, victim: usize, signal: Signal, moment: Duration) -> anyhow::Result<(Outcome, Duration)> {
    let begin = Instant::now();
    let mut hosts: Vec<Process> =
        (0..SERVERS + TRAINERS).map(|host| start(site, host)).collect::<anyhow::Result<_>>()?;
    std::thread::sleep(moment.saturating_sub(begin.elapsed()));
    hosts[victim].signal(signal);
    let fault = Instant::now();
    if victim >= SERVERS {
        // The servers and the other trainer go on.
        let other = SERVERS + (victim - SERVERS + 1) % TRAINERS;
        ensure!(makes_progress(site, other), "the other trainer does not go on: {}", hosts[other].output());
        let took = fault.elapsed();
        let ended: Vec<usize> = (0..SERVERS).filter(|&server| hosts[server].status().is_some()).collect();
        ensure!(ended.is_empty(), "servers {ended:?} have ended");
        return Ok((Outcome::WentOn, took));
    }
    let trainers: Vec<usize> = (SERVERS..SERVERS + TRAINERS).collect();
    // A server that is suspended before the trainers have reached it is awaited like one that has not started.
    wait_until(fault + RENDEZVOUS_TIMEOUT + ENDS_WITHIN, || {
        trainers.iter().all(|&trainer| hosts[trainer].status().is_some())
    });
    let took = fault.elapsed();
    for &trainer in &trainers {
        let output = hosts[trainer].output();
        if hosts[trainer].status().is_none() {
            bail!("the trainer on host {trainer} still runs: {output}");
        }
        let errors: String = output.lines().filter(|line| line.starts_with("error")).collect();
        ensure!(errors.contains(&address(victim)), "the trainer on host {trainer} does not name the server: {output}");
    }
    ensure!(hosts[1 - victim].status().is_none(), "the other server has ended: {}", hosts[1 - victim].output());
    // The server starts again, and trainers can use it.
    hosts[victim].kill();
    hosts[victim] = start(site, victim)?;
    hosts[SERVERS] = start(site, SERVERS)?;
    ensure!(makes_progress(site, SERVERS), "a new trainer does not train: {}", hosts[SERVERS].output());
    Ok((Outcome::Ended, took))
}

/// Waits until a trainer has finished an epoch more.
fn makes_progress(site: &Site, host: usize) -> bool {
    let metrics = site.path(&format!("metrics-{host}"));
    let length = || std::fs::metadata(&metrics).map_or(0, |file| file.len());
    let before = length();
    wait_until(Instant::now() + 2 * ENDS_WITHIN, || length() != before && length() > 0)
}

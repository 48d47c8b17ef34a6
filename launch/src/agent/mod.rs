//! The agent: one per node, started over SSH. It checks the node, runs its ranks, and ends them when it is told to, when
//! the launcher falls silent, and when it dies itself.

mod checks;
mod held;
mod out;
mod ranks;
mod receive;

use crate::messages::{BEAT, Order, Report, SILENCE};
use crate::standstill::Standstill;
use held::{Held, probe};
use out::Out;
use ranks::Ranks;
use std::io::{BufRead, stdin};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

pub(crate) use checks::machine;
pub(crate) use ranks::{become_rank, sweep_job};
pub(crate) use receive::{DeliveredFile, Delivery, Receipt, run as receive};

/// What the agent waits for.
pub(crate) enum Event {
    Order(Order),
    /// The launcher has gone, or somebody wants the agent to end.
    Gone,
    Ended {
        rank: usize,
        ending: crate::messages::Ending,
    },
}

/// The time in which the last reports have to be written.
const LAST_REPORTS: Duration = Duration::from_secs(1);

/// Runs an agent until the launcher goes, or says nothing for so many seconds.
pub(crate) fn run(silence_seconds: Option<&str>) -> ExitCode {
    let silence = silence_seconds.and_then(|seconds| seconds.parse().ok()).map_or(SILENCE, Duration::from_secs);
    let (events, waiting) = mpsc::channel();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let signalled = events.clone();
    // The SSH server ends what it started when a connection is cut; the ranks come first.
    let _ = ctrlc::set_handler(move || drop(signalled.send(Event::Gone)));
    let (orders, hearing) = (events.clone(), heard.clone());
    std::thread::spawn(move || read_orders(&orders, &hearing));
    let out = Out::start();
    let beating = out.clone();
    std::thread::spawn(move || {
        loop {
            beating.say(Report::Beat);
            std::thread::sleep(BEAT);
        }
    });
    let mut agent = Agent { out: out.clone(), ranks: Ranks::new(events, out.clone()), held: None, gone: false };
    let mut standstill = Standstill::new(silence);
    loop {
        let event = waiting.recv_timeout(BEAT / 2);
        if standstill.look().is_some() {
            // What the launcher has said meanwhile may not be read yet.
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        match event {
            Ok(Event::Order(order)) => agent.obey(order),
            Ok(Event::Gone) => agent.leave(),
            Ok(Event::Ended { rank, ending }) => agent.ranks.ended(rank, ending),
            Err(_) => {
                let silent = heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
                if silent > silence && !agent.gone {
                    agent.out.say(Report::Silenced { silence_ms: silent.as_millis() as u64 });
                    agent.leave();
                }
            }
        }
        agent.ranks.kill_if_overdue();
        if agent.gone && agent.ranks.are_gone() {
            out.flush(LAST_REPORTS);
            return ExitCode::SUCCESS;
        }
    }
}

fn read_orders(events: &mpsc::Sender<Event>, heard: &Mutex<Instant>) {
    for line in stdin().lock().lines() {
        let Ok(order) = line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop)) else { break };
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if !matches!(order, Order::Beat) && events.send(Event::Order(order)).is_err() {
            break;
        }
    }
    let _ = events.send(Event::Gone);
}

struct Agent {
    out: Out,
    ranks: Ranks,
    /// Holds the master's port from the check until the start.
    held: Option<Held>,
    gone: bool,
}

impl Agent {
    fn obey(&mut self, order: Order) {
        match order {
            Order::Check { check, round } => {
                self.held = None;
                let mut checked = checks::check(&check);
                match check.master.map(|(host, port)| Held::take(&host, port, checked.listen_addr)) {
                    Some(Ok(held)) => self.held = Some(held),
                    Some(Err(problem)) => checked.problems.push(problem),
                    None => {}
                }
                self.out.say(Report::Checked { checked, round });
            }
            Order::Probe { host, port, round } => {
                self.out.say(Report::Probed { problem: probe(&host, port).err(), round });
            }
            Order::Start(start) => {
                self.held = None;
                self.ranks.start(start);
            }
            Order::Stop => self.ranks.stop(),
            Order::Kill => self.ranks.kill(),
            Order::Beat => {}
        }
    }

    fn leave(&mut self) {
        if !self.gone {
            self.gone = true;
            self.ranks.stop();
        }
    }
}

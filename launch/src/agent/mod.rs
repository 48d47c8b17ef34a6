//! The agent: one process per node, started over SSH. It checks the node and runs its ranks. It ends them on the
//! launcher's order, when the launcher falls silent, and when it dies itself.

mod checks;
mod held;
mod out;
mod ranks;
mod receive;

use crate::messages::{Order, Report};
use crate::standstill::Standstill;
use crate::timeouts::{HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, LAST_REPORTS_TIMEOUT};
use edgecut_cluster::on_interrupt;
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

/// An event that the agent waits for.
pub(crate) enum Event {
    /// An order of the launcher.
    Order(Order),
    /// The launcher has gone, or a signal asks the agent to end.
    Gone,
    /// A rank of this node has ended.
    Ended { rank: usize, ending: crate::messages::Ending },
}

/// Runs an agent until the launcher ends the connection, or sends nothing for `silence_seconds`.
pub(crate) fn run(silence_seconds: Option<&str>) -> ExitCode {
    let silence =
        silence_seconds.and_then(|seconds| seconds.parse().ok()).map_or(HEARTBEAT_TIMEOUT, Duration::from_secs);
    let (events, waiting) = mpsc::channel();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let signalled = events.clone();
    // The SSH server ends the agent when the connection breaks. The handler lets it end its ranks first.
    let _ = on_interrupt(move || drop(signalled.send(Event::Gone)));
    let orders = events.clone();
    let hearing = heard.clone();
    std::thread::spawn(move || read_orders(&orders, &hearing));
    let out = Out::start();
    let beating = out.clone();
    std::thread::spawn(move || {
        loop {
            beating.say(Report::Beat);
            std::thread::sleep(HEARTBEAT_INTERVAL);
        }
    });
    let mut agent = Agent { out: out.clone(), ranks: Ranks::new(events, out.clone()), held: None, gone: false };
    let mut standstill = Standstill::new(silence);
    loop {
        let event = waiting.recv_timeout(HEARTBEAT_INTERVAL / 2);
        if standstill.look().is_some() {
            // The launcher's messages of the meantime may not be read yet, so the silence is measured anew.
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
            out.flush(LAST_REPORTS_TIMEOUT);
            return ExitCode::SUCCESS;
        }
    }
}

/// Reads orders from standard input until it ends.
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

/// The state of an agent.
struct Agent {
    out: Out,
    ranks: Ranks,
    /// The hold on the master's port from the check until the start.
    held: Option<Held>,
    /// True if the launcher has gone, and the ranks are being ended.
    gone: bool,
}

impl Agent {
    /// Carries out an order.
    fn obey(&mut self, order: Order) {
        match order {
            Order::Check { check, round } => {
                // A port that an earlier check holds would make this one fail.
                self.held = None;
                let mut checked = checks::check(&check);
                match check.master.map(|(host, port)| Held::take(&host, port, checked.listen_addr)) {
                    Some(Ok(held)) => self.held = Some(held),
                    Some(Err(error)) => checked.problems.push(format!("{error:#}")),
                    None => {}
                }
                self.out.say(Report::Checked { checked, round });
            }
            Order::Probe { host, port, round } => {
                let problem = probe(&host, port).err().map(|error| format!("{error:#}"));
                self.out.say(Report::Probed { problem, round });
            }
            Order::Start(start) => {
                // Rank 0 is about to listen on the port.
                self.held = None;
                self.ranks.start(start);
            }
            Order::StartAgain(start) => self.ranks.start_again(&start),
            Order::Stop => self.ranks.stop(),
            Order::Kill => self.ranks.kill(),
            Order::Beat => {}
        }
    }

    /// Asks the ranks to end. The agent exits after them.
    fn leave(&mut self) {
        if !self.gone {
            self.gone = true;
            self.ranks.stop();
        }
    }
}

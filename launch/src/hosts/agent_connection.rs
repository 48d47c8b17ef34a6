//! The launcher's connection to the agent of a node.

use crate::hosts::ssh::{Session, Target, cached, in_shell};
use crate::messages::{ABSENT, AGENT_ROLE, HELLO, Order, Report};
use crate::output::printer::Printer;
use crate::timeouts::{CONNECT_TIMEOUT, HEARTBEAT_INTERVAL};
use anyhow::{Context, bail};
use std::io::Write;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// An event that the launcher waits for.
#[derive(Debug)]
pub(crate) enum Event {
    /// A report of a node's agent, except for the output of its ranks.
    Report { from: Source, report: Report },
    /// The connection to a node has ended.
    Closed { from: Source },
    /// The user has pressed Ctrl-C.
    Interrupt,
    /// The output of the ranks cannot be written, for this reason.
    Unwritten(anyhow::Error),
}

/// The identity of a connection, which distinguishes it from earlier ones to the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) node: usize,
    pub(crate) connection: u64,
}

/// The receivers of agents' messages: the launcher for events, and the printer for the lines of ranks.
#[derive(Clone)]
pub(crate) struct Receivers {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) printer: Printer,
}

/// The connection to a node's agent. Dropping it closes the connection, and the agent then ends its ranks and itself.
pub(crate) struct Link {
    source: Source,
    session: Session,
    orders: mpsc::Sender<Order>,
    heard: Arc<Heard>,
    /// Silence after which the agent counts as gone.
    silence: Duration,
}

/// The time at which an agent was last heard.
struct Heard {
    at: Mutex<Instant>,
    /// True while a line of the agent waits to be printed. Its silence is then caused by this program.
    printing: AtomicBool,
}

impl Heard {
    /// Notes that the agent was heard now.
    fn now(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Link {
    /// Connects to a node. Copies this program to it as the agent if it has none.
    pub(crate) fn connect(source: Source, target: &Target, agent_name: &str, ears: &Receivers) -> anyhow::Result<Self> {
        if let Some(link) = Self::try_connect(source, target, agent_name, ears)? {
            return Ok(link);
        }
        target.put(agent_name, "/proc/self/exe".as_ref())?;
        let link = Self::try_connect(source, target, agent_name, ears)?;
        link.context("it has no agent although one was copied to it: is its home directory on a full disk?")
    }

    /// Connects to a node. Returns `None` if it has no agent.
    fn try_connect(
        source: Source,
        target: &Target,
        agent_name: &str,
        ears: &Receivers,
    ) -> anyhow::Result<Option<Self>> {
        let agent = cached(agent_name);
        let seconds = target.silence.as_secs();
        let remote = in_shell(&format!(
            "a=\"{agent}\"; if [ -x \"$a\" ]; then touch -c \"$a\"; exec \"$a\" {AGENT_ROLE} {seconds}; fi; echo {ABSENT} \"$(uname -sm)\""
        ));
        let mut session = target.spawn(&remote)?;
        let input = session.child.stdin.take();
        let lines = session.lines();
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line == HELLO => break,
                Ok(line) if line.starts_with(ABSENT) => return Ok(None),
                Ok(_) => {}
                Err(_) => bail!(session.explain("start the agent")),
            }
        }
        let heard = Arc::new(Heard { at: Mutex::new(Instant::now()), printing: AtomicBool::new(false) });
        let hearing = heard.clone();
        let ears = ears.clone();
        std::thread::spawn(move || {
            for line in lines {
                hearing.now();
                // Other lines come from background processes that the login has started.
                match serde_json::from_str(&line) {
                    Ok(Report::Line { rank, stream, text }) => {
                        hearing.printing.store(true, Ordering::SeqCst);
                        ears.printer.line(rank, stream, text);
                        hearing.now();
                        hearing.printing.store(false, Ordering::SeqCst);
                    }
                    Ok(Report::Beat) | Err(_) => {}
                    Ok(report) => drop(ears.events.send(Event::Report { from: source, report })),
                }
            }
            let _ = ears.events.send(Event::Closed { from: source });
        });
        let (orders, waiting) = mpsc::channel();
        if let Some(input) = input {
            std::thread::spawn(move || write_orders(input, &waiting));
        }
        Ok(Some(Self { source, session, orders, heard, silence: target.silence }))
    }

    /// Queues an order. If the agent has gone, the launcher gets an event.
    pub(crate) fn send(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Returns true if the agent has given no sign of life for too long.
    pub(crate) fn is_silent(&self) -> bool {
        let Heard { at, printing } = &*self.heard;
        !printing.load(Ordering::SeqCst) && at.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > self.silence
    }

    /// Restarts the measurement of the agent's silence, after this program stood still and may have unread messages.
    pub(crate) fn restart_clock(&self) {
        self.heard.now();
    }

    /// Returns true if an event with this source belongs to this connection.
    pub(crate) fn is(&self, source: Source) -> bool {
        self.source == source
    }

    /// Ends the connection, and returns the reason for its end.
    pub(crate) fn explain(&mut self) -> String {
        self.session.explain("keep the connection")
    }
}

/// Writes orders, and a sign of life when there is no order for [`HEARTBEAT_INTERVAL`].
fn write_orders(mut input: ChildStdin, orders: &mpsc::Receiver<Order>) {
    loop {
        let order = match orders.recv_timeout(HEARTBEAT_INTERVAL) {
            Ok(order) => order,
            Err(mpsc::RecvTimeoutError::Timeout) => Order::Beat,
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let Ok(mut line) = serde_json::to_string(&order) else { return };
        line.push('\n');
        if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

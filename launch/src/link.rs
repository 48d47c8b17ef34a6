//! The launcher's connection to the agent of a node.

use crate::messages::{ABSENT, AGENT_ROLE, BEAT, HELLO, Order, Report, SILENCE};
use crate::ssh::{FIRST_WORD, Session, Target, cached, in_shell};
use std::io::Write;
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

/// What the launcher waits for.
#[derive(Debug)]
pub(crate) enum Event {
    Report {
        node: usize,
        report: Report,
    },
    /// The connection to a node has ended; `connection` tells it from an earlier one.
    Closed {
        node: usize,
        connection: u64,
    },
    Interrupt,
}

/// A node's agent. Dropping it closes the connection, on which the agent ends its ranks and itself.
pub(crate) struct Link {
    pub(crate) connection: u64,
    session: Session,
    orders: mpsc::Sender<Order>,
    heard: Arc<Mutex<Instant>>,
}

impl Link {
    /// Connects to a node; gives it the agent, this very program, if it has none.
    pub(crate) fn connect(
        node: usize,
        connection: u64,
        target: &Target,
        agent_name: &str,
        events: &mpsc::SyncSender<Event>,
    ) -> Result<Self, String> {
        if let Some(link) = Self::try_connect(node, connection, target, agent_name, events)? {
            return Ok(link);
        }
        target.put(agent_name, "/proc/self/exe".as_ref())?;
        let link = Self::try_connect(node, connection, target, agent_name, events)?;
        link.ok_or_else(|| "it does not keep what is copied to it: is its home directory on a full disk?".into())
    }

    /// `None` if the node has no agent.
    fn try_connect(
        node: usize,
        connection: u64,
        target: &Target,
        agent_name: &str,
        events: &mpsc::SyncSender<Event>,
    ) -> Result<Option<Self>, String> {
        let agent = cached(agent_name);
        let remote = in_shell(&format!(
            "a=\"{agent}\"; if [ -x \"$a\" ]; then exec \"$a\" {AGENT_ROLE}; fi; echo {ABSENT} \"$(uname -sm)\""
        ));
        let mut session = target.spawn(&remote)?;
        let input = session.child.stdin.take();
        let lines = session.lines();
        let deadline = Instant::now() + FIRST_WORD;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line == HELLO => break,
                Ok(line) if line.starts_with(ABSENT) => return Ok(None),
                Ok(_) => {}
                Err(_) => return Err(session.explain("start the agent")),
            }
        }
        let heard = Arc::new(Mutex::new(Instant::now()));
        let (hearing, events) = (heard.clone(), events.clone());
        std::thread::spawn(move || {
            for line in lines {
                *hearing.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                let Ok(report) = serde_json::from_str(&line) else { break };
                if !matches!(report, Report::Beat) && events.send(Event::Report { node, report }).is_err() {
                    return;
                }
            }
            let _ = events.send(Event::Closed { node, connection });
        });
        let (orders, waiting) = mpsc::channel();
        if let Some(input) = input {
            std::thread::spawn(move || write_orders(input, &waiting));
        }
        Ok(Some(Self { connection, session, orders, heard }))
    }

    /// Tells the agent something. If it has gone, an event says so.
    pub(crate) fn send(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Whether the agent has given no sign of life for too long.
    pub(crate) fn is_silent(&self) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > SILENCE
    }

    /// Why the connection has ended.
    pub(crate) fn explain(&mut self) -> String {
        self.session.explain("keep the connection")
    }
}

/// Writes orders, and a sign of life where there are none.
fn write_orders(mut input: ChildStdin, orders: &mpsc::Receiver<Order>) {
    loop {
        let order = match orders.recv_timeout(BEAT) {
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

//! The control thread. It executes the actions of the [`ControlPlane`], on one connection from each rank to rank 0.

use crate::timeouts::LAST_MESSAGES_TIMEOUT;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::error::{ClusterError, Failure, system};
use crate::failure::control_plane::{Action, ControlPlane, Printing};
use crate::failure::heartbeat_connection::{ConnectionKind, HeartbeatConnection};
use crate::failure::job_state::JobState;
use crate::failure::messages::Message;
use crate::failure::printer::Printer;
use crate::failure::suspension::SuspensionWatch;
use crate::frames::encode;
use crate::locks::lock;
use crate::readiness::{WakeSignal, Waker, wait_ready};
use crate::secure::stream::SecureStream;

/// The interval of heartbeats, and the silence after which a connection counts as dead.
#[derive(Clone, Copy)]
pub(crate) struct Heartbeat {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

/// The inputs of the control thread.
pub(crate) struct ControlInputs {
    pub(crate) control_plane: ControlPlane,
    /// The control connections from the rendezvous, each with its rank.
    pub(crate) connections: Vec<(usize, SecureStream)>,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) job_state: Arc<JobState>,
    pub(crate) printer: Arc<Printer>,
    /// The pulses that peers open.
    pub(crate) pulses: Receiver<(usize, SecureStream)>,
}

enum Command {
    /// Report a failure. The sender is notified when the report has been sent.
    Report(Failure, SyncSender<()>),
    /// Report that this process has waited too long for a rank.
    Suspect(Failure),
    /// Watch a pulse that this process has opened to a rank.
    Watch(usize, SecureStream),
    Leave,
    Stop,
}

/// A handle to the control thread.
pub(crate) struct ControlThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
    unfinished: Mutex<Vec<usize>>,
    suspensions: SuspensionWatch,
}

impl ControlThread {
    /// Starts the control thread.
    pub(crate) fn start(inputs: ControlInputs) -> Result<Self, ClusterError> {
        let ControlInputs { control_plane, connections: streams, heartbeat, job_state, printer, pulses } = inputs;
        let mut connections = Vec::with_capacity(streams.len());
        for (rank, stream) in streams {
            stream.set_nonblocking(true).map_err(system("make a control connection non-blocking"))?;
            connections.push(HeartbeatConnection::new(ConnectionKind::Control, rank, stream));
        }
        let (waker, signal) = Waker::new().map_err(system("open a socket pair"))?;
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            waker,
            unfinished: Mutex::default(),
            suspensions: SuspensionWatch::new(heartbeat.interval, heartbeat.timeout),
        });
        let control_loop = ControlLoop {
            control_plane,
            connections,
            heartbeat,
            job_state,
            printer,
            pulses,
            shared: Arc::clone(&shared),
            signal,
            next_beat: Instant::now(),
            reported: Vec::new(),
            stop_by: None,
        };
        let thread = std::thread::Builder::new()
            .name("edgecut-control".to_owned())
            .spawn(move || control_loop.run_until_stopped())
            .map_err(system("start the control thread"))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Reports a failure and waits, for at most `timeout`, until the report has been sent.
    pub(crate) fn report(&self, failure: Failure, timeout: Duration) {
        let (sender, sent) = std::sync::mpsc::sync_channel(1);
        self.push(Command::Report(failure, sender));
        // If the report cannot be delivered, nothing more can be done.
        let _ = sent.recv_timeout(timeout);
    }

    /// Reports that this process has waited too long for a rank. Rank 0 finds the rank that is to blame.
    pub(crate) fn suspect(&self, failure: Failure) {
        self.push(Command::Suspect(failure));
    }

    /// Watches a pulse to `rank`. The stream must be non-blocking.
    pub(crate) fn watch(&self, rank: usize, pulse: SecureStream) {
        self.push(Command::Watch(rank, pulse));
    }

    /// Returns whether this process was suspended at some time after `since`.
    pub(crate) fn was_suspended_since(&self, since: Instant) -> bool {
        self.shared.suspensions.was_suspended_since(since)
    }

    pub(crate) fn leave(&self) {
        self.push(Command::Leave);
    }

    /// Stops the thread and closes the connections.
    pub(crate) fn stop(&self) {
        self.push(Command::Stop);
        let thread = lock(&self.thread).take();
        // The control thread itself may drop the last handle of the membership, and cannot join itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // An error means that the thread panicked, so it has ended too.
            let _ = thread.join();
        }
    }

    /// Returns the ranks that rank 0 still waits for. Meaningful on rank 0 only, since other ranks are not told.
    pub(crate) fn unfinished(&self) -> Vec<usize> {
        lock(&self.shared.unfinished).clone()
    }

    fn push(&self, command: Command) {
        lock(&self.shared.commands).push(command);
        self.shared.waker.wake();
    }
}

/// The state of the control thread.
pub(super) struct ControlLoop {
    pub(super) control_plane: ControlPlane,
    pub(super) connections: Vec<HeartbeatConnection>,
    pub(super) heartbeat: Heartbeat,
    job_state: Arc<JobState>,
    printer: Arc<Printer>,
    pulses: Receiver<(usize, SecureStream)>,
    shared: Arc<Shared>,
    signal: WakeSignal,
    next_beat: Instant,
    reported: Vec<SyncSender<()>>,
    stop_by: Option<Instant>,
}

impl ControlLoop {
    fn run_until_stopped(mut self) {
        loop {
            self.run_commands();
            self.add_peer_pulses();
            self.send_heartbeats();
            self.flush();
            if self.is_over() {
                self.shared.suspensions.end();
                return;
            }
            self.wait();
            self.receive();
            let now = Instant::now();
            if self.shared.suspensions.look(now) {
                // This process did not run for a while. If its peers were suspended too, they may resume a little
                // later.
                self.restart_clocks(now);
            }
            self.find_silent(now);
        }
    }

    pub(super) fn controls(&self) -> impl Iterator<Item = &HeartbeatConnection> {
        self.connections.iter().filter(|connection| connection.kind == ConnectionKind::Control)
    }

    /// Returns whether the thread was told to stop and has delivered its messages, or has tried for long enough.
    fn is_over(&self) -> bool {
        let delivered = self.controls().all(|connection| connection.outbox.is_empty());
        self.stop_by.is_some_and(|by| delivered || Instant::now() >= by)
    }

    /// Executes the commands of other threads.
    fn run_commands(&mut self) {
        // The signal is cleared before the queue is taken, so a command that comes in between wakes the thread again.
        self.signal.clear();
        let commands = std::mem::take(&mut *lock(&self.shared.commands));
        for command in commands {
            match command {
                Command::Report(failure, sent) => {
                    self.report(failure);
                    self.reported.push(sent);
                }
                Command::Suspect(failure) => {
                    let actions = self.control_plane.on_suspicion(failure);
                    self.execute(actions);
                }
                Command::Watch(rank, stream) => {
                    self.connections.push(HeartbeatConnection::new(ConnectionKind::OwnPulse, rank, stream))
                }
                Command::Leave => {
                    let actions = self.control_plane.on_leave();
                    self.execute(actions);
                }
                Command::Stop => self.stop_by = Some(Instant::now() + LAST_MESSAGES_TIMEOUT),
            }
        }
    }

    /// Adds the pulses that peers have opened. A second pulse from a peer replaces the first, which the peer has lost.
    fn add_peer_pulses(&mut self) {
        while let Ok((rank, stream)) = self.pulses.try_recv() {
            self.connections
                .retain(|connection| connection.rank != rank || connection.kind != ConnectionKind::PeerPulse);
            self.connections.push(HeartbeatConnection::new(ConnectionKind::PeerPulse, rank, stream));
        }
    }

    pub(super) fn report(&mut self, failure: Failure) {
        let actions = match self.unheard_end(&failure) {
            Some((rank, reason)) => self.control_plane.on_lost(rank, reason),
            None => self.control_plane.on_report(failure),
        };
        self.execute(actions);
    }

    pub(super) fn execute(&mut self, actions: Vec<Action>) {
        *lock(&self.shared.unfinished) = self.control_plane.unfinished();
        // Messages go before records: recording a failure wakes threads that may exit the process at once, and the other
        // ranks would then see only the end of this process. A failure is printed before both, see [`Printer`].
        let mut actions = actions;
        actions.sort_by_key(|action| match action {
            Action::Print(..) => 0,
            Action::Send(..) => 1,
            _ => 2,
        });
        for action in actions {
            match action {
                Action::Print(failure, Printing::Here) => self.printer.print_failure(&failure),
                Action::Print(failure, Printing::FirstLeft) => self.printer.print_if_first_left(&failure),
                Action::Send(rank, message) => self.send(rank, &message),
                Action::Record(failure) => {
                    self.flush();
                    self.job_state.record(failure);
                }
                Action::Ask(0) => {
                    // Only rank 0 asks. Here it asks itself.
                    let actions = self.control_plane.on_waits(0, &self.job_state.waits());
                    self.execute(actions);
                }
                Action::Ask(rank) => self.send(rank, &Message::AskWaits),
                Action::TellWaits => self.send(0, &Message::Waits(self.job_state.waits())),
                Action::Finish => {
                    // `finish` wakes threads that may exit the process at once, so the goodbyes are sent before.
                    self.flush();
                    self.job_state.finish();
                }
            }
        }
    }

    fn send(&mut self, rank: usize, message: &Message) {
        let is_control = |connection: &&mut HeartbeatConnection| {
            connection.rank == rank && connection.kind == ConnectionKind::Control
        };
        let Some(connection) = self.connections.iter_mut().find(is_control) else { return };
        // Encoding fails only for messages that are too long, and callers shorten the reasons of failures.
        if let Ok(frame) = encode(message) {
            connection.outbox.extend_from_slice(&frame);
        }
    }

    fn send_heartbeats(&mut self) {
        if Instant::now() < self.next_beat {
            return;
        }
        self.next_beat = Instant::now() + self.heartbeat.interval;
        let Ok(frame) = encode(&Message::Heartbeat) else { return };
        for connection in &mut self.connections {
            connection.outbox.extend_from_slice(&frame);
        }
    }

    pub(super) fn flush(&mut self) {
        for connection in &mut self.connections {
            if let Err(error) = connection.flush() {
                connection.outbox.clear();
                connection.broken.get_or_insert(error);
            }
        }
        if self.controls().all(|connection| connection.outbox.is_empty()) {
            for sent in self.reported.drain(..) {
                let _ = sent.try_send(());
            }
        }
    }

    /// Waits until there is something to do, and marks the connections to read.
    ///
    /// Pulses carry heartbeats alone, so they are read once per beat, and before one counts as silent. A rank with
    /// hundreds of peers would otherwise wake up for each heartbeat of each of them. The kernel reports an error of a
    /// pulse at once in any case.
    fn wait(&mut self) {
        let mut sockets = vec![PollFd::new(&self.signal.0, PollFlags::IN)];
        for connection in &self.connections {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.kind == ConnectionKind::Control);
            flags.set(PollFlags::OUT, !connection.outbox.is_empty());
            sockets.push(PollFd::new(&connection.stream, flags));
        }
        let is_broken = self.connections.iter().any(|connection| connection.broken.is_some());
        // Wake up for the next heartbeat, for the first connection that may count as silent, and for the deadline of a
        // stop. A broken connection is handled without a wait.
        let now = Instant::now();
        let first_silent =
            self.connections.iter().map(|connection| connection.last_heard + self.limit(connection)).min();
        let latest = [self.stop_by, first_silent].into_iter().flatten().fold(self.next_beat, Instant::min);
        // Data that was left in the memory of a connection makes no socket ready.
        let is_left = self.connections.iter().any(|connection| connection.has_left_data);
        let timeout = if is_broken || is_left { Duration::ZERO } else { latest.saturating_duration_since(now) };
        let is_known = wait_ready(&mut sockets, timeout).is_ok();
        if !is_known {
            // `poll` fails only if the kernel lacks memory. Go on without it, at a lower rate.
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_ready: Vec<bool> = sockets[1..].iter().map(|socket| !socket.revents().is_empty()).collect();
        let woken = Instant::now();
        let interval = self.heartbeat.interval;
        for (connection, is_ready) in self.connections.iter_mut().zip(is_ready) {
            // A beat may pass while this thread works. Pulses are then read at the next event, so that no pulse with data
            // counts as silent.
            let is_beat = woken >= latest || connection.silence(woken) >= interval;
            let is_due = is_beat && connection.kind != ConnectionKind::Control;
            connection.is_to_read = is_ready || is_due || connection.has_left_data || !is_known;
        }
    }

    fn receive(&mut self) {
        let mut heard = Vec::new();
        let mut lost = Vec::new();
        for connection in &mut self.connections {
            if !connection.is_to_read && connection.broken.is_none() {
                continue;
            }
            let mut end = connection.fill().err().or(connection.broken.take());
            // Messages before the end of a connection count: a rank may report why it fails and then exit.
            match connection.take_messages() {
                Ok(messages) => {
                    heard.extend(messages.into_iter().map(|message| (connection.kind, connection.rank, message)))
                }
                Err(error) => end = Some(error),
            }
            if let Some(error) = end {
                lost.push((connection.kind, connection.rank, error));
            }
        }
        for (kind, rank, message) in heard {
            self.handle(kind, rank, message);
        }
        for (kind, rank, error) in lost {
            self.end_connection(kind, rank, &error);
        }
    }

    fn handle(&mut self, kind: ConnectionKind, rank: usize, message: Message) {
        // A pulse carries only heartbeats.
        if kind != ConnectionKind::Control {
            return;
        }
        let unheard = match &message {
            Message::Failed(failure) if self.is_hub() => self.unheard_end(failure),
            _ => None,
        };
        let actions = match unheard {
            Some((end, reason)) => self.control_plane.on_lost(end, reason),
            None => self.control_plane.on_message(rank, message),
        };
        self.execute(actions);
    }

    pub(super) fn is_hub(&self) -> bool {
        self.control_plane.rank() == 0
    }
}

//! The control thread. It executes the actions of the [`Engine`], on one connection from each rank to rank 0.

use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::board::{Board, lock};
use crate::engine::{Action, Engine};
use crate::error::{ClusterError, Failure, seconds, system};
use crate::link::{Link, LinkKind};
use crate::readiness::{WakeSignal, Waker, wait_ready};
use crate::suspension::SuspensionWatch;
use crate::wire::{Message, encode};

/// The longest time to deliver the last messages after a request to stop.
const FAREWELL: Duration = Duration::from_secs(1);
/// The number of heartbeat intervals by which a rank waits longer for rank 0 than rank 0 waits for it. If the network
/// between the two is cut, rank 0 then decides first, and all ranks learn its verdict.
const GRACE_BEATS: u32 = 2;
/// The number of heartbeat intervals without data from a rank after which rank 0 blames that rank itself, if another
/// rank reports that the connection to it failed.
const MISSED_BEATS: u32 = 3;

/// The interval of heartbeats, and the silence after which a link counts as dead.
#[derive(Clone, Copy)]
pub(crate) struct Heartbeat {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

/// The inputs of the control thread.
pub(crate) struct Plan {
    pub(crate) engine: Engine,
    /// The control connections from the rendezvous, each with its rank.
    pub(crate) controls: Vec<(usize, TcpStream)>,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) board: Arc<Board>,
    /// The pulses that peers open.
    pub(crate) pulses: Receiver<(usize, TcpStream)>,
}

enum Command {
    /// Report a failure. The sender is notified when the report has been sent.
    Report(Failure, SyncSender<()>),
    /// Report that this process has waited too long for a rank.
    Suspect(Failure),
    /// Watch a pulse that this process has opened to a rank.
    Watch(usize, TcpStream),
    Leave,
    Stop,
}

/// A handle to the control thread.
pub(crate) struct Control {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
    unfinished: Mutex<Vec<usize>>,
    suspensions: SuspensionWatch,
}

impl Control {
    /// Starts the control thread.
    pub(crate) fn spawn(plan: Plan) -> Result<Self, ClusterError> {
        let Plan { engine, controls, heartbeat, board, pulses } = plan;
        let mut links = Vec::with_capacity(controls.len());
        for (rank, stream) in controls {
            stream.set_nonblocking(true).map_err(system("make a control connection non-blocking"))?;
            links.push(Link::new(LinkKind::Control, rank, stream));
        }
        let (waker, signal) = Waker::new().map_err(system("open a socket pair"))?;
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            waker,
            unfinished: Mutex::default(),
            suspensions: SuspensionWatch::new(heartbeat.interval, heartbeat.timeout),
        });
        let plane = Plane {
            engine,
            links,
            heartbeat,
            board,
            pulses,
            shared: Arc::clone(&shared),
            signal,
            next_beat: Instant::now(),
            reported: Vec::new(),
            stop_by: None,
        };
        let thread = std::thread::Builder::new()
            .name("edgecut-control".to_owned())
            .spawn(move || plane.run())
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
    pub(crate) fn watch(&self, rank: usize, pulse: TcpStream) {
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
struct Plane {
    engine: Engine,
    links: Vec<Link>,
    heartbeat: Heartbeat,
    board: Arc<Board>,
    pulses: Receiver<(usize, TcpStream)>,
    shared: Arc<Shared>,
    signal: WakeSignal,
    next_beat: Instant,
    reported: Vec<SyncSender<()>>,
    stop_by: Option<Instant>,
}

impl Plane {
    fn run(mut self) {
        loop {
            self.obey();
            self.take_in_pulses();
            self.beat();
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

    fn controls(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| link.kind == LinkKind::Control)
    }

    /// Returns whether the thread was told to stop and has delivered its messages, or has tried for long enough.
    fn is_over(&self) -> bool {
        let delivered = self.controls().all(|link| link.outbox.is_empty());
        self.stop_by.is_some_and(|by| delivered || Instant::now() >= by)
    }

    /// Executes the commands of other threads.
    fn obey(&mut self) {
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
                    let actions = self.engine.on_suspicion(failure);
                    self.act(actions);
                }
                Command::Watch(rank, stream) => self.links.push(Link::new(LinkKind::OwnPulse, rank, stream)),
                Command::Leave => {
                    let actions = self.engine.on_leave();
                    self.act(actions);
                }
                Command::Stop => self.stop_by = Some(Instant::now() + FAREWELL),
            }
        }
    }

    /// Adds the pulses that peers have opened. A second pulse from a peer replaces the first, which the peer has lost.
    fn take_in_pulses(&mut self) {
        while let Ok((rank, stream)) = self.pulses.try_recv() {
            self.links.retain(|link| link.rank != rank || link.kind != LinkKind::PeerPulse);
            self.links.push(Link::new(LinkKind::PeerPulse, rank, stream));
        }
    }

    fn report(&mut self, failure: Failure) {
        let actions = match self.unheard_end(&failure) {
            Some((rank, reason)) => self.engine.on_lost(rank, reason),
            None => self.engine.on_report(failure),
        };
        self.act(actions);
    }

    /// Returns the end of a failed connection that rank 0 does not hear from either, with a reason. The process at that
    /// end hangs or is unreachable for all ranks, so it is to blame and not the connection.
    fn unheard_end(&self, failure: &Failure) -> Option<(usize, String)> {
        let other = failure.link_to?;
        let limit = self.heartbeat.interval * MISSED_BEATS;
        let now = Instant::now();
        [failure.rank, other].into_iter().find_map(|end| {
            let silence = self.controls().find(|link| link.rank == end && end != 0)?.silence(now);
            (silence > limit).then(|| (end, silent_rank(end, 0, silence)))
        })
    }

    fn act(&mut self, actions: Vec<Action>) {
        *lock(&self.shared.unfinished) = self.engine.unfinished();
        for action in actions {
            match action {
                Action::Send(rank, message) => self.send(rank, &message),
                Action::Record(failure) => self.board.record(failure),
                Action::Ask(0) => {
                    // Only rank 0 asks. Here it asks itself.
                    let actions = self.engine.on_waits(0, &self.board.waits());
                    self.act(actions);
                }
                Action::Ask(rank) => self.send(rank, &Message::AskWaits),
                Action::TellWaits => self.send(0, &Message::Waits(self.board.waits())),
                Action::Finish => {
                    // `finish` wakes threads that may exit the process at once, so the goodbyes are sent before.
                    self.flush();
                    self.board.finish();
                }
            }
        }
    }

    fn send(&mut self, rank: usize, message: &Message) {
        let is_control = |link: &&mut Link| link.rank == rank && link.kind == LinkKind::Control;
        let Some(link) = self.links.iter_mut().find(is_control) else { return };
        // Encoding fails only for messages that are too long, and callers shorten the reasons of failures.
        if let Ok(frame) = encode(message) {
            link.outbox.extend_from_slice(&frame);
        }
    }

    fn beat(&mut self) {
        if Instant::now() < self.next_beat {
            return;
        }
        self.next_beat = Instant::now() + self.heartbeat.interval;
        let Ok(frame) = encode(&Message::Heartbeat) else { return };
        for link in &mut self.links {
            link.outbox.extend_from_slice(&frame);
        }
    }

    fn flush(&mut self) {
        for link in &mut self.links {
            if let Err(error) = link.flush() {
                link.outbox.clear();
                link.broken.get_or_insert(error);
            }
        }
        if self.controls().all(|link| link.outbox.is_empty()) {
            for sent in self.reported.drain(..) {
                let _ = sent.try_send(());
            }
        }
    }

    fn wait(&mut self) {
        let mut sockets = vec![PollFd::new(&self.signal.0, PollFlags::IN)];
        for link in &self.links {
            let wants_out = if link.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            sockets.push(PollFd::new(&link.stream, PollFlags::IN | wants_out));
        }
        let is_broken = self.links.iter().any(|link| link.broken.is_some());
        // Wake up for the next heartbeat, for the first link that may count as silent, and for the deadline of a stop.
        // A broken link is handled without a wait.
        let now = Instant::now();
        let first_silent = self.links.iter().map(|link| link.last_heard + self.limit(link)).min();
        let latest = [self.stop_by, first_silent].into_iter().flatten().fold(self.next_beat, Instant::min);
        let timeout = if is_broken { Duration::ZERO } else { latest.saturating_duration_since(now) };
        if wait_ready(&mut sockets, timeout).is_err() {
            // `poll` fails only if the kernel lacks memory. Go on without it, at a lower rate.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn receive(&mut self) {
        let mut heard = Vec::new();
        let mut lost = Vec::new();
        for link in &mut self.links {
            let mut end = link.fill().err().or(link.broken.take());
            // Messages before the end of a connection count: a rank may report why it fails and then exit.
            match link.take_messages() {
                Ok(messages) => heard.extend(messages.into_iter().map(|message| (link.kind, link.rank, message))),
                Err(error) => end = Some(error),
            }
            if let Some(error) = end {
                lost.push((link.kind, link.rank, error));
            }
        }
        for (kind, rank, message) in heard {
            self.hear(kind, rank, message);
        }
        for (kind, rank, error) in lost {
            self.end_link(kind, rank, &error);
        }
    }

    fn hear(&mut self, kind: LinkKind, rank: usize, message: Message) {
        // A pulse carries only heartbeats.
        if kind != LinkKind::Control {
            return;
        }
        let unheard = match &message {
            Message::Failed(failure) if self.is_hub() => self.unheard_end(failure),
            _ => None,
        };
        let actions = match unheard {
            Some((end, reason)) => self.engine.on_lost(end, reason),
            None => self.engine.on_message(rank, message),
        };
        self.act(actions);
    }

    fn is_hub(&self) -> bool {
        self.engine.rank() == 0
    }

    /// Handles the end of a connection.
    fn end_link(&mut self, kind: LinkKind, rank: usize, error: &io::Error) {
        self.links.retain(|link| link.rank != rank || link.kind != kind);
        if kind == LinkKind::Control {
            let actions = self.engine.on_lost(rank, death_notice(error));
            self.act(actions);
        } else if is_cut(error) {
            self.lose_connection(rank, &format!("it ended with: {error}"));
        }
    }

    /// Reports that the network between this process and `rank` is cut.
    fn lose_connection(&mut self, rank: usize, reason: &str) {
        if let Some(failure) = self.engine.lost_connection(rank, reason) {
            self.report(failure);
        }
    }

    /// Returns the silence after which a link counts as dead.
    fn limit(&self, link: &Link) -> Duration {
        let Heartbeat { interval, timeout } = self.heartbeat;
        let waits_for_hub = link.kind == LinkKind::Control && !self.is_hub();
        if waits_for_hub { timeout + interval * GRACE_BEATS } else { timeout }
    }

    fn restart_clocks(&mut self, now: Instant) {
        for link in &mut self.links {
            link.last_heard = now;
        }
    }

    /// Closes the links that have been silent for too long, and reports them.
    fn find_silent(&mut self, now: Instant) {
        let is_silent = |link: &&Link| link.silence(now) >= self.limit(link);
        let silent: Vec<_> = self.links.iter().filter(is_silent).map(|link| (link.kind, link.rank)).collect();
        let timeout = self.heartbeat.timeout;
        let own = self.engine.rank();
        for (kind, rank) in silent {
            self.links.retain(|link| link.rank != rank || link.kind != kind);
            if kind == LinkKind::Control {
                let actions = self.engine.on_lost(rank, silent_rank(rank, own, timeout));
                self.act(actions);
            } else {
                let silence = seconds(timeout);
                self.lose_connection(rank, &format!("no data reached rank {own} from rank {rank} for {silence}"));
            }
        }
    }
}

/// Describes the silence of `rank`. The text names both ends, since a process that hangs and a cut connection look the
/// same.
fn silent_rank(rank: usize, heard_by: usize, silence: Duration) -> String {
    format!(
        "no sign of life for {}: no data reached rank {heard_by} from rank {rank}, so its process hangs or the network \
         between the two is cut",
        seconds(silence)
    )
}

/// Returns whether an error means that the network ended a connection, rather than the process at the other end.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

fn death_notice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "its process ended before the job was done".to_owned()
        }
        io::ErrorKind::InvalidData => format!("it sent a malformed control message: {error}"),
        _ => format!("its control connection broke: {error}"),
    }
}

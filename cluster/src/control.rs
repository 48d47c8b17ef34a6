//! The control thread: executes what the [`Engine`] decides, on one connection from each rank to rank 0.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::board::{Board, lock};
use crate::engine::{Action, Engine};
use crate::error::{ClusterError, Failure, seconds, system};
use crate::readiness::{WakeSignal, Waker, wait_ready};
use crate::wire::{MAX_FRAME_BYTES, Message, encode, take_frame};

/// What a peer may leave unread before it counts as stuck.
const MAX_OUTBOX_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// How long the thread goes on trying to deliver last messages when it has been told to stop.
const FAREWELL: Duration = Duration::from_secs(1);

/// A control connection, after the rendezvous.
pub(crate) struct Link {
    rank: usize,
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    last_heard: Instant,
    // Why nothing more can be sent. What the peer sent before is still read, for it may say why it ended.
    broken: Option<io::Error>,
}

impl Link {
    pub(crate) fn new(rank: usize, stream: TcpStream) -> Self {
        Self { rank, stream, inbox: Vec::new(), outbox: Vec::new(), last_heard: Instant::now(), broken: None }
    }
}

/// When a link counts as dead.
#[derive(Clone, Copy)]
pub(crate) struct Heartbeat {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

enum Command {
    /// Report a failure; the sender is answered when the report has left this process.
    Report(Failure, SyncSender<()>),
    /// Report that a rank was waited for too long.
    Suspect(Failure),
    Leave,
    Stop,
}

/// The handle on the control thread.
pub(crate) struct Control {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
    unfinished: Mutex<Vec<usize>>,
}

impl Control {
    pub(crate) fn spawn(
        engine: Engine,
        links: Vec<Link>,
        heartbeat: Heartbeat,
        board: Arc<Board>,
    ) -> Result<Self, ClusterError> {
        for link in &links {
            link.stream.set_nonblocking(true).map_err(system("make a control connection non-blocking"))?;
        }
        let (waker, signal) = Waker::new().map_err(system("open a socket pair"))?;
        let shared = Arc::new(Shared { commands: Mutex::default(), waker, unfinished: Mutex::default() });
        let plane = Plane {
            engine,
            links,
            heartbeat,
            board,
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

    /// Reports a failure and waits, for `timeout` at most, until the report has left this process.
    pub(crate) fn report(&self, failure: Failure, timeout: Duration) {
        let (sender, sent) = std::sync::mpsc::sync_channel(1);
        self.push(Command::Report(failure, sender));
        // Whether it was sent or nobody is left to hear it, there is nothing more to do.
        let _ = sent.recv_timeout(timeout);
    }

    /// Reports that a rank was waited for too long. Rank 0 finds out which one is to blame.
    pub(crate) fn suspect(&self, failure: Failure) {
        self.push(Command::Suspect(failure));
    }

    pub(crate) fn leave(&self) {
        self.push(Command::Leave);
    }

    /// Ends the thread and closes the connections.
    pub(crate) fn stop(&self) {
        self.push(Command::Stop);
        let thread = lock(&self.thread).take();
        // A thread cannot wait for its own end.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic of the thread has ended it as well.
            let _ = thread.join();
        }
    }

    /// The ranks that rank 0 is still waiting for. Means nothing on other ranks, which are not told who is done.
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
            self.beat();
            self.flush();
            if self.is_over() {
                return;
            }
            self.wait();
            // What lies in the sockets is heard before anyone is called silent: this process itself may have been
            // suspended for a while.
            self.receive();
            self.find_silent();
        }
    }

    fn is_over(&self) -> bool {
        let delivered = self.links.iter().all(|link| link.outbox.is_empty());
        self.stop_by.is_some_and(|by| delivered || Instant::now() >= by)
    }

    fn obey(&mut self) {
        self.signal.clear();
        let commands = std::mem::take(&mut *lock(&self.shared.commands));
        for command in commands {
            match command {
                Command::Report(failure, sent) => {
                    let actions = self.engine.on_report(failure);
                    self.act(actions);
                    self.reported.push(sent);
                }
                Command::Suspect(failure) => {
                    let actions = self.engine.on_suspicion(failure);
                    self.act(actions);
                }
                Command::Leave => {
                    let actions = self.engine.on_leave();
                    self.act(actions);
                }
                Command::Stop => self.stop_by = Some(Instant::now() + FAREWELL),
            }
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        *lock(&self.shared.unfinished) = self.engine.unfinished();
        for action in actions {
            match action {
                Action::Send(rank, message) => self.send(rank, &message),
                Action::Record(failure) => self.board.record(failure),
                Action::Ask(0) => {
                    // Only rank 0 asks, here itself.
                    let actions = self.engine.on_waits(0, &self.board.waits());
                    self.act(actions);
                }
                Action::Ask(rank) => self.send(rank, &Message::AskWaits),
                Action::TellWaits => self.send(0, &Message::Waits(self.board.waits())),
                Action::Finish => {
                    // Whoever waits for the end may exit the process right then, so the goodbyes go out first.
                    self.flush();
                    self.board.finish();
                }
            }
        }
    }

    fn send(&mut self, rank: usize, message: &Message) {
        let Some(link) = self.links.iter_mut().find(|link| link.rank == rank) else { return };
        // A message that cannot be encoded is too long; reasons are cut short before they come here.
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
        if self.links.iter().all(|link| link.outbox.is_empty()) {
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
        let latest =
            if is_broken { Instant::now() } else { self.stop_by.unwrap_or(self.next_beat).min(self.next_beat) };
        let timeout = latest.saturating_duration_since(Instant::now());
        if wait_ready(&mut sockets, timeout).is_err() {
            // Only a lack of kernel memory leads here. Slower is better than not at all.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn receive(&mut self) {
        let (mut heard, mut lost) = (Vec::new(), Vec::new());
        for link in &mut self.links {
            let end = link.fill().err().or(link.broken.take());
            // Messages that came before the end of a connection count: a rank may say why it fails and then exit.
            match link.take_messages() {
                Ok(messages) => heard.extend(messages.into_iter().map(|message| (link.rank, message))),
                Err(error) => lost.push((link.rank, format!("it sent a malformed control message: {error}"))),
            }
            if let Some(error) = end {
                lost.push((link.rank, death_notice(&error)));
            }
        }
        for (rank, message) in heard {
            let actions = self.engine.on_message(rank, message);
            self.act(actions);
        }
        self.lose(lost);
    }

    fn find_silent(&mut self) {
        let limit = self.heartbeat.timeout;
        let silent = self.links.iter().filter(|link| link.last_heard.elapsed() > limit);
        let lost = silent.map(|link| (link.rank, format!("no sign of life for {}", seconds(limit)))).collect();
        self.lose(lost);
    }

    fn lose(&mut self, lost: Vec<(usize, String)>) {
        for (rank, reason) in lost {
            self.links.retain(|link| link.rank != rank);
            let actions = self.engine.on_lost(rank, reason);
            self.act(actions);
        }
    }
}

impl Link {
    fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.outbox.len() {
            match self.stream.write(&self.outbox[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbox.drain(..written);
        if self.outbox.len() > MAX_OUTBOX_BYTES {
            return Err(io::Error::other("it does not read what is sent to it"));
        }
        Ok(())
    }

    /// Reads what is there. An error is the end of the connection.
    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        // A peer that sends without end must not keep this thread from the others.
        while self.inbox.len() < 2 * MAX_FRAME_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.inbox.extend_from_slice(&buffer[..count]);
                    self.last_heard = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_messages(&mut self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        while let Some(message) = take_frame(&mut self.inbox)? {
            messages.push(message);
        }
        Ok(messages)
    }
}

fn death_notice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "its process ended without a goodbye".to_owned()
        }
        _ => format!("its control connection broke: {error}"),
    }
}

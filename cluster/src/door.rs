//! The acceptor of incoming connections: the accept thread, the handshakes, and the dispatch of connections by purpose.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use tokio::sync::mpsc;

use crate::address::is_loopback;
use crate::board::{lock, wait_for};
use crate::config::ClusterConfig;
use crate::descriptors;
use crate::error::{ClusterError, seconds, system};
use crate::handshake::{Handshake, HandshakeError};
use crate::keep_alive::{end_when_unacknowledged, probe_when_idle};
use crate::pending::{Pending, PendingLimits, Slot};
use crate::readiness::{WakeSignal, Waker, wait_ready};
use crate::stopwatch::Stopwatch;
use crate::strangers::Strangers;
use crate::token::Token;
use crate::wire::{Admission, Answer, Hello, Register, RingKey, Timed, read_frame, write_frame};

/// The most connections of process groups that wait until this process creates their group.
const MAX_WAITING_RINGS: usize = 4096;
/// The interval at which waiting threads check whether they should stop.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// An event for the rendezvous.
pub(crate) enum Arrival {
    /// A rank that wants to join, with its control connection.
    Rank { register: Register, stream: TcpStream, peer: SocketAddr },
    /// A rank that cannot join, for a reason of its own.
    GaveUp { rank: usize, attempt: u64, peer: SocketAddr, reason: String },
    /// A process that failed the handshake: it has another version, another secret or another user.
    TurnedAway { reason: String },
    /// This process cannot accept connections.
    CannotAccept { reason: String },
}

/// An authenticated RPC connection and the rank that opened it.
pub(crate) type RpcStream = (usize, TcpStream);

/// The acceptor: its settings, and the queues of accepted connections. It is shared by the accept thread and the
/// threads of handshakes.
pub(crate) struct Door {
    token: Option<Token>,
    job: String,
    world_size: usize,
    keep_alive: Duration,
    limits: DoorLimits,
    notice: fn(&str),
    // `None` once the rendezvous is over, and on ranks other than 0.
    arrivals: Mutex<Option<SyncSender<Arrival>>>,
    // `None` once the acceptor is closed.
    rpc: Mutex<Option<mpsc::Sender<RpcStream>>>,
    pulses: SyncSender<(usize, TcpStream)>,
    // Connections of process groups that this process has not created yet.
    rings: Mutex<HashMap<RingKey, TcpStream>>,
    // Notified when a connection is added to `rings`.
    ring_came: Condvar,
    pending: Arc<Pending>,
    strangers: Strangers,
    // Reports to the job that this process cannot accept connections any more.
    report: Mutex<Option<Report>>,
    closed: AtomicBool,
}

/// A function that reports a failure of this process, given the reason.
type Report = Box<dyn FnOnce(String) + Send>;

/// The limits of the handshakes of a [`Door`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoorLimits {
    pub(crate) handshake_timeout: Duration,
    pub(crate) first_bytes_timeout: Duration,
    pub(crate) handshakes: usize,
    pub(crate) handshakes_per_source: usize,
}

impl DoorLimits {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        Self {
            handshake_timeout: config.handshake_timeout(),
            first_bytes_timeout: config.first_bytes_timeout(),
            handshakes: config.pending_handshakes,
            handshakes_per_source: config.pending_handshakes_per_source,
        }
    }
}

/// The settings of a [`Door`], and the senders of the connections that it accepts.
pub(crate) struct DoorRules {
    pub(crate) token: Option<Token>,
    pub(crate) job: String,
    pub(crate) world_size: usize,
    /// The approximate time after which idle connections end when the network is lost.
    pub(crate) keep_alive: Duration,
    pub(crate) limits: DoorLimits,
    /// Receives a line if connections cannot be accepted.
    pub(crate) notice: fn(&str),
    /// Receives the ranks that want to join. Only rank 0 has one.
    pub(crate) arrivals: Option<SyncSender<Arrival>>,
    pub(crate) rpc: mpsc::Sender<RpcStream>,
    /// Receives the pulses that other ranks open.
    pub(crate) pulses: SyncSender<(usize, TcpStream)>,
}

/// A handle to the accept thread of a [`Door`], which it closes on drop.
pub(crate) struct Doorkeeper {
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
    door: Arc<Door>,
}

impl Door {
    pub(crate) fn new(rules: DoorRules) -> Self {
        let limits = rules.limits;
        let pending = PendingLimits {
            handshakes: limits.handshakes,
            per_source: limits.handshakes_per_source,
            patience: limits.first_bytes_timeout,
        };
        Self {
            token: rules.token,
            job: rules.job,
            world_size: rules.world_size,
            keep_alive: rules.keep_alive,
            limits,
            notice: rules.notice,
            arrivals: Mutex::new(rules.arrivals),
            rpc: Mutex::new(Some(rules.rpc)),
            pulses: rules.pulses,
            rings: Mutex::default(),
            ring_came: Condvar::new(),
            pending: Arc::new(Pending::new(pending)),
            strangers: Strangers::default(),
            report: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns the name of the job.
    pub(crate) fn job(&self) -> &str {
        &self.job
    }

    /// Returns the counts of connections without a valid handshake.
    pub(crate) fn strangers(&self) -> &Strangers {
        &self.strangers
    }

    /// Sets the function that is called when this process cannot accept connections for too long. Until it is set, the
    /// rendezvous gets an [`Arrival::CannotAccept`] instead.
    pub(crate) fn report_to(&self, report: impl FnOnce(String) + Send + 'static) {
        *lock(&self.report) = Some(Box::new(report));
    }

    /// Ends the registration: ranks that come later are rejected.
    fn close_registration(&self) {
        *lock(&self.arrivals) = None;
    }

    /// Ends the registration when all ranks have joined. Also rejects the ranks that are still in the queue `arrivals`.
    pub(crate) fn finish_registration(&self, arrivals: &Receiver<Arrival>) {
        self.close_registration();
        for arrival in arrivals.try_iter() {
            self.turn_away(arrival, &self.too_late());
        }
    }

    /// Waits for the connection of a process group that another rank opens. Returns `None` after `patience`, or when
    /// `give_up` returns true.
    pub(crate) fn take_ring(&self, key: &RingKey, patience: Duration, give_up: impl Fn() -> bool) -> Option<TcpStream> {
        let mut waited = Stopwatch::start();
        let mut rings = lock(&self.rings);
        loop {
            if let Some(stream) = rings.remove(key) {
                return Some(stream);
            }
            let remaining = patience.saturating_sub(waited.elapsed());
            if remaining.is_zero() || give_up() {
                return None;
            }
            rings = wait_for(&self.ring_came, rings, remaining.min(LOOK_AROUND));
        }
    }

    /// Starts the accept thread.
    pub(crate) fn open(self: &Arc<Self>, listener: TcpListener) -> Result<Doorkeeper, ClusterError> {
        listener.set_nonblocking(true).map_err(system("make the listening socket non-blocking"))?;
        let (waker, signal) = Waker::new().map_err(system("open a socket pair"))?;
        let door = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("edgecut-accept".to_owned())
            .spawn(move || door.accept_all(&listener, &signal))
            .map_err(system("start the accept thread"))?;
        Ok(Doorkeeper { waker, thread: Mutex::new(Some(thread)), door: Arc::clone(self) })
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener, signal: &WakeSignal) {
        // The time since which this process has had no file descriptor for a waiting connection.
        let mut exhausted_since: Option<Instant> = None;
        while !self.closed.load(Ordering::Acquire) {
            let error = match listener.accept() {
                Ok((stream, peer)) => {
                    exhausted_since = None;
                    self.greet_on_thread(stream, peer);
                    continue;
                }
                Err(error) => error,
            };
            let mut sockets = [PollFd::new(listener, PollFlags::IN), PollFd::new(&signal.0, PollFlags::IN)];
            // Without a free descriptor, `accept` fails even if no connection is waiting. That is not a problem yet.
            let is_trouble = error.kind() != io::ErrorKind::WouldBlock
                && wait_ready(&mut sockets, Duration::ZERO).is_ok()
                && sockets[0].revents().contains(PollFlags::IN);
            if is_trouble {
                if descriptors::is_exhausted(&error) {
                    exhausted_since = Some(self.complain(error, exhausted_since));
                }
                // Other errors concern a single connection, for example one that the peer has closed already.
                std::thread::sleep(LOOK_AROUND);
                continue;
            }
            exhausted_since = None;
            if wait_ready(&mut sockets, 10 * LOOK_AROUND).is_err() {
                std::thread::sleep(LOOK_AROUND);
            }
        }
    }

    /// Reports that there is no file descriptor for a connection. The first call prints a line. Once the problem has
    /// lasted for the handshake timeout, after which peers give up, it is reported as a failure of this process.
    /// Returns the time since which it lasts.
    fn complain(&self, error: io::Error, since: Option<Instant>) -> Instant {
        let reason = format!("accept a connection: {}", descriptors::explain(error));
        let Some(since) = since else {
            (self.notice)(&reason);
            return Instant::now();
        };
        let timeout = self.limits.handshake_timeout;
        if since.elapsed() < timeout {
            return since;
        }
        let reason = format!("{reason}; this has lasted for {}", seconds(timeout));
        if let Some(report) = lock(&self.report).take() {
            report(reason);
        } else {
            self.arrive(Arrival::CannotAccept { reason });
        }
        since
    }

    /// Runs the handshake with a new connection on a thread of its own.
    fn greet_on_thread(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        // Without a secret the listening address is loopback, so other peers can only come by unusual routing.
        if self.token.is_none() && !is_loopback(peer.ip()) {
            return;
        }
        let source = peer.ip().to_canonical();
        self.strangers.add(source);
        let stream = Arc::new(stream);
        let Some(slot) = self.pending.admit(&stream, source, &self.closed) else { return };
        let door = Arc::clone(self);
        // If no thread can be started, slot and stream are dropped with the closure, and the peer sees the connection
        // close.
        let _ = std::thread::Builder::new().name("edgecut-greet".to_owned()).spawn(move || {
            // An error here is a broken connection. If the peer is a rank, it reports the error itself.
            let _ = door.greet(stream, peer, &slot);
        });
    }

    /// Runs the handshake with a new connection, reads its purpose and dispatches it.
    fn greet(&self, stream: Arc<TcpStream>, peer: SocketAddr, slot: &Slot) -> io::Result<()> {
        // On some systems, accepted sockets inherit the non-blocking mode of the listener.
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        probe_when_idle(&stream, self.keep_alive)?;
        let deadline = Instant::now() + self.limits.handshake_timeout;
        if let Err(error) = self.shake_hands(&stream, deadline, slot) {
            self.tell_of_stranger(error, peer);
            return Ok(());
        }
        self.strangers.remove(peer.ip().to_canonical());
        if !slot.note_proved() {
            // The connection was closed just before, to make room for another one.
            return Ok(());
        }
        // `note_proved` has dropped the other reference, through which the connection could be closed to make room.
        let Some(stream) = Arc::into_inner(stream) else { return Ok(()) };
        match read_frame(Timed { stream: &stream, deadline })? {
            Hello::Register(register) => self.arrive(Arrival::Rank { register, stream, peer }),
            Hello::GiveUp { rank, attempt, reason } => self.arrive(Arrival::GaveUp { rank, attempt, peer, reason }),
            Hello::Rpc { job, from } => self.take_in_rpc(&job, from, stream, deadline)?,
            Hello::Ring { job, key } => self.take_in_ring(&job, key, stream, deadline)?,
            Hello::Pulse { job, from } => self.take_in_pulse(&job, from, stream, deadline)?,
        }
        Ok(())
    }

    fn shake_hands(&self, stream: &TcpStream, deadline: Instant, slot: &Slot) -> Result<(), HandshakeError> {
        let handshake = Handshake::new(self.token.as_ref(), deadline);
        handshake.accept_magic(stream, Instant::now() + self.limits.first_bytes_timeout)?;
        slot.note_speaking();
        handshake.accept(stream)
    }

    /// Tells the rendezvous of a failed handshake with a process of this project. Other failures are only counted.
    fn tell_of_stranger(&self, error: HandshakeError, peer: SocketAddr) {
        if !error.is_transient() {
            // It is reported on its own, so it does not count among the connections without a valid handshake.
            self.strangers.remove(peer.ip().to_canonical());
            self.arrive(Arrival::TurnedAway { reason: error.naming(peer.to_string()).to_string() });
        }
    }

    /// Passes an arrival to the rendezvous. After the rendezvous, rejects a rank as late.
    fn arrive(&self, arrival: Arrival) {
        // The lock is held while sending, so that nothing enters the queue after the registration is closed.
        let queued = match &*lock(&self.arrivals) {
            Some(sender) => sender.try_send(arrival),
            None => Err(TrySendError::Disconnected(arrival)),
        };
        match queued {
            Ok(()) => {}
            // The queue has more entries than the job has ranks, so a full queue means too many processes.
            Err(TrySendError::Full(arrival)) => self.turn_away(
                arrival,
                &format!("found rank 0 busy: more processes want to join than the job has ranks ({})", self.world_size),
            ),
            Err(TrySendError::Disconnected(arrival)) => self.turn_away(arrival, &self.too_late()),
        }
    }

    fn too_late(&self) -> String {
        format!("came too late: the job runs with all its {} ranks", self.world_size)
    }

    /// Rejects a rank with a reason. Other arrivals need no answer.
    fn turn_away(&self, arrival: Arrival, why: &str) {
        let Arrival::Rank { register, stream, peer } = arrival else { return };
        let reason = format!("rank {} at {peer} {why}", register.rank);
        let deadline = Instant::now() + self.limits.handshake_timeout;
        // The peer may have ended already.
        let _ = write_frame(Timed { stream: &stream, deadline }, &Admission::Rejected { reason });
    }

    fn take_in_rpc(&self, job: &str, from: usize, stream: TcpStream, deadline: Instant) -> io::Result<()> {
        if let Some(reason) = self.misfit(job, from) {
            return refuse(&stream, deadline, reason);
        }
        let sender = lock(&self.rpc).clone();
        // A slot in the queue is reserved before the answer, so that an accepted connection cannot be dropped.
        let place = match sender.as_ref().map(mpsc::Sender::try_reserve) {
            Some(Ok(place)) => place,
            Some(Err(mpsc::error::TrySendError::Full(()))) => {
                return refuse(&stream, deadline, "too many connections wait to be served".to_owned());
            }
            _ => return refuse(&stream, deadline, "this rank takes no RPC connections".to_owned()),
        };
        write_frame(Timed { stream: &stream, deadline }, &Answer::Welcome)?;
        make_plain(&stream)?;
        place.send((from, stream));
        Ok(())
    }

    fn take_in_ring(&self, job: &str, key: RingKey, stream: TcpStream, deadline: Instant) -> io::Result<()> {
        if let Some(reason) = self.misfit(job, key.from) {
            return refuse(&stream, deadline, reason);
        }
        if lock(&self.rings).len() >= MAX_WAITING_RINGS {
            return refuse(&stream, deadline, "too many rings wait for their group".to_owned());
        }
        write_frame(Timed { stream: &stream, deadline }, &Answer::Welcome)?;
        make_plain(&stream)?;
        lock(&self.rings).insert(key, stream);
        self.ring_came.notify_all();
        Ok(())
    }

    fn take_in_pulse(&self, job: &str, from: usize, stream: TcpStream, deadline: Instant) -> io::Result<()> {
        if let Some(reason) = self.misfit(job, from) {
            return refuse(&stream, deadline, reason);
        }
        write_frame(Timed { stream: &stream, deadline }, &Answer::Welcome)?;
        make_plain(&stream)?;
        end_when_unacknowledged(&stream, 2 * self.keep_alive)?;
        // If the queue is full, the stream is dropped, and the peer stops watching this connection.
        let _ = self.pulses.try_send((from, stream));
        Ok(())
    }

    /// Returns why a connection does not belong to this job; `None` if it does.
    fn misfit(&self, job: &str, from: usize) -> Option<String> {
        if job != self.job {
            return Some("it belongs to another job".to_owned());
        }
        (from >= self.world_size).then(|| format!("there is no rank {from} in a job of {}", self.world_size))
    }
}

impl Doorkeeper {
    /// Closes the listening socket and drops all accepted connections that nobody has taken.
    pub(crate) fn close(&self) {
        self.door.closed.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = lock(&self.thread).take() {
            // An error means that the thread panicked, so it has ended too.
            let _ = thread.join();
        }
        self.door.close_registration();
        // Dropping the last sender ends the application's receiver.
        *lock(&self.door.rpc) = None;
        *lock(&self.door.report) = None;
        lock(&self.door.rings).clear();
    }
}

impl Drop for Doorkeeper {
    fn drop(&mut self) {
        self.close();
    }
}

fn refuse(stream: &TcpStream, deadline: Instant, reason: String) -> io::Result<()> {
    write_frame(Timed { stream, deadline }, &Answer::Refused { reason })
}

/// Removes the timeouts of the handshake from a stream and makes it non-blocking, for use with an event loop.
pub(crate) fn make_plain(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    stream.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn door(arrivals: SyncSender<Arrival>) -> Door {
        Door::new(DoorRules {
            token: None,
            job: "job".to_owned(),
            world_size: 2,
            keep_alive: Duration::from_secs(60),
            limits: DoorLimits::of(&ClusterConfig::new(0, 2, "localhost", 1)),
            notice: |_| {},
            arrivals: Some(arrivals),
            rpc: mpsc::channel(1).0,
            pulses: sync_channel(1).0,
        })
    }

    /// Returns the arrival of a rank, and the rank's own end of the connection.
    fn rank() -> (Arrival, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listen = listener.local_addr().unwrap();
        let own = TcpStream::connect(listen).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let register =
            Register { rank: 1, world_size: 2, fingerprint: String::new(), listen, attempt: 0, waited_ms: 0 };
        (Arrival::Rank { register, stream, peer }, own)
    }

    fn rejection(own: &TcpStream) -> String {
        match read_frame(own).unwrap() {
            Admission::Rejected { reason } => reason,
            Admission::Roster { .. } => panic!("it is no member"),
        }
    }

    #[test]
    fn a_rank_that_finds_no_place_in_the_queue_is_told_why() {
        let (sender, _arrivals) = sync_channel(0);
        let (arrival, own) = rank();
        door(sender).arrive(arrival);
        assert!(rejection(&own).ends_with("more processes want to join than the job has ranks (2)"));
    }

    #[test]
    fn ranks_that_wait_when_the_registration_ends_are_told_so() {
        let (sender, arrivals) = sync_channel(1);
        let door = door(sender);
        let (waiting, own) = rank();
        let (late, own_late) = rank();
        door.arrive(waiting);
        door.finish_registration(&arrivals);
        door.arrive(late);
        for own in [own, own_late] {
            assert!(rejection(&own).ends_with("came too late: the job runs with all its 2 ranks"));
        }
    }
}

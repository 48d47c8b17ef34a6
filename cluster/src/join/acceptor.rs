//! The acceptor of incoming connections, and its thread.

use crate::timeouts::STOP_CHECK_INTERVAL;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use tokio::sync::mpsc;

use crate::config::ClusterConfig;
use crate::error::{ClusterError, seconds, system};
use crate::handshake::identity::{Binding, Identity, JobId, Party};
use crate::io_error::{explain, is_exhausted};
use crate::join::messages::{Register, RingKey, RunName};
use crate::join::pending_handshakes::{HandshakeSlot, PendingHandshakes, PendingLimits};
use crate::join::strangers::Strangers;
use crate::locks::{lock, wait_for};
use crate::readiness::{WakeSignal, Waker, wait_ready};
use crate::secure::protection::Protection;
use crate::secure::stream::SecureStream;
use crate::token::Token;

/// An event for the rendezvous.
pub(crate) enum Arrival {
    /// A rank that wants to join, with its control connection.
    Rank { register: Register, stream: SecureStream, peer: SocketAddr },
    /// A rank that cannot join, for a reason of its own.
    GaveUp { rank: usize, run: RunName, peer: SocketAddr, reason: String },
    /// A process that failed the handshake: it has another version, another secret or another user.
    TurnedAway { reason: String },
    /// This process cannot accept connections.
    CannotAccept { reason: String },
}

/// An authenticated RPC connection and the rank that opened it.
pub(crate) type RpcStream = (usize, SecureStream);

/// The acceptor: its settings, and the queues of accepted connections. It is shared by the accept thread and the
/// threads of handshakes.
pub(crate) struct Acceptor {
    pub(super) token: Option<Token>,
    pub(super) protection: Protection,
    // The identity of this process.
    pub(super) party: Party,
    // The name of the job, or of the data that a server serves. `None` until a rank has learned it.
    job: Mutex<Option<String>>,
    // The name for clients of a server, if it is another one.
    for_clients: OnceLock<String>,
    // Notified when `job` is set.
    job_known: Condvar,
    pub(super) world_size: usize,
    pub(super) keep_alive: Duration,
    pub(super) limits: HandshakeLimits,
    pub(super) notice: fn(&str),
    // `None` once the rendezvous is over, and on ranks other than 0.
    pub(super) arrivals: Mutex<Option<SyncSender<Arrival>>>,
    // `None` once the acceptor is closed.
    pub(super) rpc: Mutex<Option<mpsc::Sender<RpcStream>>>,
    pub(super) pulses: SyncSender<(usize, SecureStream)>,
    // Connections of process groups that this process has not created yet.
    // `None` while the answer to a connection is sent.
    pub(super) rings: Mutex<HashMap<RingKey, Option<SecureStream>>>,
    // Notified when a connection is added to `rings`.
    pub(super) ring_came: Condvar,
    pub(super) pending: Arc<PendingHandshakes>,
    pub(super) strangers: Strangers,
    // The number of connections for other processes that were reported.
    pub(super) misdirected: AtomicUsize,
    // Reports to the job that this process cannot accept connections any more.
    pub(super) report: Mutex<Option<Report>>,
    pub(super) closed: AtomicBool,
}

/// A function that reports a failure of this process, given the reason.
type Report = Box<dyn FnOnce(String) + Send>;

/// The limits of the handshakes of an [`Acceptor`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakeLimits {
    pub(crate) handshake_timeout: Duration,
    pub(crate) first_bytes_timeout: Duration,
    pub(crate) handshakes: usize,
    pub(crate) handshakes_per_source: usize,
}

impl HandshakeLimits {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        Self {
            handshake_timeout: config.handshake_timeout(),
            first_bytes_timeout: config.first_bytes_timeout(),
            handshakes: config.pending_handshakes,
            handshakes_per_source: config.pending_handshakes_per_source,
        }
    }
}

/// The settings of an [`Acceptor`], and the senders of the connections that it accepts.
pub(crate) struct AcceptorSettings {
    pub(crate) token: Option<Token>,
    pub(crate) protection: Protection,
    pub(crate) party: Party,
    /// `None` if this process has yet to learn it, see [`Acceptor::name_job`].
    pub(crate) job: Option<String>,
    /// The number of ranks of the job. A server has none.
    pub(crate) world_size: usize,
    /// The approximate time after which idle connections end when the network is lost.
    pub(crate) keep_alive: Duration,
    pub(crate) limits: HandshakeLimits,
    /// Receives a line if connections cannot be accepted.
    pub(crate) notice: fn(&str),
    /// Receives the ranks that want to join. Only rank 0 has one.
    pub(crate) arrivals: Option<SyncSender<Arrival>>,
    pub(crate) rpc: mpsc::Sender<RpcStream>,
    /// Receives the pulses that other ranks open.
    pub(crate) pulses: SyncSender<(usize, SecureStream)>,
}

/// A handle to the accept thread of an [`Acceptor`], which it closes on drop.
pub(crate) struct AcceptThread {
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
    acceptor: Arc<Acceptor>,
}

impl Acceptor {
    pub(crate) fn new(settings: AcceptorSettings) -> Self {
        let limits = settings.limits;
        let pending = PendingLimits {
            handshakes: limits.handshakes,
            per_source: limits.handshakes_per_source,
            patience: limits.first_bytes_timeout,
        };
        Self {
            token: settings.token,
            protection: settings.protection,
            party: settings.party,
            job: Mutex::new(settings.job),
            for_clients: OnceLock::new(),
            job_known: Condvar::new(),
            world_size: settings.world_size,
            keep_alive: settings.keep_alive,
            limits,
            notice: settings.notice,
            arrivals: Mutex::new(settings.arrivals),
            rpc: Mutex::new(Some(settings.rpc)),
            pulses: settings.pulses,
            rings: Mutex::default(),
            ring_came: Condvar::new(),
            pending: Arc::new(PendingHandshakes::new(pending)),
            strangers: Strangers::default(),
            misdirected: AtomicUsize::new(0),
            report: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Sets the name of the job, once this rank has learned it.
    pub(crate) fn name_job(&self, job: String) {
        *lock(&self.job) = Some(job);
        self.job_known.notify_all();
    }

    /// Sets the name of the data of this server for clients, once.
    pub(crate) fn name_for_clients(&self, name: String) {
        let _ = self.for_clients.set(name);
    }

    /// Returns the name of the job; empty until it is known.
    pub(crate) fn job(&self) -> String {
        lock(&self.job).clone().unwrap_or_default()
    }

    /// Returns the identity of this process, for a connection with these ends. Another rank may learn the name of the
    /// job first and connect at once, so this waits for the name if the connector knows it. It gives up at the deadline,
    /// and if the connection was closed to make room for others.
    pub(super) fn identity_for(&self, binding: &Binding, deadline: Instant, slot: &HandshakeSlot) -> Identity {
        if matches!(binding.from, Party::Client(_))
            && let Some(name) = self.for_clients.get()
        {
            return Identity { party: self.party, job: JobId::of(name) };
        }
        let is_meant = binding.to.party == self.party && binding.to.job != JobId::UNKNOWN;
        let mut job = lock(&self.job);
        while is_meant && job.is_none() {
            if Instant::now() >= deadline || self.closed.load(Ordering::Acquire) || slot.is_evicted() {
                break;
            }
            job = wait_for(&self.job_known, job, STOP_CHECK_INTERVAL);
        }
        Identity { party: self.party, job: job.as_deref().map_or(JobId::UNKNOWN, JobId::of) }
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

    /// Starts the accept thread.
    pub(crate) fn start(self: &Arc<Self>, listener: TcpListener) -> Result<AcceptThread, ClusterError> {
        listener.set_nonblocking(true).map_err(system("make the listening socket non-blocking"))?;
        let (waker, signal) = Waker::new().map_err(system("open a socket pair"))?;
        let acceptor = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("edgecut-accept".to_owned())
            .spawn(move || acceptor.accept_all(&listener, &signal))
            .map_err(system("start the accept thread"))?;
        Ok(AcceptThread { waker, thread: Mutex::new(Some(thread)), acceptor: Arc::clone(self) })
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener, signal: &WakeSignal) {
        // The time since which this process has had no file descriptor for a waiting connection.
        let mut exhausted_since: Option<Instant> = None;
        while !self.closed.load(Ordering::Acquire) {
            let error = match listener.accept() {
                Ok((stream, peer)) => {
                    exhausted_since = None;
                    self.welcome_on_thread(stream, peer);
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
                if is_exhausted(&error) {
                    exhausted_since = Some(self.complain(error, exhausted_since));
                }
                // Other errors concern a single connection, for example one that the peer has closed already.
                std::thread::sleep(STOP_CHECK_INTERVAL);
                continue;
            }
            exhausted_since = None;
            if wait_ready(&mut sockets, 10 * STOP_CHECK_INTERVAL).is_err() {
                std::thread::sleep(STOP_CHECK_INTERVAL);
            }
        }
    }

    /// Reports that there is no file descriptor for a connection. The first call prints a line. Once the problem has
    /// lasted for the handshake timeout, after which peers give up, it is reported as a failure of this process.
    /// Returns the time since which it lasts.
    fn complain(&self, error: io::Error, since: Option<Instant>) -> Instant {
        let reason = format!("accept a connection: {}", explain(error));
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
}

impl AcceptThread {
    /// Closes the listening socket and drops all accepted connections that nobody has taken.
    pub(crate) fn close(&self) {
        self.acceptor.closed.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = lock(&self.thread).take() {
            // An error means that the thread panicked, so it has ended too.
            let _ = thread.join();
        }
        self.acceptor.close_registration();
        // Dropping the last sender ends the application's receiver.
        *lock(&self.acceptor.rpc) = None;
        *lock(&self.acceptor.report) = None;
        lock(&self.acceptor.rings).clear();
    }
}

impl Drop for AcceptThread {
    fn drop(&mut self) {
        self.close();
    }
}

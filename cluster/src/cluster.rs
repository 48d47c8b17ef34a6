//! This process's membership in a job.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::address::{listen_as_master, master_own_addr};
use crate::board::{Board, Ending, lock};
use crate::config::ClusterConfig;
use crate::control::{Control, Heartbeat, Plan};
use crate::descriptors;
use crate::door::{Door, DoorLimits, DoorRules, Doorkeeper, RpcStream};
use crate::engine::Engine;
use crate::error::{ClusterError, Failure, seconds, system};
use crate::keep_alive::end_when_unacknowledged;
use crate::outbound::{self, Purpose};
use crate::panics::{current_panic, remember_panics};
use crate::registry::list;
use crate::rendezvous::{self, Assembly};
use crate::token::random_hex;
use crate::verdict::Verdict;
use crate::wire::Hello;

/// How long an error waits for the control plane to name its true cause.
const VERDICT_WAIT: Duration = Duration::from_secs(2);
/// Longer reasons of a failure are cut.
const MAX_REASON_BYTES: usize = 4096;
/// No process can have more sockets open than this. The documentation of `rpc_backlog` names it.
const MAX_RPC_BACKLOG: usize = 1 << 20;
/// Room at the door for peers that are turned away, next to the ranks themselves.
const SPARE_ARRIVALS: usize = 64;

/// A handle on this process's membership in a job. Clones are the same membership.
///
/// When the last handle, [`ProcessGroup`](crate::ProcessGroup)s included, is dropped without [`Cluster::shutdown`],
/// the other ranks see that as the death of this one. A handle that is dropped by a panic tells them its text first,
/// unless `report_panics` of the configuration is off.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClusterConfig,
    roster: Vec<SocketAddr>,
    door: Arc<Door>,
    doorkeeper: Doorkeeper,
    control: Control,
    board: Arc<Board>,
    rpc_incoming: Mutex<Option<mpsc::Receiver<RpcStream>>>,
    // How many groups of a name and members were made; all members count alike, so the numbers tell rings apart.
    group_instances: Mutex<HashMap<(String, Vec<usize>), u64>>,
    // The ranks to which this process has opened a pulse.
    watched: Mutex<HashSet<usize>>,
}

/// The connections that the door hands to the rest of a membership.
struct Incoming {
    rpc: mpsc::Receiver<RpcStream>,
    pulses: std::sync::mpsc::Receiver<(usize, TcpStream)>,
}

impl Cluster {
    /// Joins a job: blocks until all ranks have, or until the rendezvous fails.
    ///
    /// A job of one rank uses neither the master's address nor its port.
    ///
    /// # Errors
    /// A configuration that makes no sense; a port in use; a missing secret for an address that is not loopback;
    /// a secret or a protocol version that differs; another user's process without a secret; a limit of open files that
    /// is too low for the connections; a rank that is missing at the deadline, is there twice, or
    /// disagrees on the world size or on the fingerprint. The error names the rank or the address.
    pub fn join(config: ClusterConfig) -> Result<Self, ClusterError> {
        config.validate()?;
        remember_panics();
        descriptors::reserve(&config)?;
        if config.rank == 0 {
            let listener = listen_as_master(&config)?;
            return Self::host(listener, config);
        }
        let member = rendezvous::join(&config)?;
        let (door, incoming) = new_door(&config, member.job, None);
        let doorkeeper = door.open(member.listener)?;
        let assembly = Assembly { roster: member.roster, controls: vec![(0, member.control)] };
        Self::assemble(config, assembly, door, doorkeeper, incoming)
    }

    /// Like [`Cluster::join`] for rank 0, with a socket that the caller has bound: so a port that the system chose
    /// can be told to the other ranks before anyone else takes it.
    ///
    /// # Errors
    /// As [`Cluster::join`], and a rank that is not 0.
    pub fn join_on(listener: TcpListener, config: ClusterConfig) -> Result<Self, ClusterError> {
        config.validate()?;
        if config.rank != 0 {
            return Err(ClusterError::Config(format!("rank {} cannot listen as the master", config.rank)));
        }
        descriptors::reserve(&config)?;
        crate::address::check_allowed(&config, "listen on", crate::address::local_addr(&listener)?)?;
        Self::host(listener, config)
    }

    fn host(listener: TcpListener, config: ClusterConfig) -> Result<Self, ClusterError> {
        let own = master_own_addr(&listener)?;
        let (sender, arrivals) = std::sync::mpsc::sync_channel(config.world_size + SPARE_ARRIVALS);
        let (door, incoming) = new_door(&config, random_hex::<16>()?, Some(sender));
        let doorkeeper = door.open(listener)?;
        let assembly = rendezvous::host(&config, own, &door, &arrivals)?;
        door.finish_registration(&arrivals);
        Self::assemble(config, assembly, door, doorkeeper, incoming)
    }

    fn assemble(
        config: ClusterConfig,
        assembly: Assembly,
        door: Arc<Door>,
        doorkeeper: Doorkeeper,
        incoming: Incoming,
    ) -> Result<Self, ClusterError> {
        let Assembly { roster, controls } = assembly;
        let board = Arc::new(Board::default());
        let heartbeat = Heartbeat {
            interval: Duration::from_millis(config.heartbeat_interval_ms),
            timeout: Duration::from_millis(config.heartbeat_timeout_ms),
        };
        for (_, stream) in &controls {
            end_when_unacknowledged(stream, 2 * heartbeat.timeout).map_err(system("set a timeout of a connection"))?;
        }
        let engine = Engine::new(config.rank, roster.clone());
        let pulses = incoming.pulses;
        let control = Control::spawn(Plan { engine, controls, heartbeat, board: Arc::clone(&board), pulses })?;
        let inner = Inner {
            config,
            roster,
            door,
            doorkeeper,
            control,
            board,
            rpc_incoming: Mutex::new(Some(incoming.rpc)),
            group_instances: Mutex::default(),
            watched: Mutex::default(),
        };
        let cluster = Self { inner: Arc::new(inner) };
        cluster.fail_when_exhausted();
        Ok(cluster)
    }

    /// Makes this process fail when it cannot accept connections any more.
    fn fail_when_exhausted(&self) {
        let membership = Arc::downgrade(&self.inner);
        self.inner.door.report_to(move |reason| {
            let report = move || {
                if let Some(inner) = membership.upgrade() {
                    let cluster = Self { inner };
                    cluster.report(cluster.failure_of(cluster.rank(), &reason));
                }
            };
            // A thread of its own: this one is waited for when the last handle is dropped, which may be the one here.
            // Without it, the peers that wait in vain report this process.
            let _ = std::thread::Builder::new().name("edgecut-report".to_owned()).spawn(report);
        });
    }

    /// This process, from 0 to `world_size() - 1`.
    pub fn rank(&self) -> usize {
        self.inner.config.rank
    }

    /// The number of processes of the job.
    pub fn world_size(&self) -> usize {
        self.inner.config.world_size
    }

    /// This process among those of its node.
    pub fn local_rank(&self) -> usize {
        self.inner.config.local_rank
    }

    /// The number of processes of this node.
    pub fn local_world_size(&self) -> usize {
        self.inner.config.local_world_size
    }

    /// The configuration that this process joined with.
    pub fn config(&self) -> &ClusterConfig {
        &self.inner.config
    }

    /// The listening address of a rank, as it is reached from here.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn addr_of(&self, rank: usize) -> Result<SocketAddr, ClusterError> {
        self.inner
            .roster
            .get(rank)
            .copied()
            .ok_or_else(|| ClusterError::Config(format!("there is no rank {rank} in a job of {}", self.world_size())))
    }

    /// The authenticated connections that other ranks open with [`Cluster::connect_rpc`], each with its rank. They are
    /// non-blocking, ready for `tokio::net::TcpStream::from_std`. The receiver ends when the membership does.
    ///
    /// The first call gets it, later ones get `None`. Up to `rpc_backlog` connections wait in it.
    pub fn take_rpc_incoming(&self) -> Option<mpsc::Receiver<(usize, TcpStream)>> {
        lock(&self.inner.rpc_incoming).take()
    }

    /// Opens an authenticated connection to a rank. It has TCP_NODELAY and comes back non-blocking. Blocks for
    /// `connect_timeout_ms` at most.
    ///
    /// # Errors
    /// There is no such rank, it cannot be reached or refuses; or the job has failed, which is then the error.
    pub fn connect_rpc(&self, rank: usize) -> Result<TcpStream, ClusterError> {
        let addr = self.addr_of(rank)?;
        let purpose = Hello::Rpc { job: self.inner.door.job().to_owned(), from: self.rank() };
        self.open_for(&purpose, rank, addr)
    }

    /// Tries once to open an authenticated connection to a rank, within `timeout`. The stream is as that of
    /// [`Cluster::connect_rpc`]. Does not wait for the control plane to explain an error, so that a caller can retry soon.
    ///
    /// # Errors
    /// There is no such rank, or it cannot be reached or refuses.
    pub fn try_connect_rpc(&self, rank: usize, timeout: Duration) -> Result<TcpStream, ClusterError> {
        let addr = self.addr_of(rank)?;
        let purpose = Hello::Rpc { job: self.inner.door.job().to_owned(), from: self.rank() };
        self.open_watched(&Purpose { hello: &purpose, rank, addr }, timeout)
    }

    /// Opens a connection to a rank. Waits for the control plane to explain an error.
    pub(crate) fn open_for(&self, hello: &Hello, rank: usize, addr: SocketAddr) -> Result<TcpStream, ClusterError> {
        let opened = self.open_watched(&Purpose { hello, rank, addr }, self.inner.config.connect_timeout());
        opened.map_err(|error| match error {
            // The peer is alive and knows what it does.
            ClusterError::Refused { .. } => error,
            _ => self.wait_for_failure().map_or_else(|| self.unreachable(rank, error), ClusterError::RankFailed),
        })
    }

    /// Opens a connection to a rank, and watches the network between the two from the first one on.
    fn open_watched(&self, purpose: &Purpose<'_>, timeout: Duration) -> Result<TcpStream, ClusterError> {
        let deadline = Instant::now() + timeout;
        let stream = self.open_one(purpose, timeout)?;
        let rank = purpose.rank;
        // The control plane watches the connections to rank 0.
        let is_watched = self.rank() == 0 || rank == 0 || rank == self.rank();
        if !is_watched && lock(&self.inner.watched).insert(rank) {
            let hello = Hello::Pulse { job: self.inner.door.job().to_owned(), from: self.rank() };
            let purpose_of_pulse = Purpose { hello: &hello, rank, addr: purpose.addr };
            let pulse = self.open_one(&purpose_of_pulse, deadline.saturating_duration_since(Instant::now())).and_then(
                |pulse| {
                    let longest_silence = 2 * self.inner.config.heartbeat_timeout();
                    end_when_unacknowledged(&pulse, longest_silence)
                        .map_err(system("set a timeout of a connection"))?;
                    Ok(pulse)
                },
            );
            match pulse {
                Ok(pulse) => self.inner.control.watch(rank, pulse),
                Err(error) => {
                    // The next connection tries again.
                    lock(&self.inner.watched).remove(&rank);
                    return Err(error);
                }
            }
        }
        Ok(stream)
    }

    fn open_one(&self, purpose: &Purpose<'_>, timeout: Duration) -> Result<TcpStream, ClusterError> {
        let config = &self.inner.config;
        outbound::open_for(purpose, config.token.as_ref(), timeout, config.heartbeat_timeout())
    }

    /// A rank cannot be connected to, and nothing is known to be wrong with it. Where the network is the reason, the
    /// others hear of it, and the error names both ends.
    fn unreachable(&self, rank: usize, error: ClusterError) -> ClusterError {
        use std::io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
        match &error {
            ClusterError::Connect { cause, .. }
                if matches!(cause.kind(), TimedOut | HostUnreachable | NetworkUnreachable) =>
            {
                let reason = format!("rank {} cannot connect to rank {rank}: {cause}", self.rank());
                self.report(Failure { link_to: Some(self.rank()), ..self.failure_of(rank, &reason) });
                self.wait_for_failure().map_or(error, ClusterError::RankFailed)
            }
            _ => error,
        }
    }

    /// The first failure of the job that this process knows of. It stays.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.board.failure()
    }

    /// Waits, without blocking the thread, until a rank of the job fails: for what waits for another rank in async code.
    pub async fn failed(&self) -> Failure {
        self.inner.board.failed().await
    }

    /// Returns whether this process was suspended (stopped, or on a machine that was) at some time after `since`. What waits for
    /// other ranks with a deadline of its own starts over then, as all waits of this crate do.
    pub fn was_suspended_since(&self, since: Instant) -> bool {
        self.inner.control.was_suspended_since(since)
    }

    /// Calls `watcher` once, on a thread of its own, when a rank has failed; at once if that is known already. Not
    /// called for this process's own [`Cluster::abort`].
    ///
    /// A watcher that holds a clone of the handle keeps the membership alive until the job ends.
    pub fn on_failure(&self, watcher: impl FnOnce(Failure) + Send + 'static) {
        self.inner.board.watch(Box::new(watcher));
    }

    /// Puts an error of this process together with the failure that caused it, if any: waits for up to two seconds
    /// for the control plane to name one. For errors on connections to other ranks; others need no waiting.
    pub fn verdict<E: fmt::Display>(&self, own: E) -> Verdict<E> {
        Verdict { failure: self.inner.board.wait_for_failure(VERDICT_WAIT), own }
    }

    /// Tells all other ranks that this one fails, and why. Returns when the news has left this process, after two
    /// seconds at most; the process can then exit.
    pub fn abort(&self, reason: &str) {
        let failure = self.failure_of(self.rank(), reason);
        self.inner.board.record_own(&failure);
        self.inner.control.report(failure, VERDICT_WAIT);
    }

    /// Leaves the job in good order: waits until all ranks want to, then closes all connections, so that no rank takes
    /// the end of another for its death. Groups cannot be used afterwards.
    ///
    /// # Errors
    /// A rank failed, or is not done `collective_timeout_ms` after rank 0.
    pub fn shutdown(self) -> Result<(), ClusterError> {
        let inner = &self.inner;
        inner.control.leave();
        // Rank 0 knows who is not done. The others give it time to find out, even if it is done only now.
        let timeout = inner.config.collective_timeout() * if self.rank() == 0 { 1 } else { 2 };
        let ending = inner.board.wait(timeout);
        match ending {
            Ending::Finished => {
                inner.doorkeeper.close();
                inner.control.stop();
                Ok(())
            }
            Ending::Failed(failure) => Err(ClusterError::RankFailed(failure)),
            Ending::Open => {
                let (rank, reason) = self.tardy(timeout);
                let failure = self.failure_of(rank, &reason);
                self.report(failure.clone());
                Err(ClusterError::RankFailed(inner.board.wait_for_failure(VERDICT_WAIT).unwrap_or(failure)))
            }
        }
    }

    /// Whom to name when not all ranks are done in time.
    fn tardy(&self, timeout: Duration) -> (usize, String) {
        let unfinished = self.inner.control.unfinished();
        match (self.rank(), unfinished.first()) {
            (0, Some(&first)) => {
                let reason = format!("not done {} after rank 0 (waiting for: {})", seconds(timeout), list(&unfinished));
                (first, reason)
            }
            _ => (0, format!("sent no goodbye for {} after rank {} was done", seconds(timeout), self.rank())),
        }
    }

    pub(crate) fn failure_of(&self, rank: usize, reason: &str) -> Failure {
        // Every rank that is named here comes from the roster.
        let addr = self.inner.roster.get(rank).copied().unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        Failure { rank, addr, reason: shortened(reason).to_owned(), link_to: None }
    }

    /// Tells rank 0 of a failure, which it will spread unless it knows of an earlier one.
    pub(crate) fn report(&self, failure: Failure) {
        self.inner.control.report(failure, VERDICT_WAIT);
    }

    /// Tells rank 0 that a rank was waited for too long. It may name another one, which holds up that one.
    pub(crate) fn suspect(&self, failure: Failure) {
        self.inner.control.suspect(failure);
    }

    pub(crate) fn board(&self) -> &Board {
        &self.inner.board
    }

    pub(crate) fn door(&self) -> &Door {
        &self.inner.door
    }

    pub(crate) fn wait_for_failure(&self) -> Option<Failure> {
        self.inner.board.wait_for_failure(VERDICT_WAIT)
    }

    /// The number of groups of that name and those members made before.
    pub(crate) fn next_instance(&self, name: &str, members: &[usize]) -> u64 {
        let mut instances = lock(&self.inner.group_instances);
        let count = instances.entry((name.to_owned(), members.to_vec())).or_insert(0);
        *count += 1;
        *count - 1
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster(rank {} of {})", self.rank(), self.world_size())
    }
}

impl Drop for Cluster {
    /// Tells the other ranks of a panic that unwinds the calling thread.
    fn drop(&mut self) {
        if std::thread::panicking() && self.inner.config.report_panics && self.inner.board.is_open() {
            self.abort(&current_panic());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.doorkeeper.close();
        self.control.stop();
    }
}

fn new_door(
    config: &ClusterConfig,
    job: String,
    arrivals: Option<std::sync::mpsc::SyncSender<crate::door::Arrival>>,
) -> (Arc<Door>, Incoming) {
    let (rpc, rpc_incoming) = mpsc::channel(config.rpc_backlog.min(MAX_RPC_BACKLOG));
    let (pulses, pulses_incoming) = std::sync::mpsc::sync_channel(config.world_size);
    let rules = DoorRules {
        token: config.token.clone(),
        job,
        world_size: config.world_size,
        keep_alive: config.heartbeat_timeout(),
        limits: DoorLimits::of(config),
        notice: config.notice,
        arrivals,
        rpc,
        pulses,
    };
    (Arc::new(Door::new(rules)), Incoming { rpc: rpc_incoming, pulses: pulses_incoming })
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}

//! The membership of this process in a job.

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

/// The longest wait of an error for the control plane to name its cause.
const VERDICT_WAIT: Duration = Duration::from_secs(2);
/// The length at which the reason of a failure is cut.
const MAX_REASON_BYTES: usize = 4096;
/// The largest RPC backlog: Linux's default for the open files of a process. The documentation of `rpc_backlog` gives
/// this number.
const MAX_RPC_BACKLOG: usize = 1 << 20;
/// Entries of the arrival queue for rejected peers, in addition to one per rank.
const SPARE_ARRIVALS: usize = 64;

/// A handle to the membership of this process in a job. Clones refer to the same membership.
///
/// Dropping the last handle, [`ProcessGroup`](crate::ProcessGroup)s included, without [`Cluster::shutdown`] counts as a
/// failure of this rank. A handle that is dropped during a panic first reports the panic message to the other ranks,
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
    // The number of groups created, by name and members. All members count alike, so the number identifies a group.
    group_instances: Mutex<HashMap<(String, Vec<usize>), u64>>,
    // The ranks to which this process has opened a pulse.
    watched: Mutex<HashSet<usize>>,
}

/// The receivers of the connections that the acceptor passes on.
struct Incoming {
    rpc: mpsc::Receiver<RpcStream>,
    pulses: std::sync::mpsc::Receiver<(usize, TcpStream)>,
}

impl Cluster {
    /// Joins a job. Blocks until all ranks have joined, or until the rendezvous fails.
    ///
    /// A job of one rank uses neither the master's address nor its port.
    ///
    /// # Errors
    /// * an invalid configuration;
    /// * a port in use;
    /// * no secret, and an address that is not loopback or a process of another user;
    /// * a peer with another secret or another protocol version;
    /// * a limit of open files that is too low for the connections;
    /// * a rank that is missing at the deadline, that joins twice, or that has another world size or fingerprint.
    ///
    /// The error names the rank or the address.
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

    /// Joins as rank 0 with a socket that the caller has bound. So the caller can let the system choose a port and tell
    /// it to the other ranks, without another program taking it in between.
    ///
    /// # Errors
    /// As [`Cluster::join`], and a rank other than 0.
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

    /// Arranges that this rank reports a failure when it cannot accept connections for too long.
    fn fail_when_exhausted(&self) {
        let membership = Arc::downgrade(&self.inner);
        self.inner.door.report_to(move |reason| {
            let report = move || {
                if let Some(inner) = membership.upgrade() {
                    let cluster = Self { inner };
                    cluster.report(cluster.failure_of(cluster.rank(), &reason));
                }
            };
            // This runs on the accept thread. Dropping the last handle joins the accept thread, and `cluster` in the
            // closure may be the last handle, so the report needs another thread. If none can be started, peers
            // that cannot connect report this rank.
            let _ = std::thread::Builder::new().name("edgecut-report".to_owned()).spawn(report);
        });
    }

    /// Returns the rank of this process, from 0 to `world_size() - 1`.
    pub fn rank(&self) -> usize {
        self.inner.config.rank
    }

    /// Returns the number of processes of the job.
    pub fn world_size(&self) -> usize {
        self.inner.config.world_size
    }

    /// Returns the rank of this process among the processes of its node.
    pub fn local_rank(&self) -> usize {
        self.inner.config.local_rank
    }

    /// Returns the number of processes on this node.
    pub fn local_world_size(&self) -> usize {
        self.inner.config.local_world_size
    }

    /// Returns the configuration that this process joined with.
    pub fn config(&self) -> &ClusterConfig {
        &self.inner.config
    }

    /// Returns the listening address of a rank, as seen from this process.
    ///
    /// # Errors
    /// A rank that does not exist.
    pub fn addr_of(&self, rank: usize) -> Result<SocketAddr, ClusterError> {
        self.inner
            .roster
            .get(rank)
            .copied()
            .ok_or_else(|| ClusterError::Config(format!("there is no rank {rank} in a job of {}", self.world_size())))
    }

    /// Takes the receiver of the authenticated connections that other ranks open with [`Cluster::connect_rpc`], each
    /// with its rank. The connections are non-blocking, ready for `tokio::net::TcpStream::from_std`. The receiver ends
    /// when the membership ends.
    ///
    /// The first call returns the receiver, later calls return `None`. Up to `rpc_backlog` connections wait in it.
    pub fn take_rpc_incoming(&self) -> Option<mpsc::Receiver<(usize, TcpStream)>> {
        lock(&self.inner.rpc_incoming).take()
    }

    /// Opens an authenticated connection to a rank. The stream is non-blocking and has `TCP_NODELAY` set. Blocks for at
    /// most `connect_timeout_ms`.
    ///
    /// # Errors
    /// A rank that does not exist, cannot be reached or refuses the connection. If the job has failed, the error is
    /// that failure.
    pub fn connect_rpc(&self, rank: usize) -> Result<TcpStream, ClusterError> {
        let addr = self.addr_of(rank)?;
        let purpose = Hello::Rpc { job: self.inner.door.job().to_owned(), from: self.rank() };
        self.open_for(&purpose, rank, addr)
    }

    /// Tries once to open an authenticated connection to a rank, within `timeout`. The stream is as that of
    /// [`Cluster::connect_rpc`]. An error returns at once, without waiting for the control plane to name its cause, so
    /// that a caller can retry soon.
    ///
    /// # Errors
    /// A rank that does not exist, cannot be reached or refuses the connection.
    pub fn try_connect_rpc(&self, rank: usize, timeout: Duration) -> Result<TcpStream, ClusterError> {
        let addr = self.addr_of(rank)?;
        let purpose = Hello::Rpc { job: self.inner.door.job().to_owned(), from: self.rank() };
        self.open_watched(&Purpose { hello: &purpose, rank, addr }, timeout)
    }

    /// Opens a connection to a rank. On an error, waits for the control plane to name its cause.
    pub(crate) fn open_for(&self, hello: &Hello, rank: usize, addr: SocketAddr) -> Result<TcpStream, ClusterError> {
        let opened = self.open_watched(&Purpose { hello, rank, addr }, self.inner.config.connect_timeout());
        opened.map_err(|error| match error {
            // The peer is alive, so its refusal is the cause.
            ClusterError::Refused { .. } => error,
            _ => self.wait_for_failure().map_or_else(|| self.unreachable(rank, error), ClusterError::RankFailed),
        })
    }

    /// Opens a connection to a rank. The first connection to a rank also opens a pulse to it, so that the control
    /// thread notices when the network between the two fails.
    fn open_watched(&self, purpose: &Purpose<'_>, timeout: Duration) -> Result<TcpStream, ClusterError> {
        let deadline = Instant::now() + timeout;
        let stream = self.open_one(purpose, timeout)?;
        let rank = purpose.rank;
        // Control connections exist between rank 0 and every other rank, and already carry heartbeats.
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
                    // The next connection to this rank tries again.
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

    /// Handles a failed connection to a rank that is not known to have failed. If the network is the cause, reports it
    /// to the other ranks as a failure that names both ends. Returns the error to show.
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

    /// Returns the first failure of the job that this process has learned of. Once set, it does not change.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.board.failure()
    }

    /// Waits until a rank of the job fails. For async code that waits for other ranks.
    pub async fn failed(&self) -> Failure {
        self.inner.board.failed().await
    }

    /// Returns whether this process was suspended at some time after `since`, by itself or with its machine. Code that
    /// waits for other ranks with its own deadline should then restart its clock, as the waits of this crate do.
    pub fn was_suspended_since(&self, since: Instant) -> bool {
        self.inner.control.was_suspended_since(since)
    }

    /// Calls `watcher` once, on a separate thread, when a rank fails; immediately if one has failed already. A
    /// [`Cluster::abort`] of this process does not call it.
    ///
    /// A watcher that owns a clone of the handle keeps the membership alive until the job ends.
    pub fn on_failure(&self, watcher: impl FnOnce(Failure) + Send + 'static) {
        self.inner.board.watch(Box::new(watcher));
    }

    /// Combines an error of this process with the failure of the job that caused it, if any. Waits for up to two
    /// seconds for the control plane to name a failure. Use it for errors on connections to other ranks.
    pub fn verdict<E: fmt::Display>(&self, own: E) -> Verdict<E> {
        Verdict { failure: self.inner.board.wait_for_failure(VERDICT_WAIT), own }
    }

    /// Reports the failure of this rank and its reason to all other ranks. Returns when the report has been sent, after
    /// at most two seconds. The process can then exit.
    pub fn abort(&self, reason: &str) {
        let failure = self.failure_of(self.rank(), reason);
        self.inner.board.record_own(&failure);
        self.inner.control.report(failure, VERDICT_WAIT);
    }

    /// Leaves the job. Waits until all ranks call this, then closes all connections, so that no rank mistakes a closed
    /// connection for a failure. Groups cannot be used afterwards.
    ///
    /// # Errors
    /// A rank failed, or did not call this within `collective_timeout_ms` after rank 0 did.
    pub fn shutdown(self) -> Result<(), ClusterError> {
        let inner = &self.inner;
        inner.control.leave();
        // Only rank 0 knows which ranks are not done. The others wait twice as long, so that its verdict comes first.
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

    /// Returns the rank to blame, and the reason, when not all ranks are done in time.
    fn tardy(&self, timeout: Duration) -> (usize, String) {
        let unfinished = self.inner.control.unfinished();
        match (self.rank(), unfinished.first()) {
            (0, Some(&first)) => {
                let reason = format!("not done {} after rank 0 (waiting for: {})", seconds(timeout), list(&unfinished));
                (first, reason)
            }
            _ => (0, format!("did not end the job within {} after rank {} was done", seconds(timeout), self.rank())),
        }
    }

    pub(crate) fn failure_of(&self, rank: usize, reason: &str) -> Failure {
        // All callers pass ranks of the roster, so the fallback is never shown.
        let addr = self.inner.roster.get(rank).copied().unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        Failure { rank, addr, reason: shortened(reason).to_owned(), link_to: None }
    }

    /// Reports a failure to rank 0, which tells all ranks unless it knows of an earlier failure.
    pub(crate) fn report(&self, failure: Failure) {
        self.inner.control.report(failure, VERDICT_WAIT);
    }

    /// Reports to rank 0 that this rank has waited too long for another. Rank 0 may find that a third rank is to blame.
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

    /// Returns the number of groups with this name and these members that were created before, and counts this one.
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
    /// Reports a panic that unwinds the calling thread to the other ranks.
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

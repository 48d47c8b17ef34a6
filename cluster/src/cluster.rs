//! This process's membership in a job.

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::address::{listen_as_master, master_own_addr};
use crate::board::{Board, Ending, lock};
use crate::config::ClusterConfig;
use crate::control::{Control, Heartbeat, Link};
use crate::door::{Door, DoorRules, Doorkeeper, RpcStream};
use crate::engine::Engine;
use crate::error::{ClusterError, Failure, seconds};
use crate::outbound;
use crate::registry::list;
use crate::rendezvous;
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
/// the other ranks see that as the death of this one.
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
}

impl Cluster {
    /// Joins a job: blocks until all ranks have, or until the rendezvous fails.
    ///
    /// A job of one rank uses neither the master's address nor its port.
    ///
    /// # Errors
    /// A configuration that makes no sense; a port in use; a missing secret for an address that is not loopback;
    /// a secret or a protocol version that differs; a rank that is missing at the deadline, is there twice, or
    /// disagrees on the world size or on the fingerprint. The error names the rank or the address.
    pub fn join(config: ClusterConfig) -> Result<Self, ClusterError> {
        config.validate()?;
        if config.rank == 0 {
            let listener = listen_as_master(&config)?;
            return Self::host(listener, config);
        }
        let member = rendezvous::join(&config)?;
        let (door, rpc_incoming) = new_door(&config, member.job, None);
        let doorkeeper = door.open(member.listener)?;
        Self::assemble(config, member.roster, vec![(0, member.control)], door, doorkeeper, rpc_incoming)
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
        crate::address::check_allowed(&config, "listen on", crate::address::local_addr(&listener)?)?;
        Self::host(listener, config)
    }

    fn host(listener: TcpListener, config: ClusterConfig) -> Result<Self, ClusterError> {
        let own = master_own_addr(&listener)?;
        let (sender, arrivals) = std::sync::mpsc::sync_channel(config.world_size + SPARE_ARRIVALS);
        let (door, rpc_incoming) = new_door(&config, random_hex::<16>()?, Some(sender));
        let doorkeeper = door.open(listener)?;
        let assembly = rendezvous::host(&config, own, door.job(), &arrivals)?;
        door.finish_registration(&arrivals);
        Self::assemble(config, assembly.roster, assembly.controls, door, doorkeeper, rpc_incoming)
    }

    fn assemble(
        config: ClusterConfig,
        roster: Vec<SocketAddr>,
        controls: Vec<(usize, TcpStream)>,
        door: Arc<Door>,
        doorkeeper: Doorkeeper,
        rpc_incoming: mpsc::Receiver<RpcStream>,
    ) -> Result<Self, ClusterError> {
        let board = Arc::new(Board::default());
        let heartbeat = Heartbeat {
            interval: Duration::from_millis(config.heartbeat_interval_ms),
            timeout: Duration::from_millis(config.heartbeat_timeout_ms),
        };
        let links = controls.into_iter().map(|(rank, stream)| Link::new(rank, stream)).collect();
        let engine = Engine::new(config.rank, roster.clone());
        let control = Control::spawn(engine, links, heartbeat, Arc::clone(&board))?;
        let inner = Inner {
            config,
            roster,
            door,
            doorkeeper,
            control,
            board,
            rpc_incoming: Mutex::new(Some(rpc_incoming)),
            group_instances: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
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
        outbound::open_for(&purpose, rank, addr, self.inner.config.token.as_ref(), timeout)
    }

    pub(crate) fn open_for(&self, purpose: &Hello, rank: usize, addr: SocketAddr) -> Result<TcpStream, ClusterError> {
        let config = &self.inner.config;
        let opened = outbound::open_for(purpose, rank, addr, config.token.as_ref(), config.connect_timeout());
        opened.map_err(|error| match error {
            // The peer is alive and knows what it does.
            ClusterError::Refused { .. } => error,
            _ => self.wait_for_failure().map_or(error, ClusterError::RankFailed),
        })
    }

    /// The first failure of the job that this process knows of. It stays.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.board.failure()
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
        Failure { rank, addr, reason: shortened(reason).to_owned() }
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
) -> (Arc<Door>, mpsc::Receiver<RpcStream>) {
    let (rpc, rpc_incoming) = mpsc::channel(config.rpc_backlog.min(MAX_RPC_BACKLOG));
    let rules = DoorRules {
        token: config.token.clone(),
        job,
        world_size: config.world_size,
        handshake_timeout: config.handshake_timeout(),
        arrivals,
        rpc,
    };
    (Arc::new(Door::new(rules)), rpc_incoming)
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}

//! The membership of this process in a job.

mod connections;
mod ending;
mod in_process;
#[cfg(test)]
mod redirected;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::system::uname;
use tokio::sync::mpsc;

use crate::address::{check_allowed, listen_as_master, local_addr, master_own_addr};
use crate::config::ClusterConfig;
use crate::error::{ClusterError, system};
use crate::failure::control_plane::ControlPlane;
use crate::failure::control_thread::{ControlInputs, ControlThread, Heartbeat};
use crate::failure::job_state::JobState;
use crate::failure::keep_alive::end_when_unacknowledged;
use crate::failure::panics::remember_panics;
use crate::failure::printer::Printer;
use crate::handshake::identity::Party;
use crate::join::acceptor::{AcceptThread, Acceptor, AcceptorSettings, Arrival, HandshakeLimits, RpcStream};
use crate::join::file_limit;
use crate::join::rendezvous::{self, Applicant, Assembly, Membership};
use crate::locks::lock;
use crate::secure::stream::SecureStream;
use crate::token::random_hex;

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
    acceptor: Arc<Acceptor>,
    accept_thread: AcceptThread,
    control: ControlThread,
    job_state: Arc<JobState>,
    printer: Arc<Printer>,
    rpc_incoming: Mutex<Option<mpsc::Receiver<RpcStream>>>,
    // The number of groups created, by name and members. All members count alike, so the number identifies a group.
    group_instances: Mutex<HashMap<(String, Vec<usize>), u64>>,
    // The ranks to which this process has opened a pulse.
    watched: Mutex<HashSet<usize>>,
}

/// The receivers of the connections that the acceptor passes on.
struct Incoming {
    rpc: mpsc::Receiver<RpcStream>,
    pulses: std::sync::mpsc::Receiver<(usize, SecureStream)>,
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
        file_limit::reserve(&config)?;
        if config.rank == 0 {
            let listener = listen_as_master(&config)?;
            return Self::host(listener, config);
        }
        let applicant = rendezvous::reach(&config)?;
        let listen = applicant.listen;
        Self::join_as_member(config, applicant, listen)
    }

    /// Joins as a rank other than 0, which the others reach at `listen`.
    fn join_as_member(config: ClusterConfig, applicant: Applicant, listen: SocketAddr) -> Result<Self, ClusterError> {
        let (listener, registration) = applicant.into_registration(&config, listen);
        let (acceptor, incoming) = new_acceptor(&config, None, None);
        // Connections that are meant for another rank are refused from now on. The others wait for the job's name.
        let accept_thread = acceptor.start(listener)?;
        let Membership { job, roster, control } = registration.complete(&config)?;
        acceptor.name_job(job);
        let assembly = Assembly { roster, controls: vec![(0, control)] };
        Self::assemble(config, assembly, acceptor, accept_thread, incoming)
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
        file_limit::reserve(&config)?;
        check_allowed(&config, "listen on", local_addr(&listener)?)?;
        Self::host(listener, config)
    }

    fn host(listener: TcpListener, config: ClusterConfig) -> Result<Self, ClusterError> {
        let own = master_own_addr(&listener)?;
        let (sender, arrivals) = std::sync::mpsc::sync_channel(config.world_size + SPARE_ARRIVALS);
        let (acceptor, incoming) = new_acceptor(&config, Some(random_hex::<16>()?), Some(sender));
        let accept_thread = acceptor.start(listener)?;
        let assembly = rendezvous::host(&config, own, &acceptor, &arrivals)?;
        acceptor.finish_registration(&arrivals);
        Self::assemble(config, assembly, acceptor, accept_thread, incoming)
    }

    fn assemble(
        config: ClusterConfig,
        assembly: Assembly,
        acceptor: Arc<Acceptor>,
        accept_thread: AcceptThread,
        incoming: Incoming,
    ) -> Result<Self, ClusterError> {
        let Assembly { roster, controls } = assembly;
        let job_state = Arc::new(JobState::default());
        let heartbeat = Heartbeat {
            interval: Duration::from_millis(config.heartbeat_interval_ms),
            timeout: Duration::from_millis(config.heartbeat_timeout_ms),
        };
        for (_, stream) in &controls {
            end_when_unacknowledged(stream.socket(), 2 * heartbeat.timeout)
                .map_err(system("set a timeout of a connection"))?;
        }
        let control_plane = ControlPlane::new(config.rank, roster.clone());
        let printer = Arc::new(Printer::new(config.rank, roster.clone(), config.print_failure));
        let pulses = incoming.pulses;
        let control = ControlThread::start(ControlInputs {
            control_plane,
            connections: controls,
            heartbeat,
            job_state: Arc::clone(&job_state),
            printer: Arc::clone(&printer),
            pulses,
        })?;
        let inner = Inner {
            config,
            roster,
            acceptor,
            accept_thread,
            control,
            job_state,
            printer,
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
        self.inner.acceptor.report_to(move |reason| {
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

    /// Returns the name of this rank for errors, with its host in a job on several machines: "rank 1 on node-7".
    pub fn name(&self) -> String {
        if self.world_size() == self.local_world_size() {
            return format!("rank {}", self.rank());
        }
        format!("rank {} on {}", self.rank(), uname().nodename().to_string_lossy())
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

    pub(crate) fn job_state(&self) -> &JobState {
        &self.inner.job_state
    }

    pub(crate) fn acceptor(&self) -> &Acceptor {
        &self.inner.acceptor
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

impl Drop for Inner {
    fn drop(&mut self) {
        self.accept_thread.close();
        self.control.stop();
    }
}

fn new_acceptor(
    config: &ClusterConfig,
    job: Option<String>,
    arrivals: Option<std::sync::mpsc::SyncSender<Arrival>>,
) -> (Arc<Acceptor>, Incoming) {
    let (rpc, rpc_incoming) = mpsc::channel(config.rpc_backlog.min(MAX_RPC_BACKLOG));
    let (pulses, pulses_incoming) = std::sync::mpsc::sync_channel(config.world_size);
    let rules = AcceptorSettings {
        token: config.token.clone(),
        protection: config.protection,
        party: Party::rank(config.rank),
        job,
        world_size: config.world_size,
        keep_alive: config.heartbeat_timeout(),
        limits: HandshakeLimits::of(config),
        notice: config.notice,
        arrivals,
        rpc,
        pulses,
    };
    (Arc::new(Acceptor::new(rules)), Incoming { rpc: rpc_incoming, pulses: pulses_incoming })
}

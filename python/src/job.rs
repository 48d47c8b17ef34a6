//! The membership of this process in a job.

use crate::errors::{failed, failed_in, invalid};
use crate::fork_guard::{ForkGuard, enter};
use crate::signals::interruptible;
use edgecut_cluster::{Cluster, ClusterConfig, DEFAULT_MASTER_PORT, EnvRanks, Protection, Token};
use pyo3::prelude::*;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The settings by which a process joins a job.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct JobSettings {
    /// True to join the job of the launcher.
    is_distributed: bool,
    /// The ranks, if another program than a launcher tells them.
    ranks: Option<Ranks>,
    /// The port of rank 0, if it is not the one after `MASTER_PORT`.
    port: Option<u16>,
    /// The number of stores that this process has opened in its job. Each has a port of its own, unless the ranks have
    /// agreed on a `master`.
    num_opened: u16,
    /// The port on which rank 0 listens already.
    master: Option<Master>,
    /// The most seconds to wait for the other ranks to join.
    timeout: f64,
    /// The most seconds to wait for the other ranks in later steps that all take together.
    collective_timeout: f64,
    encrypt: bool,
    check_traffic: bool,
}

/// The rank of this process and the address of rank 0, as PyTorch's process group has them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Ranks {
    rank: usize,
    world_size: usize,
    local_rank: usize,
    local_world_size: usize,
    master_addr: String,
}

/// The port of rank 0 that the ranks have told each other.
#[derive(FromPyObject)]
enum Master {
    /// On rank 0, the socket.
    Socket(Py<MasterSocket>),
    /// On the other ranks, its port.
    Port(u16),
}

/// A listening socket of rank 0 at a port that the system has chosen.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct MasterSocket(ForkGuard<OpenSocket>);

/// The socket of a [`MasterSocket`].
struct OpenSocket {
    listener: Mutex<Option<TcpListener>>,
    port: u16,
}

#[pymethods]
impl MasterSocket {
    /// Opens the socket. Without `all_addresses` it accepts connections of this machine only.
    #[new]
    fn new(all_addresses: bool) -> PyResult<Self> {
        enter()?;
        let ip = if all_addresses { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        let listener = TcpListener::bind(SocketAddr::from((ip, 0)))?;
        let port = listener.local_addr()?.port();
        Ok(Self(ForkGuard::new(OpenSocket { listener: Mutex::new(Some(listener)), port })))
    }

    /// The port.
    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.0.get()?.port)
    }
}

impl JobSettings {
    /// Returns the settings of a process without a job.
    pub(crate) fn alone() -> Self {
        Self {
            is_distributed: false,
            ranks: None,
            port: None,
            num_opened: 0,
            master: None,
            timeout: 0.0,
            collective_timeout: 0.0,
            encrypt: false,
            check_traffic: false,
        }
    }

    /// Joins the job of the launcher, or makes one of this process only. All ranks must have the same `fingerprint`.
    pub(crate) fn join(&self, fingerprint: String) -> PyResult<Cluster> {
        if !self.is_distributed {
            return Ok(Cluster::join_local(1, |_| {}).map_err(|error| failed(&error))?.remove(0));
        }
        let mut config = self.config()?;
        config.fingerprint = fingerprint;
        let listener = match &self.master {
            Some(Master::Socket(socket)) => {
                let socket = socket.get().0.get()?;
                config.master_port = socket.port;
                socket.listener.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
            Some(Master::Port(port)) => {
                config.master_port = *port;
                None
            }
            None => None,
        };
        let joined = match listener {
            Some(listener) => Cluster::join_on(listener, config),
            None => Cluster::join(config),
        };
        joined.map_err(|error| failed(&error))
    }

    /// Returns the protection of the connections of this process.
    pub(crate) fn protection(&self) -> Protection {
        Protection::of_flags(self.encrypt, self.check_traffic)
    }

    /// Returns the configuration of the job that PyTorch knows, or that a launcher has set in the environment.
    fn config(&self) -> PyResult<ClusterConfig> {
        let env = EnvRanks::read().map_err(|error| failed(&error))?;
        let mut config = match &self.ranks {
            Some(ranks) => {
                let mut config = ClusterConfig::new(ranks.rank, ranks.world_size, &*ranks.master_addr, 0);
                config.local_rank = ranks.local_rank;
                config.local_world_size = ranks.local_world_size;
                config.listen_addr = env.listen_addr;
                config.job = env.job;
                config.attempt = env.attempt.unwrap_or(0);
                config.token = Token::from_env().map_err(|error| failed(&error))?;
                config
            }
            None if env.rank.is_none() => {
                return Err(invalid(
                    "no launcher has set RANK and WORLD_SIZE, and PyTorch's process group is not initialized: start the \
                     program with torchrun, srun, mpirun or launch, call `torch.distributed.init_process_group` first, \
                     or do not call `edgecut.distributed.init`",
                ));
            }
            None => ClusterConfig::from_env().map_err(|error| failed(&error))?,
        };
        // PyTorch listens on MASTER_PORT itself.
        let after = env.master_port.map(|port| port.saturating_add(1));
        let first = self.port.or(after).unwrap_or(DEFAULT_MASTER_PORT);
        let port = first.checked_add(self.num_opened).filter(|&port| Some(port) != env.master_port);
        config.master_port = port.ok_or_else(|| {
            invalid(format!("port {first} has no free port after it: set `master_port` of `edgecut.distributed.init`"))
        })?;
        config.protection = self.protection();
        let timeout = seconds("timeout", self.timeout)?.as_millis();
        config.rendezvous_timeout_ms = u64::try_from(timeout).unwrap_or(u64::MAX);
        let collective = seconds("collective_timeout", self.collective_timeout)?.as_millis();
        config.collective_timeout_ms = u64::try_from(collective).unwrap_or(u64::MAX);
        config.report_panics = false;
        Ok(config)
    }
}

/// Leaves the job when all ranks do.
pub(crate) fn leave(py: Python<'_>, cluster: &Cluster) -> PyResult<()> {
    let leaving = cluster.clone();
    interruptible(py, move || leaving.shutdown())?.map_err(|error| failed_in(cluster, &error))
}

/// Converts a time limit in seconds.
pub(crate) fn seconds(name: &str, timeout: f64) -> PyResult<Duration> {
    let converted = Duration::try_from_secs_f64(timeout);
    converted.map_err(|_| invalid(format!("`{name}` is {timeout}, but must be a number of seconds")))
}

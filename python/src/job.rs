//! The membership of this process in a job.

use crate::errors::{failed, failed_in, invalid};
use crate::signals::interruptible;
use edgecut_cluster::{Cluster, ClusterConfig, DEFAULT_MASTER_PORT, EnvRanks, Protection};
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
pub(crate) struct MasterSocket {
    listener: Mutex<Option<TcpListener>>,
    port: u16,
}

#[pymethods]
impl MasterSocket {
    /// Opens the socket. Without `all_addresses` it accepts connections of this machine only.
    #[new]
    fn new(all_addresses: bool) -> PyResult<Self> {
        let ip = if all_addresses { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        let listener = TcpListener::bind(SocketAddr::from((ip, 0)))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener: Mutex::new(Some(listener)), port })
    }

    /// The port.
    #[getter]
    fn port(&self) -> u16 {
        self.port
    }
}

impl JobSettings {
    /// Joins the job of the launcher, or makes one of this process only. All ranks must have the same `fingerprint`.
    pub(crate) fn join(&self, fingerprint: String, protection: Protection) -> PyResult<Cluster> {
        if !self.is_distributed {
            return Ok(Cluster::join_local(1, |_| {}).map_err(|error| failed(&error))?.remove(0));
        }
        let mut config = self.config(fingerprint)?;
        config.protection = protection;
        let listener = match &self.master {
            Some(Master::Socket(socket)) => {
                let socket = socket.get();
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

    /// Returns the configuration of the job that a launcher has set in the environment.
    fn config(&self, fingerprint: String) -> PyResult<ClusterConfig> {
        let env = EnvRanks::read().map_err(|error| failed(&error))?;
        if env.rank.is_none() {
            return Err(invalid(
                "no launcher has set RANK and WORLD_SIZE: start the program with torchrun, srun, mpirun or launch, or do \
                 not call `edgecut.distributed.init`",
            ));
        }
        let mut config = ClusterConfig::from_env().map_err(|error| failed(&error))?;
        // PyTorch listens on MASTER_PORT itself.
        let after = env.master_port.map(|port| port.saturating_add(1));
        let first = self.port.or(after).unwrap_or(DEFAULT_MASTER_PORT);
        let port = first.checked_add(self.num_opened).filter(|&port| Some(port) != env.master_port);
        config.master_port = port.ok_or_else(|| {
            invalid(format!("port {first} has no free port after it: set `master_port` of `edgecut.distributed.init`"))
        })?;
        config.fingerprint = fingerprint;
        config.rendezvous_timeout_ms = u64::try_from(seconds(self.timeout)?.as_millis()).unwrap_or(u64::MAX);
        let collective = seconds(self.collective_timeout)?.as_millis();
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
pub(crate) fn seconds(timeout: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout).map_err(|_| invalid("`timeout` must be a number of seconds"))
}

//! Dialing of one rank, with retries, a time limit and a memory of failures.

use crate::config::dist_graph_config::DistGraphConfig;
use crate::error::{PeerName, SampleError};
use crate::timeouts::{MAX_RETRY_INTERVAL, MAX_RPC_TIMEOUT, MIN_RETRY_INTERVAL};
use edgecut_cluster::{
    Cluster, ClusterError, Failure, SecureStream, ServiceAddress, ServiceCaller, ServiceConfig, ServiceTarget,
};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Milliseconds by which the pauses of consecutive attempts and processes differ, so that these do not retry in step.
const SPREAD_MS: u64 = 7;

/// A process to which authenticated streams can be opened.
pub(crate) trait Target: Send + Sync {
    /// Tries once to open a stream within `timeout`. Blocks.
    fn open(&self, timeout: Duration) -> Result<SecureStream, ClusterError>;

    /// Returns the failure of the job, if one is known.
    fn job_failure(&self) -> Option<Failure>;

    /// Returns the failure of the job, after waiting up to two seconds for news of it. Blocks.
    fn await_job_failure(&self) -> Option<Failure>;
}

/// A rank of a [`Cluster`].
pub(crate) struct RankTarget {
    pub(crate) cluster: Cluster,
    pub(crate) rank: usize,
}

impl Target for RankTarget {
    fn open(&self, timeout: Duration) -> Result<SecureStream, ClusterError> {
        self.cluster.try_connect_rpc(self.rank, timeout)
    }

    fn job_failure(&self) -> Option<Failure> {
        self.cluster.failure()
    }

    fn await_job_failure(&self) -> Option<Failure> {
        self.cluster.verdict("").failure
    }
}

/// A sampling server.
pub(crate) struct ServerTarget {
    pub(crate) address: ServiceAddress,
    /// This process.
    pub(crate) caller: ServiceCaller,
    /// The number of the server in the list of servers.
    pub(crate) server: usize,
    /// The data that the server must serve, if it is known.
    pub(crate) data: Option<String>,
    pub(crate) service: ServiceConfig,
    /// The job of this process.
    pub(crate) cluster: Cluster,
}

impl Target for ServerTarget {
    fn open(&self, timeout: Duration) -> Result<SecureStream, ClusterError> {
        let target = ServiceTarget { from: self.caller, server: self.server, data: self.data.as_deref() };
        self.address.connect(&target, &self.service, timeout)
    }

    fn job_failure(&self) -> Option<Failure> {
        self.cluster.failure()
    }

    // A server is no rank of the job, so no news of it comes from other ranks.
    fn await_job_failure(&self) -> Option<Failure> {
        self.cluster.failure()
    }
}

/// The limits of a [`Dialer`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialLimits {
    /// Time for all attempts of one connection together.
    pub(crate) budget: Duration,
    /// Time for which an unreachable peer is not tried again.
    pub(crate) failure_memory: Duration,
}

impl DialLimits {
    /// Returns the limits that a process's configuration sets.
    pub(crate) fn new(config: &DistGraphConfig) -> Self {
        Self {
            budget: Duration::from_millis(config.connect_budget_ms).min(MAX_RPC_TIMEOUT),
            failure_memory: Duration::from_millis(config.failed_peer_memory_ms),
        }
    }
}

/// The dialer of one peer, which opens all connections to it.
///
/// A busy peer may refuse connections, so the dialer retries until the time budget is spent. Then the peer counts as
/// failed for a while, and every further connection fails at once.
pub(crate) struct Dialer {
    peer: PeerName,
    target: Arc<dyn Target>,
    limits: DialLimits,
    /// Permits for the attempts of this process, to all ranks, that may run at the same time.
    slots: Arc<Semaphore>,
    failure: Mutex<Option<RememberedFailure>>,
}

/// The result of the last unsuccessful dial.
#[derive(Clone)]
struct RememberedFailure {
    since: Instant,
    attempts: u32,
    cause: Arc<ClusterError>,
}

impl Dialer {
    pub(crate) fn new(peer: PeerName, target: Arc<dyn Target>, limits: DialLimits, slots: Arc<Semaphore>) -> Self {
        Self { peer, target, limits, slots, failure: Mutex::default() }
    }

    /// Returns the longest time that [`Dialer::dial`] takes once it has a slot: all attempts, and the wait for news of
    /// a failure of the job.
    pub(crate) fn longest(&self) -> Duration {
        self.limits.budget + Duration::from_secs(3)
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`SampleError::Connect`] with the last attempt's error, or with the failure of the job that caused it.
    pub(crate) async fn dial(&self) -> Result<SecureStream, SampleError> {
        if let Some(failure) = self.remembered() {
            return Err(self.error(&failure));
        }
        let mut slot = self.slot().await?;
        // The budget excludes the wait for the first slot, during which no attempt was made.
        let deadline = Instant::now() + self.limits.budget;
        let mut attempts = 0;
        let last = loop {
            attempts += 1;
            let error = match self.attempt(slot, deadline).await {
                Ok(stream) => {
                    *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let pause = self.pause(attempts);
            let is_hopeless = !Self::is_transient(&error) || self.target.job_failure().is_some();
            if is_hopeless || Instant::now() + pause >= deadline {
                break error;
            }
            tokio::time::sleep(pause).await;
            // Another connection to the same peer may have failed meanwhile.
            if let Some(failure) = self.remembered() {
                return Err(self.error(&failure));
            }
            slot = self.slot().await?;
        };
        // If the whole job has failed, that failure is the cause to report, not the connection that it broke.
        let target = self.target.clone();
        let explain = move || target.await_job_failure().map_or(last, ClusterError::RankFailed);
        let cause = Arc::new(tokio::task::spawn_blocking(explain).await.map_err(|source| self.stopped(source))?);
        let failure = RememberedFailure { since: Instant::now(), attempts, cause };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
        Err(self.error(&failure))
    }

    /// Returns the error of a caller that has waited for [`Dialer::longest`] while another caller dialed.
    pub(crate) fn not_connected(&self) -> SampleError {
        let waited = format!("no connection after {} s", self.longest().as_secs());
        let cause = io::Error::new(io::ErrorKind::TimedOut, waited);
        let cause = ClusterError::Connect { peer: self.peer.to_string(), cause };
        SampleError::Connect { peer: self.peer.clone(), attempts: 0, source: Arc::new(cause) }
    }

    /// Makes one attempt. If this future is dropped, the attempt still ends at the deadline and keeps its slot until
    /// then.
    async fn attempt(
        &self,
        slot: tokio::sync::OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<SecureStream, ClusterError> {
        let target = self.target.clone();
        let attempt = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            target.open(deadline.saturating_duration_since(Instant::now()))
        });
        let failed = |cause| ClusterError::Connect { peer: self.peer.to_string(), cause };
        match attempt.await {
            Ok(opened) => opened,
            Err(error) => Err(failed(io::Error::other(error))),
        }
    }

    async fn slot(&self) -> Result<tokio::sync::OwnedSemaphorePermit, SampleError> {
        self.slots.clone().acquire_owned().await.map_err(|source| self.stopped(source))
    }

    fn pause(&self, attempts: u32) -> Duration {
        let doubled = MIN_RETRY_INTERVAL * 2_u32.saturating_pow((attempts - 1).min(8));
        let number = match self.peer {
            PeerName::Rank { rank, .. } => rank as u64,
            PeerName::Server(_) => u64::from(std::process::id()),
        };
        let spread = (number + u64::from(attempts)) * SPREAD_MS % 100;
        doubled.min(MAX_RETRY_INTERVAL) + Duration::from_millis(spread)
    }

    /// Returns whether another attempt may succeed: the peer may be busy, or the network may have dropped the connection.
    fn is_transient(error: &ClusterError) -> bool {
        match error {
            // Name servers may learn the name of a node only when its process starts.
            ClusterError::Connect { .. }
            | ClusterError::Refused { .. }
            | ClusterError::NotACluster { .. }
            | ClusterError::Resolve { .. } => true,
            _ => false,
        }
    }

    fn remembered(&self) -> Option<RememberedFailure> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.filter(|failure| failure.since.elapsed() < self.limits.failure_memory)
    }

    fn error(&self, failure: &RememberedFailure) -> SampleError {
        SampleError::Connect { peer: self.peer.clone(), attempts: failure.attempts, source: failure.cause.clone() }
    }

    fn stopped(&self, source: impl std::error::Error + Send + Sync + 'static) -> SampleError {
        SampleError::process(format!("connect to {}", self.peer), source)
    }
}

#[cfg(test)]
mod tests;

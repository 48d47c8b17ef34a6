//! Authenticated connections to other ranks.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::error::{ClusterError, Failure, system};
use crate::failure::keep_alive::end_when_unacknowledged;
use crate::handshake::identity::{Binding, Identity, JobId, Party, Purpose};
use crate::join::connector::{self, ConnectorSettings, Target};
use crate::join::messages::RingKey;
use crate::locks::lock;
use crate::secure::stream::SecureStream;

impl Cluster {
    /// Takes the receiver of the authenticated connections that other ranks open with [`Cluster::connect_rpc`], each
    /// with its rank. The connections are non-blocking, ready for [`SecureStream::into_async`]. The receiver ends
    /// when the membership ends.
    ///
    /// The first call returns the receiver, later calls return `None`. Up to `rpc_backlog` connections wait in it.
    pub fn take_rpc_incoming(&self) -> Option<mpsc::Receiver<(usize, SecureStream)>> {
        lock(&self.inner.rpc_incoming).take()
    }

    /// Opens an authenticated connection to a rank. The stream is non-blocking and has `TCP_NODELAY` set. Blocks for at
    /// most `connect_timeout_ms`.
    ///
    /// # Errors
    /// A rank that does not exist, cannot be reached or refuses the connection. If the job has failed, the error is
    /// that failure.
    pub fn connect_rpc(&self, rank: usize) -> Result<SecureStream, ClusterError> {
        self.open_for(Purpose::Rpc, rank, None)
    }

    /// Tries once to open an authenticated connection to a rank, within `timeout`. The stream is as that of
    /// [`Cluster::connect_rpc`]. An error returns at once, without waiting for the control plane to name its cause, so
    /// that a caller can retry soon.
    ///
    /// # Errors
    /// A rank that does not exist, cannot be reached or refuses the connection.
    pub fn try_connect_rpc(&self, rank: usize, timeout: Duration) -> Result<SecureStream, ClusterError> {
        self.open_watched(&self.target(Purpose::Rpc, rank, None)?, rank, timeout)
    }

    /// Opens a connection to a rank. On an error, waits for the control plane to name its cause. `ring` is the group of
    /// a connection of a process group.
    pub(crate) fn open_for(
        &self,
        purpose: Purpose,
        rank: usize,
        ring: Option<&RingKey>,
    ) -> Result<SecureStream, ClusterError> {
        let target = self.target(purpose, rank, ring)?;
        let opened = self.open_watched(&target, rank, self.inner.config.connect_timeout());
        opened.map_err(|error| match error {
            // The peer is alive, so its refusal is the cause.
            ClusterError::Refused { .. } | ClusterError::Misdirected { .. } => error,
            _ => self.wait_for_failure().map_or_else(|| self.unreachable(rank, error), ClusterError::RankFailed),
        })
    }

    /// Returns a connection to a rank, to be opened.
    fn target<'a>(&self, purpose: Purpose, rank: usize, ring: Option<&'a RingKey>) -> Result<Target<'a>, ClusterError> {
        let addr = self.addr_of(rank)?;
        let to = Identity { party: Party::rank(rank), job: JobId::of(&self.inner.acceptor.job()) };
        let binding = Binding { purpose, from: Party::rank(self.rank()), to };
        Ok(Target { binding, ring, peer: format!("rank {rank}"), addr })
    }

    /// Opens a connection to a rank. The first connection to a rank also opens a pulse to it, so that the control
    /// thread notices when the network between the two fails.
    fn open_watched(&self, target: &Target<'_>, rank: usize, timeout: Duration) -> Result<SecureStream, ClusterError> {
        let deadline = Instant::now() + timeout;
        let stream = self.open_one(target, timeout)?;
        // Control connections exist between rank 0 and every other rank, and already carry heartbeats.
        let is_watched = self.rank() == 0 || rank == 0 || rank == self.rank();
        if !is_watched && lock(&self.inner.watched).insert(rank) {
            let target = self.target(Purpose::Pulse, rank, None)?;
            let pulse = self.open_one(&target, deadline.saturating_duration_since(Instant::now())).and_then(|pulse| {
                let longest_silence = 2 * self.inner.config.heartbeat_timeout();
                end_when_unacknowledged(pulse.socket(), longest_silence)
                    .map_err(system("set a timeout of a connection"))?;
                Ok(pulse)
            });
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

    fn open_one(&self, target: &Target<'_>, timeout: Duration) -> Result<SecureStream, ClusterError> {
        connector::open_for(target, ConnectorSettings::of(&self.inner.config), timeout)
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
}

//! The messages at the start of a connection: the registration of a rank, the group of a ring, and the answers.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::config::ClusterConfig;
use crate::secure::protection::Protection;

/// The message on a connection of a rank that joins.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Joining {
    /// The rank can join; answered with [`Admission`].
    Register(Register),
    /// The rank cannot join, for a reason of its own. Rank 0 tells it to the other ranks at once.
    GiveUp { rank: usize, run: RunName, reason: String },
}

impl Joining {
    /// Returns the rank that the sender says it has.
    pub(crate) fn rank(&self) -> usize {
        match self {
            Self::Register(register) => register.rank,
            Self::GiveUp { rank, .. } => *rank,
        }
    }
}

/// The job that a process belongs to, as its launcher knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunName {
    /// The name of the job; `None` if neither the launcher nor the user has named it.
    pub(crate) job: Option<String>,
    /// The number of restarts of the job before this process was started, as counted by its launcher.
    pub(crate) attempt: u64,
}

impl RunName {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        Self { job: config.job.clone(), attempt: config.attempt }
    }
}

/// The number of a process among the processes of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seat {
    pub(crate) local_rank: usize,
    pub(crate) local_world_size: usize,
}

impl Seat {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        Self { local_rank: config.local_rank, local_world_size: config.local_world_size }
    }
}

impl Display for Seat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "local rank {} of {}", self.local_rank, self.local_world_size)
    }
}

/// The registration of a rank that joins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Register {
    pub(crate) rank: usize,
    pub(crate) run: RunName,
    pub(crate) world_size: usize,
    pub(crate) seat: Seat,
    pub(crate) fingerprint: String,
    pub(crate) protection: Protection,
    pub(crate) listen: SocketAddr,
    /// The time since the process began to join, in milliseconds.
    pub(crate) waited_ms: u64,
}

/// The identity of a connection of a process group. The group is the `instance`-th one with this name and these
/// members; `from` is the rank that opened the connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RingKey {
    pub(crate) name: String,
    pub(crate) members: Vec<usize>,
    pub(crate) instance: u64,
    pub(crate) from: usize,
    pub(crate) lane: Topology,
}

/// The use of a connection of a process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Topology {
    /// From the left neighbor in the ring.
    Ring,
    /// With a peer in recursive doubling.
    Doubling,
}

/// The outcome of the rendezvous.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Admission {
    /// All ranks have joined. The name of the job is random, so that connections from another job are recognized.
    Roster { job: String, addrs: Vec<SocketAddr> },
    /// The rendezvous failed, or this process cannot join.
    Rejected { reason: String },
}

/// The answer to a connection with another purpose than to join.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Welcome,
    Refused { reason: String },
}

//! What can go wrong while sampling.

use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// An error of a sampler, naming the operation, the peer and the cause.
#[derive(Debug, Error)]
pub enum SampleError {
    /// A request to a peer got no reply.
    #[error("{operation} from part {part} at rank {rank} ({addr}): {why}")]
    Rpc {
        /// What was asked for.
        operation: String,
        /// The part that was asked.
        part: u32,
        /// The rank that serves it.
        rank: usize,
        /// Where it listens.
        addr: SocketAddr,
        /// What happened.
        why: String,
    },
    /// A peer could not be connected to.
    #[error("connect to rank {rank} ({attempts} attempts failed)")]
    Connect {
        /// The peer.
        rank: usize,
        /// The number of attempts.
        attempts: u32,
        /// The error of the last attempt, or the failure of the job that explains it. Requests that wait for the same
        /// connection share it.
        source: Arc<edgecut_cluster::ClusterError>,
    },
    /// A node that is not in the graph was asked for.
    #[error("{what}")]
    NoSuchNode {
        /// The node and the bound that it breaks.
        what: String,
    },
    /// The processes of the job and the parts of the graph do not fit together.
    #[error("{what}")]
    Layout {
        /// What does not fit, and what to do.
        what: String,
    },
    /// A dataset could not be read, or not be written as one part.
    #[error("{what}")]
    Dataset {
        /// What is wrong, and where.
        what: String,
    },
    /// The rank that reads a dataset for this node has failed; it says why itself.
    #[error("{who} while it read the dataset for all processes of this node")]
    NotShared {
        /// The head of its failure.
        who: String,
    },
    /// The processes of the node could not talk to each other.
    #[error(transparent)]
    Cluster(#[from] edgecut_cluster::ClusterError),
    /// A fault of this process.
    #[error("{what}")]
    Internal {
        /// What happened.
        what: String,
    },
}

//! Errors of sampling.

use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// An error of a sampler, with the operation, the peer and the cause.
#[derive(Debug, Error)]
pub enum SampleError {
    /// A request to a peer failed.
    #[error("{operation} from part {part} at rank {rank} ({addr}): {why}")]
    Rpc {
        /// The operation that failed.
        operation: String,
        /// The part that the request was for.
        part: u32,
        /// The rank that serves the part.
        rank: usize,
        /// The address of the rank.
        addr: SocketAddr,
        /// The cause.
        why: String,
    },
    /// No connection to a peer could be opened.
    #[error("connect to rank {rank} ({attempts} attempts failed)")]
    Connect {
        /// The peer.
        rank: usize,
        /// The number of attempts.
        attempts: u32,
        /// The error of the last attempt, or the failure of the job that caused it. All requests that wait for the same
        /// connection share it.
        source: Arc<edgecut_cluster::ClusterError>,
    },
    /// A requested node or attribute does not exist in the graph.
    #[error("{what}")]
    NoSuchNode {
        /// The node and the limit, or the missing attribute.
        what: String,
    },
    /// The processes of the job and the parts of the graph do not match.
    #[error("{what}")]
    Layout {
        /// The mismatch, and how to resolve it.
        what: String,
    },
    /// A dataset could not be read, or not be written as one part.
    #[error("{what}")]
    Dataset {
        /// The cause and the file.
        what: String,
    },
    /// The rank that reads a dataset for this node has failed. That rank reports the cause.
    #[error("{who} while it read the dataset for all processes of this node")]
    NotShared {
        /// The summary of its failure.
        who: String,
    },
    /// The communication between processes failed.
    #[error(transparent)]
    Cluster(#[from] edgecut_cluster::ClusterError),
    /// A fault of this process.
    #[error("{what}")]
    Internal {
        /// The cause.
        what: String,
    },
}

//! Errors of sampling.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// A process that answers requests about a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerName {
    /// A rank of the job, and its address.
    Rank {
        /// The rank.
        rank: usize,
        /// Its listening address.
        addr: SocketAddr,
    },
    /// A sampling server, given by its address as `HOST:PORT`.
    Server(String),
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { rank, addr } => write!(f, "rank {rank} ({addr})"),
            Self::Server(address) => write!(f, "server {address}"),
        }
    }
}

/// An error of a sampler, with the operation, the peer and the cause.
#[derive(Debug, Error)]
pub enum SampleError {
    /// A request to a peer failed.
    #[error("{operation} from part {part} at {peer}: {why}")]
    Rpc {
        /// The operation that failed.
        operation: String,
        /// The part that the request was for.
        part: u32,
        /// The process that serves the part.
        peer: PeerName,
        /// The cause.
        why: String,
    },
    /// No connection to a peer could be opened.
    #[error("connect to {peer} (attempts: {attempts})")]
    Connect {
        /// The peer.
        peer: PeerName,
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
    /// A batch is larger than a server may sample for a client.
    #[error("the neighborhood of a batch exceeds {max_bytes} bytes")]
    BatchTooLarge {
        /// The limit.
        max_bytes: usize,
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
    /// A request failed that another batch waits for as well.
    #[error(transparent)]
    Shared(Arc<SampleError>),
    /// The communication between processes failed.
    #[error(transparent)]
    Cluster(#[from] edgecut_cluster::ClusterError),
    /// The system did not let this process do something, or a task of it has ended early.
    #[error("{what}")]
    Process {
        /// The operation.
        what: String,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A fault of this process.
    #[error("{what}")]
    Internal {
        /// The cause.
        what: String,
    },
}

impl SampleError {
    /// Makes the error of a request that other batches may wait for as well.
    pub(crate) fn shared(error: Arc<Self>) -> Self {
        Arc::try_unwrap(error).unwrap_or_else(Self::Shared)
    }

    /// Returns true if a request to a server failed, and false for a failure of this process or of a rank.
    pub fn is_of_server(&self) -> bool {
        match self {
            Self::Rpc { peer, .. } | Self::Connect { peer, .. } => matches!(peer, PeerName::Server(_)),
            Self::Shared(error) => error.is_of_server(),
            _ => false,
        }
    }

    /// Makes the error of an operation of this process.
    pub fn process(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Process { what: what.into(), source: source.into() }
    }
}

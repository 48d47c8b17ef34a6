//! Errors of loading batches.

use edgecut_cluster::ClusterError;
use edgecut_dist_sampler::SampleError;
use thiserror::Error;

/// An error of a loader.
#[derive(Debug, Error)]
pub enum LoaderError {
    /// A batch could not be sampled, or its features could not be fetched.
    #[error("batch {batch} of epoch {}", epoch + 1)]
    Batch {
        /// The batch, counted over all ranks.
        batch: u64,
        /// The epoch, counted from 0. The message counts from 1.
        epoch: u64,
        /// The cause.
        source: Box<SampleError>,
    },
    /// An operation on the graph failed, such as to read the seeds from the servers.
    #[error("{operation}")]
    Graph {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: Box<SampleError>,
    },
    /// The ranks could not agree on the number of steps.
    #[error("agree on the number of steps")]
    Agree(#[from] ClusterError),
    /// A thread that made batches panicked.
    #[error("a thread that makes batches {what}")]
    Panicked {
        /// The text of the panic.
        what: String,
    },
    /// The batches end before the epoch does, because the process is shutting down.
    #[error("the loader stopped before the end of the epoch")]
    Stopped,
    /// The configuration contradicts itself or the graph.
    #[error("{what}")]
    Config {
        /// The contradiction, and how to resolve it.
        what: String,
    },
}

impl LoaderError {
    /// Returns the error of seeds that could not be read from the servers.
    pub(crate) fn seeds(source: SampleError) -> Self {
        Self::Graph { operation: "read the seeds", source: Box::new(source) }
    }

    /// Returns the failure of sampling behind this error, if there is one.
    pub fn sample_error(&self) -> Option<&SampleError> {
        match self {
            Self::Batch { source, .. } | Self::Graph { source, .. } => Some(source),
            _ => None,
        }
    }
}

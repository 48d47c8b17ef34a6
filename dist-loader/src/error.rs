//! What can go wrong while loading batches.

use edgecut_cluster::ClusterError;
use edgecut_dist_sampler::SampleError;
use thiserror::Error;

/// An error of a loader.
#[derive(Debug, Error)]
pub enum LoaderError {
    /// A batch could not be sampled or its features not fetched.
    #[error("batch {batch} of epoch {}", epoch + 1)]
    Batch {
        /// The batch, counted over all ranks.
        batch: u64,
        /// The epoch, counted from 0; shown counted from 1.
        epoch: u64,
        /// The text of the panic.
        source: Box<SampleError>,
    },
    /// Rows to be cached could not be fetched.
    #[error("fetch the rows to be cached")]
    Fetch {
        /// The text of the panic.
        source: Box<SampleError>,
    },
    /// The directory of original ids, which negatives are found by, could not be made.
    #[error("make the directory of original ids")]
    Directory {
        /// The text of the panic.
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
    /// The batches end before the epoch does, since the process is shutting down.
    #[error("the loader stopped before the end of the epoch")]
    Stopped,
    /// The configuration contradicts itself or the graph.
    #[error("{what}")]
    Config {
        /// What is wrong, and what to do.
        what: String,
    },
}

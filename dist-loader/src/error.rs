//! What can go wrong while loading batches.

use edgecut_cluster::ClusterError;
use edgecut_dist_sampler::SampleError;
use thiserror::Error;

/// An error of a loader.
#[derive(Debug, Error)]
pub enum LoaderError {
    /// A batch could not be sampled or its features not fetched.
    #[error("batch {batch} of epoch {epoch}: {source}")]
    Batch {
        /// The batch, counted over all ranks.
        batch: u64,
        /// The epoch.
        epoch: u64,
        /// What happened.
        source: Box<SampleError>,
    },
    /// The ranks could not agree on the number of steps.
    #[error("agree on the number of steps: {0}")]
    Agree(#[from] ClusterError),
    /// The configuration contradicts itself or the graph.
    #[error("{what}")]
    Config {
        /// What is wrong, and what to do.
        what: String,
    },
}

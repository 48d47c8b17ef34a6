//! What can go wrong while training.

use crate::model_file::ModelFileError;
use edgecut_cluster::ClusterError;
use edgecut_dist_loader::LoaderError;
use edgecut_dist_sampler::SampleError;
use thiserror::Error;

/// An error of a training run.
#[derive(Debug, Error)]
pub enum TrainError {
    /// The options contradict each other or the graph.
    #[error("{what}")]
    Config {
        /// What is wrong, and what to do.
        what: String,
    },
    /// A batch is not what the model takes.
    #[error("batch: {what}")]
    Batch {
        /// What is wrong.
        what: String,
    },
    /// The loss is no longer a finite number.
    #[error("the loss of epoch {}, step {} is {loss}: lower the learning rate", epoch + 1, step + 1)]
    NotFinite {
        /// The epoch, counted from 0.
        epoch: u64,
        /// The step, counted from 0; both are shown counted from 1.
        step: usize,
        /// The loss.
        loss: f64,
    },
    /// A GPU, or what connects GPUs, failed.
    #[error("{what}")]
    Device {
        /// What it says.
        what: String,
    },
    /// The report of an epoch could not be written.
    #[error("report the epoch")]
    Report(#[from] std::io::Error),
    /// A batch could not be made.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// Sampling failed.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A saved model could not be read.
    #[error(transparent)]
    Model(Box<ModelFileError>),
    /// The ranks could not work together.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

// Boxed, for every result of the trainer carries the size of this error.
impl From<ModelFileError> for TrainError {
    fn from(error: ModelFileError) -> Self {
        Self::Model(Box::new(error))
    }
}

//! The error type of training.

use crate::model_file::ModelFileError;
use edgecut_cluster::ClusterError;
use edgecut_dist_loader::LoaderError;
use edgecut_dist_sampler::SampleError;
use thiserror::Error;

/// An error of a training run.
#[derive(Debug, Error)]
pub enum TrainError {
    /// Options that contradict each other or do not match the graph.
    #[error("{what}")]
    Config {
        /// The problem and its remedy.
        what: String,
    },
    /// A batch that does not match the model.
    #[error("batch: {what}")]
    Batch {
        /// The problem.
        what: String,
    },
    /// A loss that is not a finite number.
    #[error("the loss of epoch {}, step {} is {loss}: lower the learning rate", epoch + 1, step + 1)]
    NotFinite {
        /// The epoch, counted from 0.
        epoch: u64,
        /// The step, counted from 0; both are shown counted from 1.
        step: usize,
        /// The loss.
        loss: f64,
    },
    /// A failure of a GPU or of the communication between GPUs.
    #[error("{what}")]
    Device {
        /// The message of the failure.
        what: String,
    },
    /// A failure to write the report of an epoch or to save a model.
    #[error("report the epoch")]
    Report(#[from] std::io::Error),
    /// A failure to make a batch.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// A failure of sampling.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A failure to read a saved model.
    #[error(transparent)]
    Model(Box<ModelFileError>),
    /// A failure of the job: a rank, or the network between ranks.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

// Boxed, because every `Result` of the trainer is at least as large as this error type.
impl From<ModelFileError> for TrainError {
    fn from(error: ModelFileError) -> Self {
        Self::Model(Box::new(error))
    }
}

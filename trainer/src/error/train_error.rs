//! The error type of training.

use super::{CheckpointError, FlatLengthError, ModelError, ModelFileError};
use edgecut_cluster::ClusterError;
use edgecut_dist_loader::LoaderError;
use edgecut_dist_sampler::SampleError;
use std::error::Error;
use std::path::PathBuf;
use thiserror::Error;

/// An error of a training run.
///
/// A message names a setting in backticks by its field in the configuration: `` `num_neighbors` ``, or
/// `` `metric=accuracy` `` with a value to choose. Programs may replace it by their name for the setting.
#[derive(Debug, Error)]
pub enum TrainError {
    /// Options that contradict each other or do not match the graph.
    #[error("{what}")]
    Config {
        /// The problem and its remedy.
        what: String,
    },
    /// Settings of a model that contradict the dataset or each other.
    #[error("dataset {dataset}")]
    Dataset {
        /// The name of the dataset.
        dataset: String,
        /// The contradiction.
        source: ModelError,
    },
    /// A batch that does not match the model.
    #[error("batch")]
    Batch(#[source] Box<dyn Error + Send + Sync>),
    /// A loss that is not a finite number.
    #[error("the loss of epoch {}, step {} is {loss}: {}", epoch + 1, step + 1, remedy_of_loss(*epoch, *step))]
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
    /// Settings from which no model can be made.
    #[error(transparent)]
    ModelSettings(#[from] ModelError),
    /// Gradients or parameters of a model of another size.
    #[error(transparent)]
    Parameters(#[from] FlatLengthError),
    /// A failure to put the graph into the memory of a device.
    #[error("put the graph on the device")]
    GraphOnDevice(#[source] Box<dyn Error + Send + Sync>),
    /// A failure of a collective between the GPUs of a node.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Nccl(#[from] edgecut_gpu::NcclError),
    /// A failure to write the report of an epoch.
    #[error("report the epoch")]
    Report(#[source] std::io::Error),
    /// A failure to save the best model so far.
    #[error("save the model")]
    Save(#[source] std::io::Error),
    /// A saved embedding that does not match the graph.
    #[error("the model's embedding of node type {node_type}")]
    SavedEmbedding {
        /// The name of the node type.
        node_type: String,
        /// The mismatch.
        source: Box<SampleError>,
    },
    /// A failure to make a batch.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// A failure to make a batch of a validation.
    #[error("validation of epoch {epoch}")]
    Validation {
        /// The epoch, counted from 1.
        epoch: u64,
        /// The cause.
        source: Box<TrainError>,
    },
    /// A failure of sampling.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A failure to read a saved model.
    #[error(transparent)]
    Model(Box<ModelFileError>),
    /// A failure to write a checkpoint or to continue from one.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// The end of a run that was asked to end, after it has stored its state.
    #[error("stopped in epoch {} after {} steps", epoch + 1, step)]
    Stopped {
        /// The folder of the checkpoint.
        checkpoint: PathBuf,
        /// The epoch, counted from 0: the number of finished epochs.
        epoch: u64,
        /// The number of steps taken in this epoch.
        step: usize,
    },
    /// A stored state that belongs to another model or optimizer.
    #[error("continue from the checkpoint")]
    OtherState(#[source] Box<dyn Error + Send + Sync>),
    /// A failure of the job: a rank, or the network between ranks.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl TrainError {
    /// Returns true if a request to a server failed.
    pub fn is_of_server(&self) -> bool {
        match self {
            Self::Sample(error) => error.is_of_server(),
            Self::Loader(error) => error.sample_error().is_some_and(SampleError::is_of_server),
            Self::Validation { source, .. } => source.is_of_server(),
            _ => false,
        }
    }

    /// Adds the epoch to a failure to make batches, whose own epochs are not those of the training in a validation.
    pub(crate) fn in_validation(self, epoch: u64) -> Self {
        match self {
            // The loader of a validation counts its own epochs.
            Self::Loader(LoaderError::Batch { source, .. }) => {
                Self::Validation { epoch, source: Box::new(Self::Sample(*source)) }
            }
            Self::Loader(_) | Self::Sample(_) => Self::Validation { epoch, source: Box::new(self) },
            other => other,
        }
    }

    /// Returns the error of a setting.
    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::Config { what: what.into() }
    }

    /// Returns the error of a batch that does not match the model.
    pub(crate) fn batch(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Batch(cause.into())
    }
}

// Boxed, because every `Result` of the trainer is at least as large as this error type.
impl From<ModelFileError> for TrainError {
    fn from(error: ModelFileError) -> Self {
        Self::Model(Box::new(error))
    }
}

impl From<CheckpointError> for TrainError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

/// Returns the remedy for a loss that is not a finite number. The first one does not depend on the learning rate.
fn remedy_of_loss(epoch: u64, step: usize) -> &'static str {
    if epoch == 0 && step == 0 {
        "no step was taken before, so features, weights of edges or numbers to predict are too large: scale them"
    } else {
        "lower the learning rate"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_is_too_large_at_any_learning_rate() {
        for (step, remedy) in
            [(0, "epoch 1, step 1 is inf: no step was taken"), (1, "step 2 is inf: lower the learning")]
        {
            let error = TrainError::NotFinite { epoch: 0, step, loss: f64::INFINITY }.to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }
}

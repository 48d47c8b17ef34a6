//! The best model of a run so far.

use crate::checkpoint::{Floats, StoredBest, StoredModel};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::gradients::{flatten_parameters, load_parameters};
use burn::module::Module;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use std::sync::Arc;

/// A copy of the model of the best epoch so far, with its scores on the validation data.
pub(super) struct Best<S> {
    pub(super) epoch: u64,
    pub(super) valid_metric: Option<f64>,
    /// `None` if the model comes from a checkpoint, which does not contain the scores.
    pub(super) valid: Option<S>,
    model: Arc<StoredModel>,
}

impl<S> Best<S> {
    /// Copies a model and its embeddings, which may be large, into the memory of the `previous` best one.
    pub(super) fn new<B: Backend, M: Module<B>>(
        epoch: u64,
        valid_metric: Option<f64>,
        valid: S,
        model: &M,
        embeddings: &Embeddings,
        previous: Option<Self>,
    ) -> Self {
        // A checkpoint that is being written still reads the previous one.
        let previous = previous.and_then(|previous| Arc::try_unwrap(previous.model).ok());
        let mut shards = previous.map(|previous| previous.shards).unwrap_or_default();
        embeddings.copy_shards(&mut shards);
        let model = StoredModel { parameters: Floats(flatten_parameters(model)), shards };
        Self { epoch, valid_metric, valid: Some(valid), model: Arc::new(model) }
    }

    /// Returns the model for a checkpoint.
    pub(super) fn stored(&self) -> StoredBest {
        StoredBest { epoch: self.epoch, valid_metric: self.valid_metric, model: self.model.clone() }
    }

    /// Returns `model` with the copied parameters, and restores the embeddings. Every rank must call this.
    pub(super) fn restore<B: Backend, M: Module<B>>(
        &self,
        model: M,
        embeddings: &mut Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<M, TrainError> {
        let model = load_parameters(model, &self.model.parameters.0)?;
        if !embeddings.is_empty() {
            // The first barrier ends all reads of the last epoch's rows; the second one ensures that all ranks have
            // restored their rows before any rank reads.
            world.barrier()?;
            embeddings.restore(&self.model.shards);
            world.barrier()?;
        }
        Ok(model)
    }
}

impl<S> From<StoredBest> for Best<S> {
    fn from(stored: StoredBest) -> Self {
        Self { epoch: stored.epoch, valid_metric: stored.valid_metric, valid: None, model: stored.model }
    }
}

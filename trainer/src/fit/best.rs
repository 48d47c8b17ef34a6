//! The best model of a run so far.

use crate::embeddings::{EmbeddingShards, Embeddings};
use crate::gradients::{flatten_parameters, load_parameters};
use crate::train_error::TrainError;
use burn::module::Module;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;

/// A copy of the model of the best epoch so far, with its scores on the validation data.
pub(super) struct Best<S> {
    pub(super) epoch: u64,
    pub(super) valid_metric: Option<f64>,
    pub(super) valid: S,
    parameters: Vec<f32>,
    shards: EmbeddingShards,
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
        let mut shards = previous.map(|previous| previous.shards).unwrap_or_default();
        embeddings.copy_shards(&mut shards);
        Self { epoch, valid_metric, valid, parameters: flatten_parameters(model), shards }
    }

    /// Returns `model` with the copied parameters, and restores the embeddings. Every rank must call this.
    pub(super) fn restore<B: Backend, M: Module<B>>(
        &self,
        model: M,
        embeddings: &mut Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<M, TrainError> {
        let model = load_parameters(model, &self.parameters)?;
        if !embeddings.is_empty() {
            // The first barrier ends all reads of the last epoch's rows; the second one ensures that all ranks have
            // restored their rows before any rank reads.
            world.barrier()?;
            embeddings.restore(&self.shards);
            world.barrier()?;
        }
        Ok(model)
    }
}

//! The models that classify nodes.

use burn::module::Module;
use burn::tensor::Tensor;

use super::layered_model::LayeredModel;
use super::model_input::ModelInput;
use crate::error::ModelError;
use edgecut_gnn::nn::Mode;
use edgecut_gnn::ops::GnnBackend;

/// A model that classifies the seeds of a batch. Training and evaluation take any implementation.
pub trait NodeClassifier<B: GnnBackend>: Module<B> {
    /// Computes the logits of the batch's seeds.
    ///
    /// # Shapes
    /// - output: `[num_seeds, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the batch does not match the model.
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError>;

    /// Takes part in the exchanges of a forward pass for which this rank has no seeds, as
    /// [`Network::forward_without_rows`](super::Network::forward_without_rows) does. The default does nothing.
    fn forward_without_seeds(&self, _mode: Mode) {}

    /// Returns the model as one whose layers can be computed one after the other, for
    /// [layer-wise inference](crate::inference::layer_wise). `None` by default.
    fn layered(&self) -> Option<&dyn LayeredModel<B>> {
        None
    }
}

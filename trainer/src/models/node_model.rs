//! The models that classify nodes.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::gat::Gat;
use super::gcn::Gcn;
use super::graph_sage::GraphSage;
use super::model_error::ModelError;
use super::model_input::{Mode, ModelInput};
use super::relational_net::RelationalNet;
use crate::ops::GnnBackend;

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
}

/// The models for node classification of this crate. [`ModelConfig::init`](super::ModelConfig::init) makes them.
#[derive(Module, Debug)]
pub enum NodeModel<B: Backend> {
    /// GraphSAGE.
    Sage(GraphSage<B>),
    /// A graph convolutional network.
    Gcn(Gcn<B>),
    /// A graph attention network.
    Gat(Gat<B>),
    /// A network over typed edges.
    Relational(RelationalNet<B>),
}

impl<B: GnnBackend> NodeClassifier<B> for NodeModel<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        match self {
            Self::Sage(model) => model.forward(input, mode),
            Self::Gcn(model) => model.forward(input, mode),
            Self::Gat(model) => model.forward(input, mode),
            Self::Relational(model) => model.forward(input, mode),
        }
    }
}

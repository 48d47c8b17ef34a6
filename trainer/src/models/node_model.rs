//! The models that classify nodes.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::conv_stack::ConvStack;
use super::layered_model::LayeredModel;
use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::relational_net::RelationalNet;
use crate::nn::Mode;
use crate::ops::{GnnBackend, Precision};

/// A model that classifies the seeds of a batch. Training and evaluation take any implementation.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::{Tensor, backend::Backend};
/// use edgecut_trainer::models::{Mode, ModelError, ModelInput, NodeClassifier};
/// use edgecut_trainer::nn::SageConv;
/// use edgecut_trainer::ops::{Activation, GnnBackend};
///
/// /// A model with a single layer.
/// #[derive(Module, Debug)]
/// struct OneLayer<B: Backend> {
///     conv: SageConv<B>,
/// }
///
/// impl<B: GnnBackend> NodeClassifier<B> for OneLayer<B> {
///     fn forward(&self, input: ModelInput<B>, _mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
///         input.check(1, self.conv.weight_neighbors.dims()[0])?;
///         Ok(self.conv.forward(input.features(), &input.blocks()[0], Activation::Identity))
///     }
/// }
/// ```
pub trait NodeClassifier<B: GnnBackend>: Module<B> {
    /// Computes the logits of the batch's seeds.
    ///
    /// # Shapes
    /// - output: `[num_seeds, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the batch does not match the model.
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError>;

    /// Returns the model as one whose layers can be computed one after the other, for
    /// [layer-wise inference](crate::inference::layer_wise). `None` by default.
    fn layered(&self) -> Option<&dyn LayeredModel<B>> {
        None
    }
}

/// The models for node classification of this crate. [`ModelConfig::init`](super::ModelConfig::init) makes them.
///
/// ```
/// # use std::sync::Arc;
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::models::{ConvKind, Mode, ModelInput, NodeClassifier, NodeModelConfig, SageSettings};
/// use edgecut_trainer::nn::Aggregation;
/// use edgecut_trainer::ops::{BatchGraph, Block};
/// let device = Default::default();
/// let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
/// let model = NodeModelConfig::new(kind, 8, 16, 3, 2).init::<Cpu>(42, &device)?;
/// // The seed 0 has the neighbors 1 and 2, node 1 has the neighbor 3, node 2 has no neighbors.
/// let graph = Arc::new(BatchGraph::new(vec![0, 2, 3, 3], vec![1, 2, 3], 4)?);
/// let input = ModelInput::new(Tensor::ones([4, 8], &device), Block::layers(&graph, &[1, 3, 4])?)?;
/// assert_eq!(model.forward(input, Mode::Eval)?.dims(), [1, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Module, Debug)]
pub enum NodeModel<B: Backend> {
    /// A stack of convolutions over a homogeneous graph.
    Stack(ConvStack<B>),
    /// A network over typed edges.
    Relational(RelationalNet<B>),
}

impl<B: Backend> NodeModel<B> {
    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        match self {
            Self::Stack(model) => model.set_precision(precision),
            Self::Relational(model) => model.set_precision(precision),
        }
    }
}

impl<B: GnnBackend> NodeClassifier<B> for NodeModel<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        match self {
            Self::Stack(model) => model.forward(input, mode),
            Self::Relational(model) => model.forward(input, mode),
        }
    }

    fn layered(&self) -> Option<&dyn LayeredModel<B>> {
        Some(self)
    }
}

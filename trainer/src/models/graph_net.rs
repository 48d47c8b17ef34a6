//! The model for graph classification.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::graph_input::{GraphClassifier, GraphInput};
use super::graph_net_config::{GraphNetConfig, Readout};
use super::model_error::ModelError;
use crate::nn::{AnyConv, BatchNorm, Conv, ConvInput, Dense, EdgeData, LayerPass, Mode, WeightInit};
use crate::ops::{Activation, GnnBackend, Precision, masked, pool};

/// A model that classifies whole graphs: a stack of `[convolution, batch normalisation, ReLU]`, pooling, dropout, and a
/// dense layer to the classes. [`GraphNetConfig::init`] makes it.
///
/// ```
/// # use std::sync::Arc;
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::models::{ConvKind, GinSettings, GraphClassifier, GraphInput, GraphNetConfig, Mode};
/// use edgecut_trainer::ops::{BatchGraph, Block, Segments};
/// let device = Default::default();
/// let conv = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: false });
/// let model = GraphNetConfig::new(conv, 4, 8, 2, 3).init::<Cpu>(42, &device)?;
/// // Two graphs: nodes 0 and 1 with an edge in both directions, and node 2 alone.
/// let block = Block::new(Arc::new(BatchGraph::new(vec![0, 1, 2, 2], vec![1, 0], 3)?), 3, 3)?;
/// let input = GraphInput::new(Tensor::ones([3, 4], &device), block, Segments::new(vec![0, 2, 3])?)?;
/// assert_eq!(model.forward(&input, Mode::Eval)?.dims(), [2, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Module, Debug)]
pub struct GraphNet<B: Backend> {
    /// The convolutions. The first one reads the features.
    pub layers: Vec<AnyConv<B>>,
    /// The normalisation after each convolution; empty without batch normalisation.
    pub norms: Vec<BatchNorm<B>>,
    /// The dense layer from the pooled rows to the classes.
    pub output: Dense<B>,
    settings: Settings,
}

/// The settings of a network, which are not tensors.
#[derive(Debug, Clone)]
struct Settings(Box<GraphNetConfig>);

impl<B: Backend> GraphNet<B> {
    /// Makes the network. The settings must be valid.
    pub(super) fn new(config: &GraphNetConfig, init: &mut WeightInit, device: &B::Device) -> Self {
        let hidden = config.hidden_channels;
        let mut layers = Vec::with_capacity(config.num_layers);
        for shape in config.layer_shapes() {
            layers.push(config.conv.init(shape, init, device));
        }
        let norms = if config.batch_norm { config.num_layers } else { 0 };
        let pooled = config.pooled_channels().unwrap_or(usize::MAX);
        Self {
            layers,
            norms: (0..norms).map(|_| BatchNorm::with_init(hidden, init, device)).collect(),
            output: Dense::new(pooled, config.num_classes, init, device),
            settings: Settings(Box::new(config.clone())),
        }
    }

    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.layers.iter_mut().for_each(|layer| layer.set_precision(precision));
        self.output.set_precision(precision);
    }
}

impl<B: GnnBackend> GraphNet<B> {
    /// Computes the pooled rows of the graphs, which the output layer reads.
    ///
    /// # Shapes
    /// - output: `[num_graphs, pooled_channels]`. The columns are `hidden_channels` of the last layer, or those of the
    ///   features and of all layers ([`Readout`])
    ///
    /// # Errors
    /// [`ModelError`] if the batch does not match the model.
    pub fn pooled(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let config = &self.settings.0;
        input.check(config.in_channels)?;
        let gcn_norm = if config.conv.needs_gcn_norm() { Some(input.gcn_norm()?) } else { None };
        let edges = EdgeData { gcn_norm, features: None };
        let block = input.block();
        let relu = mode.relu_and_dropout(0.0, 0);
        let reduce = config.pooling.reduce();
        let mut x = input.features();
        let mut pooled = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            if config.readout == Readout::JumpingKnowledge {
                pooled.push(pool(x.clone(), input.segments(), &reduce));
            }
            let pass = LayerPass::new(mode, number as u64 + 1);
            let edges = edges.clone();
            x = layer.convolve(ConvInput { x, x_dst: None, block, edges, pass, activation: Activation::Identity });
            x = match self.norms.get(number) {
                Some(norm) => norm.forward(x, mode, relu),
                None => relu.apply(x),
            };
        }
        pooled.push(pool(x, input.segments(), &reduce));
        Ok(if pooled.len() == 1 { pooled.remove(0) } else { Tensor::cat(pooled, 1) })
    }
}

impl<B: GnnBackend> GraphClassifier<B> for GraphNet<B> {
    fn forward(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let pooled = self.pooled(input, mode)?;
        Ok(self.output.forward(masked(pooled, mode.mask(self.settings.0.dropout, 1)), Activation::Identity))
    }
}

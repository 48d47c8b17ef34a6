//! The model for graph classification.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::graph_input::{GraphClassifier, GraphInput};
use super::graph_net_config::{GraphConvKind, GraphNetConfig, Readout};
use super::model_error::ModelError;
use crate::nn::Mode;
use crate::nn::{
    Aggregation, BatchNorm, Dense, GcnConv, GcnConvConfig, GinConv, GinConvConfig, SageConv, SageConvConfig, WeightInit,
};
use crate::ops::{Activation, GnnBackend, Precision, masked, pool};

/// A model that classifies whole graphs: a stack of `[convolution, batch normalisation, ReLU]`, pooling, dropout, and a
/// dense layer to the classes. [`GraphNetConfig::init`] makes it.
///
/// ```
/// # use std::sync::Arc;
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::models::{GraphClassifier, GraphConvKind, GraphInput, GraphNetConfig, Mode};
/// use edgecut_trainer::ops::{BatchGraph, Block, Segments};
/// let device = Default::default();
/// let conv = GraphConvKind::Gin { mlp_layers: 2, learn_epsilon: false };
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
    pub layers: Vec<GraphConv<B>>,
    /// The normalisation after each convolution; empty without batch normalisation.
    pub norms: Vec<BatchNorm<B>>,
    /// The dense layer from the pooled rows to the classes.
    pub output: Dense<B>,
    in_channels: usize,
    pooling: Aggregation,
    readout: Readout,
    dropout: f64,
}

/// A convolution of a [`GraphNet`].
#[derive(Module, Debug)]
pub enum GraphConv<B: Backend> {
    /// A graph isomorphism layer.
    Gin(GinConv<B>),
    /// A graph convolutional layer.
    Gcn(GcnConv<B>),
    /// A GraphSAGE layer.
    Sage(SageConv<B>),
}

impl<B: Backend> GraphNet<B> {
    /// Makes the network. The settings must be valid.
    pub(super) fn new(config: &GraphNetConfig, seed: u64, device: &B::Device) -> Self {
        let mut init = WeightInit::new(seed);
        let hidden = config.hidden_channels;
        let inputs = std::iter::once(config.in_channels).chain(std::iter::repeat(hidden)).take(config.num_layers);
        let layers = inputs
            .map(|fan_in| match config.conv {
                GraphConvKind::Gin { mlp_layers, learn_epsilon } => GraphConv::Gin(
                    GinConvConfig::new(fan_in, hidden)
                        .with_mlp_layers(mlp_layers)
                        .with_batch_norm(config.batch_norm)
                        .with_learn_epsilon(learn_epsilon)
                        .init(&mut init, device),
                ),
                GraphConvKind::Gcn => GraphConv::Gcn(GcnConvConfig::new(fan_in, hidden).init(&mut init, device)),
                GraphConvKind::Sage { aggregation } => {
                    let settings = SageConvConfig::new(fan_in, hidden).with_aggregation(aggregation);
                    GraphConv::Sage(settings.init(&mut init, device))
                }
            })
            .collect();
        let norms = if config.batch_norm { config.num_layers } else { 0 };
        let pooled = config.pooled_channels().unwrap_or(0);
        Self {
            layers,
            norms: (0..norms).map(|_| BatchNorm::new(hidden, device)).collect(),
            output: Dense::new(pooled, config.num_classes, &mut init, device),
            in_channels: config.in_channels,
            pooling: config.pooling,
            readout: config.readout,
            dropout: config.dropout,
        }
    }

    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        for layer in &mut self.layers {
            match layer {
                GraphConv::Gin(conv) => conv.set_precision(precision),
                GraphConv::Gcn(conv) => conv.set_precision(precision),
                GraphConv::Sage(conv) => conv.set_precision(precision),
            }
        }
        self.output.set_precision(precision);
    }
}

impl<B: GnnBackend> GraphConv<B> {
    fn forward(&self, x: Tensor<B, 2>, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        Ok(match self {
            Self::Gin(conv) => conv.forward(x, input.block(), mode),
            Self::Gcn(conv) => conv.forward(x, input.block(), input.gcn_norm()?, Activation::Identity),
            Self::Sage(conv) => conv.forward(x, input.block(), Activation::Identity),
        })
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
        input.check(self.in_channels)?;
        let relu = mode.relu_and_dropout(0.0, 0);
        let reduce = self.pooling.reduce();
        let mut x = input.features();
        let mut pooled = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            if self.readout == Readout::JumpingKnowledge {
                pooled.push(pool(x.clone(), input.segments(), &reduce));
            }
            x = layer.forward(x, input, mode)?;
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
        Ok(self.output.forward(masked(pooled, mode.mask(self.dropout, 1)), Activation::Identity))
    }
}

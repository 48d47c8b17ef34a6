//! The model: two GIN convolutions, then a sum over the nodes of each graph.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Tensor, backend::Backend};
use edgecut_gnn::nn::{Aggregation, GinConv, GinConvConfig, WeightInit};
use edgecut_gnn::ops::{GnnBackend, pool};
use edgecut_trainer::models::{GraphClassifier, GraphInput, Mode, ModelError};

/// A two-layer GIN.
#[derive(Module, Debug)]
pub(crate) struct Gin<B: Backend> {
    conv1: GinConv<B>,
    conv2: GinConv<B>,
}

impl<B: Backend> Gin<B> {
    /// Creates the model. The fixed seed gives the same initial weights on every rank.
    pub(crate) fn new(in_channels: usize, num_classes: usize, device: &B::Device) -> Self {
        let mut init = WeightInit::new(0);
        let mut conv = |fan_in| GinConvConfig::new(fan_in, num_classes).with_mlp_layers(1).init(&mut init, device);
        Self { conv1: conv(in_channels), conv2: conv(num_classes) }
    }
}

impl<B: GnnBackend> GraphClassifier<B> for Gin<B> {
    fn forward(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let x = relu(self.conv1.forward(input.features(), input.block(), mode));
        let x = self.conv2.forward(x, input.block(), mode);
        Ok(pool(x, input.segments(), &Aggregation::Sum.reduce()))
    }
}

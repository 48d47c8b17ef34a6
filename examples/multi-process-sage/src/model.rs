//! The model: two layers of GraphSAGE.

use burn::module::Module;
use burn::tensor::{Tensor, backend::Backend};
use edgecut_gnn::nn::{SageConv, SageConvConfig, WeightInit};
use edgecut_gnn::ops::{Activation, GnnBackend};
use edgecut_trainer::models::{Mode, ModelError, ModelInput, NodeClassifier};

/// A two-layer GraphSAGE.
#[derive(Module, Debug)]
pub(crate) struct Sage<B: Backend> {
    conv1: SageConv<B>,
    conv2: SageConv<B>,
}

impl<B: Backend> Sage<B> {
    /// Creates the model. The fixed seed gives the same initial weights on every rank.
    pub(crate) fn new(in_channels: usize, hidden: usize, num_classes: usize, device: &B::Device) -> Self {
        let mut init = WeightInit::new(12345);
        Self {
            conv1: SageConvConfig::new(in_channels, hidden).init(&mut init, device),
            conv2: SageConvConfig::new(hidden, num_classes).init(&mut init, device),
        }
    }
}

impl<B: GnnBackend> NodeClassifier<B> for Sage<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let [in_channels, _] = self.conv1.weight_neighbors.dims();
        input.check(2, in_channels)?;
        let blocks = input.blocks();
        let x = self.conv1.forward(input.features(), &blocks[0], mode.relu_and_dropout(0.0, 1));
        Ok(self.conv2.forward(x, &blocks[1], Activation::Identity))
    }
}

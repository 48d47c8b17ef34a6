//! The model: two graph convolutions.

use burn::module::Module;
use burn::tensor::{Tensor, backend::Backend};
use edgecut_gnn::nn::{GcnConv, GcnConvConfig, WeightInit};
use edgecut_gnn::ops::{Activation, GnnBackend};
use edgecut_trainer::models::{Mode, ModelError, ModelInput, NodeClassifier};

const DROPOUT: f64 = 0.5;

/// A two-layer GCN.
#[derive(Module, Debug)]
pub(crate) struct Gcn<B: Backend> {
    conv1: GcnConv<B>,
    conv2: GcnConv<B>,
}

impl<B: Backend> Gcn<B> {
    /// Creates the model. The fixed seed gives the same initial weights on every rank.
    pub(crate) fn new(in_channels: usize, hidden: usize, num_classes: usize, device: &B::Device) -> Self {
        let mut init = WeightInit::new(12345);
        Self {
            conv1: GcnConvConfig::new(in_channels, hidden).init(&mut init, device),
            conv2: GcnConvConfig::new(hidden, num_classes).init(&mut init, device),
        }
    }
}

impl<B: GnnBackend> NodeClassifier<B> for Gcn<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let [in_channels, _] = self.conv1.weight.dims();
        input.check(2, in_channels)?;
        let blocks = input.blocks();
        let norm = input.gcn_norm()?;
        let x = self.conv1.forward(input.features(), &blocks[0], norm, mode.relu_and_dropout(DROPOUT, 1));
        Ok(self.conv2.forward(x, &blocks[1], norm, Activation::Identity))
    }
}

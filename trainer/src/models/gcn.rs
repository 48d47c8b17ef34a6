//! A stack of graph convolutions.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::layer_stack::{Stack, StackSettings};
use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::node_model_config::NodeModelConfig;
use crate::nn::Mode;
use crate::nn::{GcnConv, GcnConvConfig, WeightInit};
use crate::ops::{GnnBackend, Precision};

/// A graph convolutional network (Kipf and Welling, ICLR 2017).
#[derive(Module, Debug)]
pub struct Gcn<B: Backend> {
    /// The convolutions. The first one reads the features.
    pub layers: Vec<GcnConv<B>>,
    /// The normalisations of the inputs of all layers but the first; empty without normalisation.
    pub norms: Vec<LayerNorm<B>>,
    settings: StackSettings,
}

impl<B: Backend> Gcn<B> {
    pub(super) fn new(config: &NodeModelConfig, seed: u64, device: &B::Device) -> Self {
        let mut init = WeightInit::new(seed);
        let layer = |(fan_in, fan_out)| GcnConvConfig::new(fan_in, fan_out).init(&mut init, device);
        Self {
            layers: config.layer_channels().map(layer).collect(),
            norms: config.norms(device),
            settings: config.stack_settings(),
        }
    }

    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.layers.iter_mut().for_each(|layer| layer.set_precision(precision));
    }
}

impl<B: GnnBackend> Gcn<B> {
    /// Computes the logits of the batch's seeds.
    ///
    /// # Shapes
    /// - output: `[num_seeds, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the batch has no normalisation, or if its number of layers or feature columns does not match
    /// the model.
    pub fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let in_channels = self.layers.first().map_or(0, |layer| layer.weight.dims()[0]);
        let num_classes = self.layers.last().map_or(0, |layer| layer.weight.dims()[1]);
        input.check(self.layers.len(), in_channels)?;
        let norm = input.gcn_norm()?;
        let stack = Stack { layers: &self.layers, norms: &self.norms, settings: self.settings, num_classes };
        Ok(stack.run(input.features(), input.blocks(), mode, |layer, x, block, place| {
            layer.forward(x, block, norm, place.relu())
        }))
    }
}

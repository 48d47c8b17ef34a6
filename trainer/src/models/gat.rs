//! A stack of attention layers.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::layer_stack::{Place, Stack, StackSettings};
use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::model_kind::GatSettings;
use super::node_model_config::NodeModelConfig;
use crate::nn::Mode;
use crate::nn::{GatConv, GatConvConfig, WeightInit};
use crate::ops::{Block, GnnBackend, Precision, masked};

/// The offset from the number of a layer's output mask to that of its attention mask, so that they differ.
const ATTENTION: u64 = 1 << 32;

/// A graph attention network (Veličković et al., ICLR 2018; Brody, Alon and Yahav, ICLR 2022). Hidden layers
/// concatenate their heads and are followed by ELU. The last layer has one head.
#[derive(Module, Debug)]
pub struct Gat<B: Backend> {
    /// The convolutions. The first one reads the features.
    pub layers: Vec<GatConv<B>>,
    /// The normalisations of the inputs of all layers but the first; empty without normalisation.
    pub norms: Vec<LayerNorm<B>>,
    settings: StackSettings,
    attention_dropout: f64,
}

impl<B: Backend> Gat<B> {
    /// Makes the network. The number of heads must divide the hidden channels.
    pub(super) fn new(config: &NodeModelConfig, gat: GatSettings, seed: u64, device: &B::Device) -> Self {
        let mut init = WeightInit::new(seed);
        let last = config.num_layers.saturating_sub(1);
        let layer = |(position, (fan_in, fan_out)): (usize, (usize, usize))| {
            let heads = if position == last { 1 } else { gat.heads };
            GatConvConfig::new(fan_in, fan_out / heads, heads)
                .with_version(gat.version)
                .with_projection_bias(gat.projection_bias)
                .init(&mut init, device)
        };
        let layers = config.layer_channels().enumerate().map(layer).collect();
        Self {
            layers,
            norms: config.norms(device),
            settings: config.stack_settings(),
            attention_dropout: gat.attention_dropout,
        }
    }

    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.layers.iter_mut().for_each(|layer| layer.set_precision(precision));
    }
}

impl<B: GnnBackend> Gat<B> {
    /// Computes the logits of the batch's seeds.
    ///
    /// # Shapes
    /// - output: `[num_seeds, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the number of layers or feature columns of the batch does not match the model.
    pub fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let in_channels = self.layers.first().map_or(0, |layer| layer.weight_src.dims()[0]);
        input.check(self.layers.len(), in_channels)?;
        Ok(self.stack().run(input.features(), input.blocks(), mode, self.convolve(mode)))
    }

    /// Computes one layer, counted from 1, over all rows of a block: the rows after it in the model.
    ///
    /// # Shapes
    /// - the features of the input: `[blocks[0].num_src, columns of the layer's input]`
    /// - output: `[blocks[0].num_dst, columns of the layer's output]`
    ///
    /// # Errors
    /// [`ModelError`] if the input does not have one block, or another number of columns.
    pub(crate) fn forward_layer(&self, number: usize, input: &ModelInput<B>) -> Result<Tensor<B, 2>, ModelError> {
        input.check(1, self.layers[number - 1].weight_src.dims()[0])?;
        Ok(self.stack().run_layer(number, input.features(), &input.blocks()[0], Mode::Eval, &self.convolve(Mode::Eval)))
    }

    /// Returns the function that computes one layer.
    fn convolve(&self, mode: Mode) -> impl Fn(&GatConv<B>, Tensor<B, 2>, &Block, Place) -> Tensor<B, 2> + use<'_, B> {
        move |layer, x, block, place| {
            let output = layer.forward(x, block, mode.mask(self.attention_dropout, ATTENTION + place.layer));
            match place.hidden {
                Some(mask) => masked(elu(output), mask),
                None => output,
            }
        }
    }

    fn stack(&self) -> Stack<'_, B, GatConv<B>> {
        let num_classes = self.layers.last().map_or(0, |layer| layer.weight_src.dims()[1]);
        Stack { layers: &self.layers, norms: &self.norms, settings: self.settings, num_classes }
    }
}

/// Returns `x` for positive elements and `exp(x) - 1` for others. NaN stays NaN.
///
/// Unlike burn's ELU, it never computes the exponential of a large positive number, so its gradient is finite for any
/// `x`.
fn elu<B: GnnBackend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    Mode::Eval.relu_and_dropout(0.0, 0).apply(x.clone()) + (x.clamp_max(0.0).exp() - 1.0)
}

//! A stack of graph convolutions.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::layer_stack::{Place, Stack, StackSettings};
use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::node_model_config::NodeModelConfig;
use crate::nn::Mode;
use crate::nn::{GcnConv, GcnConvConfig, GcnNorm, WeightInit};
use crate::ops::{Block, GnnBackend, Precision};

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
        input.check(self.layers.len(), in_channels)?;
        let norm = input.gcn_norm()?;
        Ok(self.stack().run(input.features(), input.blocks(), mode, convolve(norm)))
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
        input.check(1, self.layers[number - 1].weight.dims()[0])?;
        let norm = input.gcn_norm()?;
        Ok(self.stack().run_layer(number, input.features(), &input.blocks()[0], Mode::Eval, &convolve(norm)))
    }

    fn stack(&self) -> Stack<'_, B, GcnConv<B>> {
        let num_classes = self.layers.last().map_or(0, |layer| layer.weight.dims()[1]);
        Stack { layers: &self.layers, norms: &self.norms, settings: self.settings, num_classes }
    }
}

/// Returns the function that computes one layer with the weights of a batch.
fn convolve<B: GnnBackend>(
    norm: &GcnNorm,
) -> impl Fn(&GcnConv<B>, Tensor<B, 2>, &Block, Place) -> Tensor<B, 2> + use<'_, B> {
    move |layer, x, block, place| layer.forward(x, block, norm, place.relu())
}

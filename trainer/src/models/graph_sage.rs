//! A stack of SAGE layers.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::layer_stack::{Place, Stack, StackSettings};
use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::node_model_config::NodeModelConfig;
use crate::nn::Mode;
use crate::nn::{Aggregation, SageConv, SageConvConfig, WeightInit};
use crate::ops::{Block, GnnBackend, Precision};

/// GraphSAGE (Hamilton, Ying and Leskovec, NeurIPS 2017).
#[derive(Module, Debug)]
pub struct GraphSage<B: Backend> {
    /// The convolutions. The first one reads the features.
    pub layers: Vec<SageConv<B>>,
    /// The normalisations of the inputs of all layers but the first; empty without normalisation.
    pub norms: Vec<LayerNorm<B>>,
    settings: StackSettings,
}

impl<B: Backend> GraphSage<B> {
    pub(super) fn new(config: &NodeModelConfig, aggregation: Aggregation, seed: u64, device: &B::Device) -> Self {
        let mut init = WeightInit::new(seed);
        let layer = |(fan_in, fan_out)| {
            SageConvConfig::new(fan_in, fan_out).with_aggregation(aggregation).init(&mut init, device)
        };
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

impl<B: GnnBackend> GraphSage<B> {
    /// Computes the logits of the batch's seeds.
    ///
    /// # Shapes
    /// - output: `[num_seeds, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the number of layers or feature columns of the batch does not match the model.
    pub fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let in_channels = self.layers.first().map_or(0, |layer| layer.weight_self.dims()[0]);
        input.check(self.layers.len(), in_channels)?;
        Ok(self.stack().run(input.features(), input.blocks(), mode, convolve))
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
        input.check(1, self.layers[number - 1].weight_self.dims()[0])?;
        Ok(self.stack().run_layer(number, input.features(), &input.blocks()[0], Mode::Eval, &convolve))
    }

    fn stack(&self) -> Stack<'_, B, SageConv<B>> {
        let num_classes = self.layers.last().map_or(0, |layer| layer.weight_self.dims()[1]);
        Stack { layers: &self.layers, norms: &self.norms, settings: self.settings, num_classes }
    }
}

fn convolve<B: GnnBackend>(layer: &SageConv<B>, x: Tensor<B, 2>, block: &Block, place: Place) -> Tensor<B, 2> {
    layer.forward(x, block, place.relu())
}

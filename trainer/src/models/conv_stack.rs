//! A stack of convolutions over a homogeneous graph.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::model_error::ModelError;
use super::model_input::ModelInput;
use super::node_model::NodeClassifier;
use super::node_model_config::NodeModelConfig;
use crate::nn::{AnyConv, Conv, ConvInput, EdgeData, HiddenActivation, LayerPass, Mode, WeightInit, prefix};
use crate::ops::{Activation, GnnBackend, Precision, dropout, masked};

/// A stack of convolutions from features to classes, with activations, dropout, residuals and normalisation between
/// them.
#[derive(Module, Debug)]
pub struct ConvStack<B: Backend> {
    /// The convolutions. The first one reads the features.
    pub layers: Vec<AnyConv<B>>,
    /// The normalisations of the inputs of all layers but the first; empty without normalisation.
    pub norms: Vec<LayerNorm<B>>,
    settings: Settings,
}

/// The settings of a stack, which are not tensors.
#[derive(Debug, Clone)]
struct Settings(Box<NodeModelConfig>);

impl<B: Backend> ConvStack<B> {
    /// Makes the stack. The settings must be valid.
    pub(super) fn new(config: &NodeModelConfig, init: &mut WeightInit, device: &B::Device) -> Self {
        let mut layers = Vec::with_capacity(config.num_layers);
        let mut norms = Vec::new();
        for (layer, shape) in config.layer_shapes().enumerate() {
            layers.push(config.kind.init(shape, init, device));
            if config.layer_norm && layer > 0 {
                norms.push(init.layer_norm(config.hidden_channels, device));
            }
        }
        Self { layers, norms, settings: Settings(Box::new(config.clone())) }
    }

    /// Sets the type in which a GPU multiplies matrices for this model (mixed-precision training). The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.layers.iter_mut().for_each(|layer| layer.set_precision(precision));
    }

    /// Returns the settings of the model.
    pub fn config(&self) -> &NodeModelConfig {
        &self.settings.0
    }

    /// Returns the number of columns that a layer, counted from 0, computes.
    pub(crate) fn width(&self, layer: usize) -> usize {
        let config = self.config();
        if layer + 1 == config.num_layers { config.num_classes } else { config.hidden_channels }
    }
}

impl<B: GnnBackend> NodeClassifier<B> for ConvStack<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let config = self.config();
        input.check(self.layers.len(), config.in_channels)?;
        let mut x = input.features();
        if input.blocks().last().is_none_or(|block| block.num_dst() == 0) {
            return Ok(Tensor::zeros([0, config.num_classes], &x.device()));
        }
        // The mask of the input has number 0, the mask after layer l, counted from 1, has number l.
        if let Mode::Train(key) = mode {
            x = dropout(x, config.input_dropout, key.for_layer(0));
        }
        for layer in 0..self.layers.len() {
            x = self.convolve(layer, x, (&input, layer), mode)?;
        }
        Ok(x)
    }
}

impl<B: GnnBackend> ConvStack<B> {
    /// Computes one layer, counted from 0, over all rows of a block: the rows after it in the model.
    ///
    /// # Shapes
    /// - the features of the input: `[blocks[0].num_src, columns of the layer's input]`
    /// - output: `[blocks[0].num_dst, columns of the layer's output]`
    ///
    /// # Errors
    /// [`ModelError`] if the input does not have one block, or another number of columns.
    pub(crate) fn forward_layer(&self, layer: usize, input: &ModelInput<B>) -> Result<Tensor<B, 2>, ModelError> {
        let config = self.config();
        input.check(1, if layer == 0 { config.in_channels } else { config.hidden_channels })?;
        self.convolve(layer, input.features(), (input, 0), Mode::Eval)
    }

    /// Computes one layer, counted from 0, over a block of the input, with what precedes and follows it in the stack.
    fn convolve(
        &self,
        layer: usize,
        mut x: Tensor<B, 2>,
        (input, block): (&ModelInput<B>, usize),
        mode: Mode,
    ) -> Result<Tensor<B, 2>, ModelError> {
        let config = self.config();
        let block = &input.blocks()[block];
        let is_hidden = layer + 1 < self.layers.len();
        // The first layer reads features and the last one writes logits. Their widths may differ from the hidden
        // width, so neither layer has a residual.
        let added =
            if config.residual && layer > 0 && is_hidden { Some(prefix(x.clone(), block.num_dst())) } else { None };
        if let Some(norm) = layer.checked_sub(1).and_then(|before| self.norms.get(before)) {
            x = norm.forward(x);
        }
        let gcn_norm = if config.kind.needs_gcn_norm() { Some(input.gcn_norm()?) } else { None };
        let pass = LayerPass::new(mode, layer as u64 + 1);
        let mask = mode.mask(config.dropout, pass.layer);
        let activation = config.kind.hidden_activation();
        let fused = match activation {
            HiddenActivation::Relu if is_hidden => Activation::Relu(mask),
            HiddenActivation::Relu | HiddenActivation::Elu => Activation::Identity,
        };
        let edges = EdgeData { gcn_norm, features: None };
        x = self.layers[layer].convolve(ConvInput { x, x_dst: None, block, edges, pass, activation: fused });
        if is_hidden && activation == HiddenActivation::Elu {
            x = masked(elu(x), mask);
        }
        Ok(match added {
            Some(added) => x + added,
            None => x,
        })
    }
}

/// Returns `x` for positive elements and `exp(x) - 1` for others. NaN stays NaN.
///
/// Unlike burn's ELU, it never computes the exponential of a large positive number, so its gradient is finite for any
/// `x`.
fn elu<B: GnnBackend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    Mode::Eval.relu_and_dropout(0.0, 0).apply(x.clone()) + (x.clamp_max(0.0).exp() - 1.0)
}

//! Multilayer perceptrons.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::batch_norm::BatchNorm;
use super::dense::Dense;
use super::mode::Mode;
use super::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend, Precision};

/// A sequence of dense layers with optional batch normalisation and ReLU between them.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    /// The dense layers, at least one.
    pub layers: Vec<Dense<B>>,
    /// The normalisation after each layer but the last; empty without batch normalisation.
    pub norms: Vec<BatchNorm<B>>,
}

impl<B: Backend> Mlp<B> {
    /// Makes one layer between each two successive entries of `channels`: `[in, hidden, out]` makes two layers.
    ///
    /// # Panics
    /// If `channels` has fewer than two entries.
    pub fn new(channels: &[usize], batch_norm: bool, init: &mut WeightInit, device: &B::Device) -> Self {
        assert!(
            channels.len() >= 2,
            "MLP: {} channel counts, at least 2 are needed (input and output)",
            channels.len()
        );
        let layers = channels.windows(2).map(|ends| Dense::new(ends[0], ends[1], init, device)).collect();
        let between = if batch_norm { &channels[1..channels.len() - 1] } else { &[] };
        let norms = between.iter().map(|&channels| BatchNorm::with_init(channels, init, device)).collect();
        Self { layers, norms }
    }

    /// Sets the type in which a GPU multiplies matrices for this network. The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.layers.iter_mut().for_each(|layer| layer.set_precision(precision));
    }
}

impl<B: GnnBackend> Mlp<B> {
    /// Applies all layers.
    ///
    /// # Shapes
    /// - `x`: `[rows, in_channels]`
    /// - output: `[rows, out_channels]`
    ///
    /// # Panics
    /// If `x` does not have `in_channels` columns.
    pub fn forward(&self, x: Tensor<B, 2>, mode: Mode) -> Tensor<B, 2> {
        let first = &self.layers[0];
        // Without normalisation, product, bias and ReLU are one fused operation.
        if self.layers.len() > 1 && self.norms.is_empty() {
            let x = first.forward(x, mode.relu_and_dropout(0.0, 0));
            return self.forward_from(1, x, mode);
        }
        self.after_first(first.forward(x, Activation::Identity), mode)
    }

    /// Applies all that follows the first layer's product and bias.
    pub(super) fn after_first(&self, x: Tensor<B, 2>, mode: Mode) -> Tensor<B, 2> {
        if self.layers.len() == 1 {
            return x;
        }
        let relu = mode.relu_and_dropout(0.0, 0);
        let x = match self.norms.first() {
            Some(norm) => norm.forward(x, mode, relu),
            None => relu.apply(x),
        };
        self.forward_from(1, x, mode)
    }

    /// Applies the layers from number `layer` on.
    fn forward_from(&self, layer: usize, mut x: Tensor<B, 2>, mode: Mode) -> Tensor<B, 2> {
        let relu = mode.relu_and_dropout(0.0, 0);
        for (number, dense) in self.layers.iter().enumerate().skip(layer) {
            let last = number + 1 == self.layers.len();
            x = match self.norms.get(number) {
                Some(norm) => norm.forward(dense.forward(x, Activation::Identity), mode, relu),
                None => dense.forward(x, if last { Activation::Identity } else { relu }),
            };
        }
        x
    }
}

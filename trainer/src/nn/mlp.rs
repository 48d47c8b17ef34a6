//! Several dense layers.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::batch_norm::BatchNorm;
use super::dense::Dense;
use super::weight_init::WeightInit;
use crate::models::Mode;
use crate::ops::{Activation, GnnBackend, linear};

/// Dense layers, with batch normalisation if wanted and ReLU between them.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    /// At least one.
    pub layers: Vec<Dense<B>>,
    /// One after each layer but the last, or none at all.
    pub norms: Vec<BatchNorm<B>>,
}

impl<B: Backend> Mlp<B> {
    /// Layers between these channels: `[in, hidden, out]` makes two.
    ///
    /// # Panics
    /// If there are fewer than two.
    pub fn new(channels: &[usize], batch_norm: bool, init: &mut WeightInit, device: &B::Device) -> Self {
        assert!(channels.len() >= 2, "an MLP goes from some channels to others");
        let layers = channels.windows(2).map(|ends| Dense::new(ends[0], ends[1], init, device)).collect();
        let between = if batch_norm { &channels[1..channels.len() - 1] } else { &[] };
        Self { layers, norms: between.iter().map(|&channels| BatchNorm::new(channels, device)).collect() }
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
    /// If `x` has other columns.
    pub fn forward(&self, x: Tensor<B, 2>, mode: Mode) -> Tensor<B, 2> {
        let first = &self.layers[0];
        let (weight, bias) = (first.weight.val(), Some(first.bias.val()));
        if self.layers.len() > 1 && self.norms.is_empty() {
            let x = linear(x, weight, bias, mode.relu_and_dropout(0.0, 0));
            return self.forward_from(1, x, mode);
        }
        self.after_first(linear(x, weight, bias, Activation::Identity), mode)
    }

    /// Goes on from what the first layer's product and bias have made of its input.
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

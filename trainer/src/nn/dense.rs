//! A dense layer.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend, linear};

/// A dense layer, `activation(x W + b)`.
#[derive(Module, Debug)]
pub struct Dense<B: Backend> {
    /// `[in_channels, out_channels]`.
    pub weight: Param<Tensor<B, 2>>,
    /// `[out_channels]`.
    pub bias: Param<Tensor<B, 1>>,
}

impl<B: Backend> Dense<B> {
    /// Makes a layer whose weights and bias are uniform in `±1 / sqrt(in_channels)`, as PyTorch initialises them.
    pub fn new(in_channels: usize, out_channels: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        let bound = WeightInit::kaiming_bound(in_channels);
        let weight = init.uniform([in_channels, out_channels], bound, device);
        Self { weight, bias: init.uniform([out_channels], bound, device) }
    }
}

impl<B: GnnBackend> Dense<B> {
    /// Applies the layer.
    ///
    /// # Shapes
    /// - `x`: `[rows, in_channels]`
    /// - output: `[rows, out_channels]`
    ///
    /// # Panics
    /// If `x` does not have `in_channels` columns.
    pub fn forward(&self, x: Tensor<B, 2>, activation: Activation) -> Tensor<B, 2> {
        linear(x, self.weight.val(), Some(self.bias.val()), activation)
    }
}

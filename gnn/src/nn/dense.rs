//! A dense layer.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend, Linear, Precision, linear};
use std::ops::Range;

/// A dense layer, `activation(x W + b)`.
#[derive(Module, Debug)]
pub struct Dense<B: Backend> {
    /// `[in_channels, out_channels]`.
    pub weight: Param<Tensor<B, 2>>,
    /// `[out_channels]`.
    pub bias: Param<Tensor<B, 1>>,
    precision: Precision,
}

impl<B: Backend> Dense<B> {
    /// Makes a layer whose weights and bias are uniform in `±1 / sqrt(in_channels)`, as PyTorch initialises them.
    pub fn new(in_channels: usize, out_channels: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        let bound = WeightInit::kaiming_bound(in_channels);
        let weight = init.uniform([in_channels, out_channels], bound, device);
        Self { weight, bias: init.uniform([out_channels], bound, device), precision: Precision::default() }
    }

    /// Returns the layer of some of the columns of the output.
    pub fn columns(self, columns: Range<usize>) -> Self {
        let [in_channels, _] = self.weight.dims();
        let weight = self.weight.val().slice([0..in_channels, columns.clone()]);
        let bias = self.bias.val().slice([columns]);
        Self { weight: Param::from_tensor(weight), bias: Param::from_tensor(bias), precision: self.precision }
    }

    /// Sets the type in which this layer multiplies matrices. The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
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
        linear(x, self.weight.val(), Some(self.bias.val()), Linear { activation, precision: self.precision })
    }

    /// Returns the product of the rows with the weights, without bias and activation.
    pub(super) fn product(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        linear(x, self.weight.val(), None, Linear { activation: Activation::Identity, precision: self.precision })
    }
}

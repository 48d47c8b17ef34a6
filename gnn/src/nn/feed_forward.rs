//! The feed-forward part of transformer blocks.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::activation::gelu;
use burn::tensor::backend::Backend;

use super::dense::Dense;
use super::weight_init::WeightInit;
use crate::ops::{Activation, DropoutMask, GnnBackend, Precision, masked};

/// The part of a transformer block that maps each row on its own, `x + W_2 gelu(W_1 norm(x) + b_1) + b_2` (Vaswani et al.,
/// "Attention is all you need", NeurIPS 2017). The normalisation comes first, as in Xiong et al., "On layer normalization
/// in the transformer architecture", ICML 2020, and in the networks of Platonov et al., "A critical look at the evaluation
/// of GNNs under heterophily", ICLR 2023.
#[derive(Module, Debug)]
pub struct FeedForward<B: Backend> {
    /// The normalisation of the rows.
    pub norm: LayerNorm<B>,
    /// `W_1` and `b_1`, from `channels` to `ratio * channels`.
    pub hidden: Dense<B>,
    /// `W_2` and `b_2`, from `ratio * channels` to `channels`.
    pub output: Dense<B>,
}

impl<B: Backend> FeedForward<B> {
    /// Makes the part for rows with this number of columns.
    pub fn new(channels: usize, ratio: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        // The check of the number of parameters refuses a width that overflows.
        let width = channels.saturating_mul(ratio);
        Self {
            norm: init.layer_norm(channels, device),
            hidden: Dense::new(channels, width, init, device),
            output: Dense::new(width, channels, init, device),
        }
    }

    /// Sets the type in which a GPU multiplies matrices. The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.hidden.set_precision(precision);
        self.output.set_precision(precision);
    }
}

impl<B: GnnBackend> FeedForward<B> {
    /// Applies the part, with masks of the dropout after GELU and of the dropout before the sum.
    ///
    /// # Shapes
    /// - `x` and output: `[rows, channels]`
    ///
    /// # Panics
    /// If `x` has another number of columns.
    pub fn forward(&self, x: Tensor<B, 2>, of_hidden: DropoutMask, of_output: DropoutMask) -> Tensor<B, 2> {
        let hidden = gelu(self.hidden.forward(self.norm.forward(x.clone()), Activation::Identity));
        let output = self.output.forward(masked(hidden, of_hidden), Activation::Identity);
        x + masked(output, of_output)
    }
}

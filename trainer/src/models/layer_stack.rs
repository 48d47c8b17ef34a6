//! What all models share: convolutions with ReLU and dropout between them.

use burn::tensor::Tensor;

use super::model_input::Mode;
use crate::ops::{Activation, Block, GnnBackend, dropout};

/// Dropout probabilities of a stack of layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StackDropout {
    /// On the input features.
    pub(super) input: f64,
    /// After every layer but the last.
    pub(super) hidden: f64,
}

/// The layers of a model, and what goes between them.
pub(super) struct Stack<'a, L> {
    pub(super) layers: &'a [L],
    pub(super) dropout: StackDropout,
    pub(super) num_classes: usize,
}

impl<L> Stack<'_, L> {
    /// Runs `[convolution, ReLU, dropout]` for every layer but the last, and then the last convolution alone.
    ///
    /// # Shapes
    /// - `x`: `[blocks[0].num_src, in_channels]`
    /// - output: `[num_seeds, num_classes]`
    pub(super) fn run<B: GnnBackend>(
        &self,
        mut x: Tensor<B, 2>,
        blocks: &[Block],
        mode: Mode,
        convolve: impl Fn(&L, Tensor<B, 2>, &Block, Activation) -> Tensor<B, 2>,
    ) -> Tensor<B, 2> {
        if blocks.last().is_none_or(|block| block.num_dst() == 0) {
            return Tensor::zeros([0, self.num_classes], &x.device());
        }
        // Masks are numbered by what they follow: 0 is the input, l the l-th layer.
        if let Mode::Train(key) = mode {
            x = dropout(x, self.dropout.input, key.for_layer(0));
        }
        for (position, (layer, block)) in self.layers.iter().zip(blocks).enumerate() {
            let hidden = mode.relu_and_dropout(self.dropout.hidden, position as u64 + 1);
            let activation = if position + 1 < self.layers.len() { hidden } else { Activation::Identity };
            x = convolve(layer, x, block, activation);
        }
        x
    }
}

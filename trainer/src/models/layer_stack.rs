//! What models of homogeneous graphs share: convolutions with an activation and dropout between them.

use burn::tensor::Tensor;

use super::model_input::Mode;
use crate::ops::{Activation, Block, DropoutMask, GnnBackend, dropout};

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

/// Where in the stack a convolution is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Counted from 1.
    pub(super) layer: u64,
    /// The dropout after it; none for the last.
    pub(super) hidden: Option<DropoutMask>,
}

impl Place {
    /// ReLU and dropout after a hidden layer.
    pub(super) fn relu(self) -> Activation {
        self.hidden.map_or(Activation::Identity, Activation::Relu)
    }
}

impl<L> Stack<'_, L> {
    /// Runs `convolve`, which applies what follows a layer as well, for every layer.
    ///
    /// # Shapes
    /// - `x`: `[blocks[0].num_src, in_channels]`
    /// - output: `[num_seeds, num_classes]`
    pub(super) fn run<B: GnnBackend>(
        &self,
        mut x: Tensor<B, 2>,
        blocks: &[Block],
        mode: Mode,
        convolve: impl Fn(&L, Tensor<B, 2>, &Block, Place) -> Tensor<B, 2>,
    ) -> Tensor<B, 2> {
        if blocks.last().is_none_or(|block| block.num_dst() == 0) {
            return Tensor::zeros([0, self.num_classes], &x.device());
        }
        // Masks are numbered by what they follow: 0 is the input, l the l-th layer.
        if let Mode::Train(key) = mode {
            x = dropout(x, self.dropout.input, key.for_layer(0));
        }
        for ((layer, block), number) in self.layers.iter().zip(blocks).zip(1..) {
            let hidden = ((number as usize) < self.layers.len()).then(|| mode.mask(self.dropout.hidden, number));
            x = convolve(layer, x, block, Place { layer: number, hidden });
        }
        x
    }
}

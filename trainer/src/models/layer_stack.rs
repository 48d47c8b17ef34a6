//! A stack of convolutions, with an activation, dropout, residuals and normalisation between them.

use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::model_input::Mode;
use crate::ops::{Activation, Block, DropoutMask, GnnBackend, dropout};

/// Settings of a stack that are not tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StackSettings {
    /// Probability of dropout on the input features.
    pub(super) input_dropout: f64,
    /// Probability of dropout after every layer but the last.
    pub(super) hidden_dropout: f64,
    /// True if layers between hidden rows add their input to their output.
    pub(super) residual: bool,
}

/// The layers of a model, and what goes between them.
pub(super) struct Stack<'a, B: Backend, L> {
    pub(super) layers: &'a [L],
    /// By layer, from the second on; empty without normalisation.
    pub(super) norms: &'a [LayerNorm<B>],
    pub(super) settings: StackSettings,
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

impl<B: GnnBackend, L> Stack<'_, B, L> {
    /// Runs `convolve`, which applies what follows a layer as well, for every layer.
    ///
    /// # Shapes
    /// - `x`: `[blocks[0].num_src, in_channels]`
    /// - output: `[num_seeds, num_classes]`
    pub(super) fn run(
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
            x = dropout(x, self.settings.input_dropout, key.for_layer(0));
        }
        for ((layer, block), number) in self.layers.iter().zip(blocks).zip(1..) {
            let is_hidden = (number as usize) < self.layers.len();
            let hidden = is_hidden.then(|| mode.mask(self.settings.hidden_dropout, number));
            // Rows of features have another width, and so may have those of classes.
            let reads_hidden_rows = number > 1;
            let residual = self.settings.residual && reads_hidden_rows && is_hidden;
            let added = residual.then(|| prefix(x.clone(), block.num_dst()));
            let norm = if reads_hidden_rows { self.norms.get(number as usize - 2) } else { None };
            if let Some(norm) = norm {
                x = norm.forward(x);
            }
            x = convolve(layer, x, block, Place { layer: number, hidden });
            if let Some(added) = added {
                x = x + added;
            }
        }
        x
    }
}

/// Returns the first rows, without a copy where these are all.
pub(super) fn prefix<B: Backend>(rows: Tensor<B, 2>, count: usize) -> Tensor<B, 2> {
    let [all, columns] = rows.dims();
    if count == all { rows } else { rows.slice([0..count, 0..columns]) }
}

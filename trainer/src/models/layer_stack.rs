//! A stack of convolutions with activations, dropout, residuals and normalisation between them.

use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::nn::Mode;
use crate::ops::{Activation, Block, DropoutMask, GnnBackend, dropout};

/// The settings of a stack that are not tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StackSettings {
    /// Probability of dropout on the input features.
    pub(super) input_dropout: f64,
    /// Probability of dropout after every layer but the last.
    pub(super) hidden_dropout: f64,
    /// True if layers add their input to their output. It applies to all layers but the first and the last.
    pub(super) residual: bool,
}

/// The layers of a model, with the normalisation and the settings of what is between them.
pub(super) struct Stack<'a, B: Backend, L> {
    pub(super) layers: &'a [L],
    /// The normalisation of the input of each layer but the first; empty without normalisation.
    pub(super) norms: &'a [LayerNorm<B>],
    pub(super) settings: StackSettings,
    pub(super) num_classes: usize,
}

/// The position of a convolution in the stack.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The number of the layer, from 1.
    pub(super) layer: u64,
    /// The mask of the dropout that follows a hidden layer; `None` for the last layer.
    pub(super) hidden: Option<DropoutMask>,
}

impl Place {
    /// Returns ReLU and dropout for a hidden layer, and no activation for the last layer.
    pub(super) fn relu(self) -> Activation {
        self.hidden.map_or(Activation::Identity, Activation::Relu)
    }
}

impl<B: GnnBackend, L> Stack<'_, B, L> {
    /// Runs all layers. `convolve` computes one layer including its activation and dropout.
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
        // The mask of the input has number 0, the mask after layer l has number l.
        if let Mode::Train(key) = mode {
            x = dropout(x, self.settings.input_dropout, key.for_layer(0));
        }
        for (block, number) in blocks.iter().zip(1..) {
            x = self.run_layer(number, x, block, mode, &convolve);
        }
        x
    }

    /// Runs one layer, counted from 1, with what precedes and follows it in the stack.
    ///
    /// # Shapes
    /// - `x`: `[block.num_src, columns of the layer's input]`
    /// - output: `[block.num_dst, columns of the layer's output]`
    pub(super) fn run_layer(
        &self,
        number: usize,
        mut x: Tensor<B, 2>,
        block: &Block,
        mode: Mode,
        convolve: &impl Fn(&L, Tensor<B, 2>, &Block, Place) -> Tensor<B, 2>,
    ) -> Tensor<B, 2> {
        let layer = number as u64;
        let is_hidden = number < self.layers.len();
        let hidden = is_hidden.then(|| mode.mask(self.settings.hidden_dropout, layer));
        // The first layer reads features and the last one writes logits. Their widths may differ from the hidden
        // width, so neither layer has a residual.
        let reads_hidden_rows = number > 1;
        let residual = self.settings.residual && reads_hidden_rows && is_hidden;
        let added = residual.then(|| prefix(x.clone(), block.num_dst()));
        let norm = if reads_hidden_rows { self.norms.get(number - 2) } else { None };
        if let Some(norm) = norm {
            x = norm.forward(x);
        }
        x = convolve(&self.layers[number - 1], x, block, Place { layer, hidden });
        if let Some(added) = added {
            x = x + added;
        }
        x
    }
}

/// Returns the first `count` rows. All rows are returned without a copy.
pub(super) fn prefix<B: Backend>(rows: Tensor<B, 2>, count: usize) -> Tensor<B, 2> {
    let [all, columns] = rows.dims();
    if count == all { rows } else { rows.slice([0..count, 0..columns]) }
}

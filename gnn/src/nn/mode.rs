//! Training or evaluation.

use crate::ops::{Activation, DropoutKey, DropoutMask};

/// The mode of a forward pass: training or evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Evaluation, without dropout.
    Eval,
    /// Training, with the dropout masks of this key.
    Train(DropoutKey),
}

impl Mode {
    /// Returns the activation after a hidden layer: ReLU, and in training dropout. `layer` counts from 1, and each
    /// layer has its own mask.
    pub fn relu_and_dropout(self, probability: f64, layer: u64) -> Activation {
        Activation::Relu(self.mask(probability, layer))
    }

    /// Returns the dropout mask of a layer in training, and the mask that keeps everything in evaluation.
    pub fn mask(self, probability: f64, layer: u64) -> DropoutMask {
        let (key, probability) = match self {
            Self::Train(key) => (key, probability),
            Self::Eval => (DropoutKey::new(0, 0, 0), 0.0),
        };
        DropoutMask::new(probability, key.for_layer(layer))
    }
}

//! Training or evaluation.

use crate::ops::{Activation, DropoutKey, DropoutMask};

/// The mode of a forward pass: training or evaluation.
///
/// ```
/// use edgecut_gnn::nn::Mode;
/// use edgecut_gnn::ops::DropoutKey;
/// let training = Mode::Train(DropoutKey::new(42, 0, 7));
/// // Without dropout, the probability has no effect.
/// assert_eq!(Mode::Eval.mask(0.5, 1), Mode::Eval.mask(0.0, 1));
/// assert_ne!(training.mask(0.5, 1), training.mask(0.0, 1));
/// ```
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

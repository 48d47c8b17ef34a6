//! The loss of a batch, and the errors of targets that do not match the outputs.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_gnn::ops::host_values;
use thiserror::Error;

/// The loss of the seeds of a batch.
#[derive(Debug, Clone)]
pub struct LossSum<B: Backend> {
    /// The sum of the seeds' losses, times their weights, `[1]`, with gradients.
    pub sum: Tensor<B, 1>,
    /// The same sum and the number of correct predictions, `[2]`, without gradients. Losses that do not count correct
    /// predictions have 0.
    pub totals: Tensor<B, 1>,
    /// The number of seeds.
    pub num_seeds: usize,
    /// The sum of the weights: the number of seeds unless classes have weights, or the number of known values.
    pub weight: f64,
}

impl<B: Backend> LossSum<B> {
    /// Makes the loss of `num_seeds` seeds without a count of correct predictions.
    pub fn new(sum: Tensor<B, 1>, num_seeds: usize, weight: f64) -> Self {
        let correct = Tensor::zeros([1], &sum.device());
        let totals = Tensor::cat(vec![sum.clone().detach(), correct], 0);
        Self { sum, totals, num_seeds, weight }
    }

    /// Returns the loss of a batch without seeds. Its gradients are zero or absent, never NaN.
    pub fn without_seeds(device: &B::Device) -> Self {
        // A separate leaf tensor, because burn rejects a backward pass from a tensor that is not tracked.
        let sum = Tensor::zeros([1], device).require_grad();
        Self { sum, totals: Tensor::zeros([2], device), num_seeds: 0, weight: 0.0 }
    }

    /// Returns the mean loss, weighted, `[1]`; 0 without seeds or weights.
    pub fn mean(&self) -> Tensor<B, 1> {
        // Seeds whose classes all have the weight 0 have no mean. A multiplication instead of a division, because burn
        // computes the gradient of a division by a scalar in `f32`.
        let scale = if self.weight > 0.0 { 1.0 / self.weight } else { 0.0 };
        self.sum.clone().mul_scalar(scale)
    }

    /// Returns the number of correct predictions. Waits for the device.
    pub fn num_correct(&self) -> usize {
        host_values(self.totals.clone()).get(1).copied().unwrap_or(0.0) as usize
    }
}

/// Targets that do not match the outputs or the loss.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    /// A wrong number of labels.
    #[error("{labels} labels for {rows} predictions, expected one label per prediction")]
    Count {
        /// Number of given labels.
        labels: usize,
        /// Rows of the logits.
        rows: usize,
    },
    /// A wrong number of class weights.
    #[error("`class_weights` has {weights} weights, but the model has {num_classes} classes: give a weight for each")]
    Weights {
        /// Number of given weights.
        weights: usize,
        /// Number of classes.
        num_classes: usize,
    },
    /// Balanced weights without the number of training labels.
    #[error("balanced class weights are computed from labels: call `ClassWeights::of_counts` first")]
    NotCounted,
    /// Weights by the names of classes, in a graph without such names.
    #[error("`class_weights` names classes, but the classes of this graph have no names: give a number per class")]
    NotNamed,
    /// A label that is not a class.
    #[error("seed {row} of the batch has label {label}, but labels must be at least 0 and below {num_classes} classes")]
    NoSuchClass {
        /// The seed, in batch numbering.
        row: usize,
        /// The label of the seed.
        label: i64,
        /// Number of classes.
        num_classes: usize,
    },
    /// Targets of another kind.
    #[error("the batch has {found} as targets, but the loss {loss} needs {needs}")]
    OtherKind {
        /// The name of the loss.
        loss: &'static str,
        /// The targets that the loss needs.
        needs: &'static str,
        /// The targets of the batch.
        found: &'static str,
    },
    /// A wrong number of values.
    #[error("the batch has {given} numbers as targets, but the model has {seeds} rows of {outputs} outputs")]
    Shape {
        /// Number of given values.
        given: usize,
        /// Rows of the outputs.
        seeds: usize,
        /// Columns of the outputs.
        outputs: usize,
    },
}

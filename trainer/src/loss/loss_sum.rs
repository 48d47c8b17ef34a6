//! The loss of a batch, and the errors of targets that do not match the outputs.

use super::Loss;
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

/// Targets that do not match the outputs or the loss: the mismatch.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct TargetError(pub String);

impl TargetError {
    /// Returns the error of targets that the loss `L` does not compare.
    pub(super) fn other_kind<L: Loss>(found: &str) -> Self {
        Self(format!("the batch has {found} as targets, but the loss {} needs {}", L::NAME, L::NEEDS))
    }
}

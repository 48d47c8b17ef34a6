//! Batch normalisation as one operation: statistics, scale and shift, activation and dropout.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;

use super::gnn_backend::{GnnBackend, compute, constant};
use super::gnn_kernels::GnnKernels;
use super::linear::Activation;
use super::operation::{Forward, Operation};

/// The settings of a batch normalisation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNormalization {
    /// The number that is added to the variance, which keeps the division finite.
    pub epsilon: f64,
    /// The activation that is applied to the normalised rows.
    pub activation: Activation,
}

/// The tensors that the forward pass of a batch normalisation keeps for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedBatchNorm<B: Backend> {
    /// `[rows, channels]`.
    pub x: FloatTensor<B>,
    /// `[channels]`.
    pub gamma: FloatTensor<B>,
    /// The output after the activation, `[rows, channels]`.
    pub output: FloatTensor<B>,
    /// The means and variances of the batch, `[2, channels]`.
    pub statistics: FloatTensor<B>,
}

impl<K: GnnKernels> Operation<K, 3> for BatchNormalization {
    type Saved = SavedBatchNorm<K>;
    /// The means and variances of the batch.
    type Extra = FloatTensor<K>;

    fn forward(&self, [x, gamma, beta]: [FloatTensor<K>; 3], _: bool) -> Forward<K, Self::Saved, Self::Extra> {
        let (output, statistics) = K::batch_norm_forward(x.clone(), gamma.clone(), beta, *self);
        let saved = SavedBatchNorm { x, gamma, output: output.clone(), statistics: statistics.clone() };
        Forward { output, extra: statistics, saved }
    }

    fn backward(self, saved: Self::Saved, grad: FloatTensor<K>, _: [bool; 3]) -> [Option<FloatTensor<K>>; 3] {
        K::batch_norm_backward(saved, grad, self).map(Some)
    }
}

/// Computes `activation(gamma * (x - mean) / sqrt(variance + epsilon) + beta)` with the mean and the biased variance of
/// each column of `x` (Ioffe and Szegedy, "Batch normalization", ICML 2015).
///
/// Also returns the means and variances. Only the first output has a gradient; the returned statistics have none. A
/// single row equals its mean, so it becomes `activation(beta)`.
///
/// # Shapes
/// - `x`: `[rows, channels]`
/// - `gamma`, `beta`: `[channels]`
/// - output: `[rows, channels]`, and `[2, channels]`: means, then variances
///
/// # Panics
/// If the shapes do not match.
pub fn batch_norm<B: GnnBackend>(
    x: Tensor<B, 2>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
    normalization: BatchNormalization,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let [_, channels] = x.dims();
    assert_eq!(
        (gamma.dims(), beta.dims()),
        ([channels], [channels]),
        "batch_norm: columns of x against gamma and beta"
    );
    let inputs = [x.into_primitive(), gamma.into_primitive(), beta.into_primitive()];
    let (output, statistics) = compute(normalization, inputs);
    (output, constant::<B, 2>(statistics))
}

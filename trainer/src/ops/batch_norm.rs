//! Batch normalisation as one operation: statistics, scale and shift, activation and dropout.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorPrimitive};

use super::aggregate::GnnBackend;
use super::linear::Activation;

/// What a batch normalisation does after it has found mean and variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNormalization {
    /// What is added to the variance.
    pub epsilon: f64,
    /// What follows.
    pub activation: Activation,
}

/// What the forward pass of a batch normalisation leaves for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedBatchNorm<B: Backend> {
    /// `[rows, channels]`.
    pub x: FloatTensor<B>,
    /// `[channels]`.
    pub gamma: FloatTensor<B>,
    /// After the activation, `[rows, channels]`.
    pub output: FloatTensor<B>,
    /// Mean and variance of the batch, `[2, channels]`.
    pub statistics: FloatTensor<B>,
}

/// `activation(gamma * (x - mean) / sqrt(variance + epsilon) + beta)` with the mean and the biased variance of each column of
/// `x` (Ioffe and Szegedy, "Batch normalization", ICML 2015), and these two: the gradient flows through the first, not through
/// the statistics that are given out. A single row is its own mean and becomes `beta`.
///
/// # Shapes
/// - `x`: `[rows, channels]`
/// - `gamma`, `beta`: `[channels]`
/// - output: `[rows, channels]`, and `[2, channels]`: means, then variances
///
/// # Panics
/// If the shapes do not fit each other.
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
    let float = |primitive: TensorPrimitive<B>| primitive.tensor();
    let (x, gamma, beta) = (float(x.into_primitive()), float(gamma.into_primitive()), float(beta.into_primitive()));
    let (output, statistics) = B::gnn_batch_norm(x, gamma, beta, normalization);
    let tensor = |primitive| Tensor::from_primitive(TensorPrimitive::Float(primitive));
    (tensor(output), tensor(statistics))
}

//! Graph normalisation.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::weight_init::WeightInit;
use crate::ops::{GnnBackend, Reduce, Segments, pool};

/// The number that is added to variances, as in PyG.
const EPSILON: f64 = 1e-5;

/// Normalisation over the nodes of each graph, `gamma (x - alpha mean) / sqrt(variance + 1e-5) + beta`, where the variance is
/// the mean square of `x - alpha mean` (Cai et al., "GraphNorm: A principled approach to accelerating graph neural network
/// training", ICML 2021). It computes the same in training and evaluation.
#[derive(Module, Debug)]
pub struct GraphNorm<B: Backend> {
    /// `[channels]`.
    pub gamma: Param<Tensor<B, 1>>,
    /// `[channels]`.
    pub beta: Param<Tensor<B, 1>>,
    /// The share of the mean that is subtracted, `[channels]`.
    pub alpha: Param<Tensor<B, 1>>,
}

impl<B: Backend> GraphNorm<B> {
    /// Makes a layer with scale 1 and shift 0, which subtracts the whole mean.
    pub fn with_init(channels: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        Self {
            gamma: Param::from_tensor(init.constant([channels], 1.0, device)),
            beta: Param::from_tensor(init.constant([channels], 0.0, device)),
            alpha: Param::from_tensor(init.constant([channels], 1.0, device)),
        }
    }
}

impl<B: GnnBackend> GraphNorm<B> {
    /// Normalises the rows of each graph.
    ///
    /// # Shapes
    /// - `x` and output: `[rows of all segments, channels]`
    ///
    /// # Panics
    /// If `x` has another number of rows or columns.
    pub fn forward(&self, x: Tensor<B, 2>, segments: &Segments) -> Tensor<B, 2> {
        let mean = segments.expand(pool(x.clone(), segments, &Reduce::Mean));
        let centred = x - mean * self.alpha.val().unsqueeze();
        let variance = pool(centred.clone().powi_scalar(2), segments, &Reduce::Mean);
        let deviation = segments.expand((variance + EPSILON).sqrt());
        centred / deviation * self.gamma.val().unsqueeze() + self.beta.val().unsqueeze()
    }
}

//! Batch normalisation.

use burn::module::{Module, Param, RunningState};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::mode::Mode;
use super::weight_init::WeightInit;
use crate::ops::{Activation, BatchNormalization, GnnBackend, batch_norm};

/// The number that is added to variances, as in PyTorch.
const EPSILON: f64 = 1e-5;
/// The weight of a batch in the running statistics, as in PyTorch.
const MOMENTUM: f64 = 0.1;

/// Batch normalisation per channel, `activation(gamma (x - mean) / sqrt(variance + 1e-5) + beta)`, as PyTorch's
/// `BatchNorm1d`.
///
/// Training uses the statistics of the batch and updates the running statistics with momentum 0.1. Evaluation uses the
/// running statistics, and so does training if `gamma` and `beta` are frozen.
///
/// **Several ranks.** Each rank normalises by the statistics of its own share of the batch, as PyTorch's `BatchNorm1d`
/// does under `DistributedDataParallel`. Statistics of all ranks would need a collective within the forward and the backward
/// pass, which a rank without seeds in a step does not run. The trainer averages the running statistics over all ranks before each evaluation
/// (`average_statistics`), so that all ranks evaluate and save the same model.
#[derive(Module, Debug)]
pub struct BatchNorm<B: Backend> {
    /// `[channels]`.
    pub gamma: Param<Tensor<B, 1>>,
    /// `[channels]`.
    pub beta: Param<Tensor<B, 1>>,
    /// `[channels]`.
    pub running_mean: RunningState<Tensor<B, 1>>,
    /// `[channels]`; follows the unbiased variances.
    pub running_var: RunningState<Tensor<B, 1>>,
}

impl<B: Backend> BatchNorm<B> {
    /// Makes a layer with scale 1, shift 0, running mean 0 and running variance 1.
    pub fn new(channels: usize, device: &B::Device) -> Self {
        Self::with_init(channels, &mut WeightInit::new(0), device)
    }

    /// Makes a layer of a model, whose values `init` may count.
    pub fn with_init(channels: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        Self {
            gamma: Param::from_tensor(init.constant([channels], 1.0, device)),
            beta: Param::from_tensor(init.constant([channels], 0.0, device)),
            running_mean: RunningState::new(init.constant([channels], 0.0, device)),
            running_var: RunningState::new(init.constant([channels], 1.0, device)),
        }
    }
}

impl<B: GnnBackend> BatchNorm<B> {
    /// Returns whether training keeps the scale and the shift. The running statistics are then kept too, since they
    /// belong to them.
    fn is_frozen(&self) -> bool {
        // Without autodiff, no parameter requires a gradient.
        B::ad_enabled(&self.gamma.device()) && !self.gamma.is_require_grad() && !self.beta.is_require_grad()
    }

    /// Normalises the rows and applies `activation`.
    ///
    /// # Shapes
    /// - `x` and output: `[rows, channels]`
    ///
    /// # Panics
    /// If `x` does not have `channels` columns.
    pub fn forward(&self, x: Tensor<B, 2>, mode: Mode, activation: Activation) -> Tensor<B, 2> {
        let gamma = self.gamma.val();
        let beta = self.beta.val();
        match mode {
            Mode::Train(_) if !self.is_frozen() => {
                let [rows, channels] = x.dims();
                let normalization = BatchNormalization { epsilon: EPSILON, activation };
                let (output, statistics) = batch_norm(x, gamma, beta, normalization);
                if rows > 0 {
                    let of_row = |row: usize| statistics.clone().slice([row..row + 1, 0..channels]).reshape([channels]);
                    // The factor from the biased to the unbiased variance; `max(2)` avoids a division by 0 for a single
                    // row.
                    let unbiased = rows as f64 / (rows.max(2) - 1) as f64;
                    follow(&self.running_mean, of_row(0));
                    follow(&self.running_var, of_row(1).mul_scalar(unbiased));
                }
                output
            }
            Mode::Train(_) | Mode::Eval => {
                let scale = gamma / self.running_var.value_sync().add_scalar(EPSILON).sqrt();
                let shift = beta - self.running_mean.value_sync() * scale.clone();
                activation.apply(x * scale.unsqueeze() + shift.unsqueeze())
            }
        }
    }
}

/// Moves a running statistic towards the statistic of a batch.
fn follow<B: Backend>(running: &RunningState<Tensor<B, 1>>, of_batch: Tensor<B, 1>) {
    running.update(running.value_sync().mul_scalar(1.0 - MOMENTUM) + of_batch.mul_scalar(MOMENTUM));
    // burn applies an update only when the value is read next.
    running.value_sync();
}

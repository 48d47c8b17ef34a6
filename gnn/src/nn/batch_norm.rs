//! Batch normalisation.

use burn::module::{Module, Param, RunningState};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use super::mode::Mode;
use super::weight_init::WeightInit;
use crate::ops::{
    Activation, BatchNormSync, BatchNormalization, GnnBackend, RowStatistics, batch_norm, synced_batch_norm,
};

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
/// does under `DistributedDataParallel`. The trainer averages the running statistics over all ranks before each evaluation
/// (`average_statistics`), so that all ranks evaluate and save the same model. With a [`BatchNormSync`]
/// ([`set_sync`](Self::set_sync)), ranks normalise by the statistics of the whole batch, as PyTorch's `SyncBatchNorm` does,
/// and the running statistics are equal on all ranks after each step.
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
    sync: Option<BatchNormSync>,
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
            sync: None,
        }
    }

    /// Sets the exchange with the other ranks in training. By default there is none.
    pub fn set_sync(&mut self, sync: Option<BatchNormSync>) {
        self.sync = sync;
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
        match (mode, &self.sync) {
            (Mode::Train(_), Some(sync)) if !self.is_frozen() => {
                let device = x.device();
                let normalization = BatchNormalization { epsilon: EPSILON, activation };
                let (output, statistics) = synced_batch_norm(x, gamma, beta, normalization, sync);
                self.follow_all_ranks(statistics, &device);
                output
            }
            (Mode::Train(_), None) if !self.is_frozen() => {
                let [rows, channels] = x.dims();
                let normalization = BatchNormalization { epsilon: EPSILON, activation };
                let (output, statistics) = batch_norm(x, gamma, beta, normalization);
                let mean = statistics.clone().slice([0..1, 0..channels]).reshape([channels]);
                let variance = statistics.slice([1..2, 0..channels]).reshape([channels]);
                self.follow_batch(rows as f64, mean, variance);
                output
            }
            _ => {
                let scale = gamma / self.running_var.value_sync().add_scalar(EPSILON).sqrt();
                let shift = beta - self.running_mean.value_sync() * scale.clone();
                activation.apply(x * scale.unsqueeze() + shift.unsqueeze())
            }
        }
    }

    /// Takes part in the [exchange](Self::set_sync) of a forward pass in which this rank has no rows. Other ranks may have
    /// some. Without an exchange, this does nothing.
    pub fn forward_without_rows(&self, mode: Mode) {
        if let (Mode::Train(_), Some(sync)) = (mode, &self.sync)
            && !self.is_frozen()
        {
            let [channels] = self.gamma.dims();
            let (_, statistics) = sync.forward(&RowStatistics::without_rows(channels));
            self.follow_all_ranks(statistics, &self.gamma.device());
        }
    }

    fn follow_all_ranks(&self, statistics: RowStatistics, device: &B::Device) {
        let RowStatistics { num_rows, means, variances } = statistics;
        let channels = means.len();
        let [mean, variance] =
            [means, variances].map(|values| Tensor::from_data(TensorData::new(values, [channels]), device));
        self.follow_batch(num_rows, mean, variance);
    }

    /// Updates the running statistics by the mean and the biased variance of each column of a batch.
    fn follow_batch(&self, num_rows: f64, mean: Tensor<B, 1>, variance: Tensor<B, 1>) {
        if num_rows > 0.0 {
            // The factor from the biased to the unbiased variance; `max(2)` avoids a division by 0 for a single row.
            let unbiased = num_rows / (num_rows.max(2.0) - 1.0);
            follow(&self.running_mean, mean);
            follow(&self.running_var, variance.mul_scalar(unbiased));
        }
    }
}

/// Moves a running statistic towards the statistic of a batch.
fn follow<B: Backend>(running: &RunningState<Tensor<B, 1>>, of_batch: Tensor<B, 1>) {
    running.update(running.value_sync().mul_scalar(1.0 - MOMENTUM) + of_batch.mul_scalar(MOMENTUM));
    // burn applies an update only when the value is read next.
    running.value_sync();
}

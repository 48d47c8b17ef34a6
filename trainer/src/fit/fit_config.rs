//! The settings of a training run that do not depend on the task.

/// The settings of a training run that do not depend on the task.
///
/// ```
/// use edgecut_trainer::{FitConfig, LearningRate};
///
/// let config = FitConfig { num_epochs: 30, lr: LearningRate::constant(0.003), ..FitConfig::default() };
/// assert_eq!(config.lr.of_epoch(29), 0.003);
/// ```
#[derive(Clone, Debug)]
pub struct FitConfig {
    /// The number of epochs.
    pub num_epochs: u64,
    /// The number of epochs between validations. The last epoch is always validated.
    pub eval_every: u64,
    /// The number of consecutive validations without a new best metric after which training stops; `None` never stops
    /// early.
    pub patience: Option<u64>,
    /// The learning rate of Adam.
    pub lr: LearningRate,
    /// The L2 penalty on all parameters except embeddings.
    pub weight_decay: f64,
    /// The random seed of dropout.
    pub seed: u64,
}

impl Default for FitConfig {
    /// Returns ten epochs with Adam's usual learning rate of 0.001, validated after each epoch.
    fn default() -> Self {
        Self {
            num_epochs: 10,
            eval_every: 1,
            patience: None,
            lr: LearningRate::constant(0.001),
            weight_decay: 0.0,
            seed: 0,
        }
    }
}

/// A learning rate that falls in steps, like PyTorch's `StepLR`.
///
/// ```
/// let lr = edgecut_trainer::LearningRate { initial: 0.01, step: 50, gamma: 0.5 };
/// assert_eq!([0, 49, 50, 149].map(|epoch| lr.of_epoch(epoch)), [0.01, 0.01, 0.005, 0.0025]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// The learning rate of the first epoch.
    pub initial: f64,
    /// The number of epochs after which the rate is multiplied by `gamma`, repeatedly; 0 keeps it constant.
    pub step: u64,
    /// The factor of the decay.
    pub gamma: f64,
}

impl LearningRate {
    /// Returns a learning rate that stays the same.
    pub fn constant(lr: f64) -> Self {
        Self { initial: lr, step: 0, gamma: 1.0 }
    }

    /// Returns the learning rate of an epoch, counted from 0.
    pub fn of_epoch(&self, epoch: u64) -> f64 {
        let steps = epoch.checked_div(self.step).unwrap_or(0);
        self.initial * self.gamma.powi(i32::try_from(steps).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_falls_in_steps() {
        let lr = LearningRate { initial: 0.01, step: 50, gamma: 0.5 };
        assert_eq!([0, 49, 50, 149].map(|epoch| lr.of_epoch(epoch)), [0.01, 0.01, 0.005, 0.0025]);
        assert_eq!(LearningRate { step: 0, ..lr }.of_epoch(1000), 0.01);
        assert_eq!(LearningRate::constant(0.3).of_epoch(1000), 0.3);
    }
}

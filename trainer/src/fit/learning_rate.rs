//! The learning rate over a run.

use crate::checkpoint::Plateau;
use std::f64::consts::PI;

/// A better metric must exceed the best one by this fraction, as in PyTorch's `ReduceLROnPlateau`.
const PLATEAU_THRESHOLD: f64 = 1e-4;

/// A learning rate with a schedule, which changes it from epoch to epoch, and a warm-up over the first steps.
///
/// ```
/// use edgecut_trainer::{LearningRate, LrSchedule};
/// let lr = LearningRate { initial: 0.01, schedule: LrSchedule::Step { every: 50, gamma: 0.5 }, warmup_steps: 10 };
/// assert_eq!(LearningRate::constant(0.3).schedule, LrSchedule::Constant);
/// # let _ = lr;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// The learning rate of the first epoch, after the warm-up.
    pub initial: f64,
    /// The change from epoch to epoch.
    pub schedule: LrSchedule,
    /// The number of steps over which the rate rises linearly from 0; 0 starts with the full rate.
    pub warmup_steps: u64,
}

/// The change of a learning rate from epoch to epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LrSchedule {
    /// The rate stays the same.
    Constant,
    /// The rate is multiplied by `gamma` every `every` epochs, as PyTorch's `StepLR`; 0 keeps it constant.
    Step {
        /// The number of epochs between two changes.
        every: u64,
        /// The factor.
        gamma: f64,
    },
    /// The rate falls to 0 at the end of the run along half a cosine, as PyTorch's `CosineAnnealingLR` (Loshchilov and
    /// Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017).
    Cosine,
    /// The rate is multiplied by `gamma` when more than `patience` validations in a row have not improved the measure of
    /// [`PlateauOn`], as PyTorch's `ReduceLROnPlateau`.
    Plateau {
        /// The number of validations without improvement that are tolerated.
        patience: u64,
        /// The factor.
        gamma: f64,
    },
}

/// The measure that stands still on a plateau.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlateauOn {
    /// The metric on the validation data. These must not be the data whose metric is reported.
    #[default]
    ValidationMetric,
    /// The mean loss of the epoch's training batches.
    TrainingLoss,
}

impl LearningRate {
    /// Returns a learning rate that stays the same.
    pub fn constant(lr: f64) -> Self {
        Self { initial: lr, schedule: LrSchedule::Constant, warmup_steps: 0 }
    }
}

/// The state of a learning rate during a run.
#[derive(Clone, Debug)]
pub(super) struct LrState {
    lr: LearningRate,
    plateau_on: PlateauOn,
    num_epochs: u64,
    /// The best measure so far, the greater the better: the metric or its negative, or the negative loss.
    best: f64,
    /// The number of validations without improvement since the last change.
    num_worse: u64,
    /// The product of the changes on a plateau.
    factor: f64,
}

impl LrState {
    pub(super) fn new(lr: LearningRate, plateau_on: PlateauOn, num_epochs: u64) -> Self {
        Self { lr, plateau_on, num_epochs, best: f64::NEG_INFINITY, num_worse: 0, factor: 1.0 }
    }

    /// Returns the rate of a step, counted from 0 over the whole run, in an epoch, counted from 0.
    pub(super) fn rate(&self, epoch: u64, step: u64) -> f64 {
        let factor = match self.lr.schedule {
            LrSchedule::Constant => 1.0,
            LrSchedule::Step { every, gamma } => {
                let changes = epoch.checked_div(every).unwrap_or(0);
                gamma.powi(i32::try_from(changes).unwrap_or(i32::MAX))
            }
            LrSchedule::Cosine => (1.0 + (PI * epoch as f64 / self.num_epochs.max(1) as f64).cos()) / 2.0,
            LrSchedule::Plateau { .. } => self.factor,
        };
        let warm_up = match self.lr.warmup_steps {
            0 => 1.0,
            steps => ((step + 1) as f64 / steps as f64).min(1.0),
        };
        self.lr.initial * factor * warm_up
    }

    /// Returns the state that a plateau has changed.
    pub(super) fn plateau(&self) -> Plateau {
        Plateau { best: self.best, num_worse: self.num_worse, factor: self.factor }
    }

    /// Replaces this state.
    pub(super) fn set_plateau(&mut self, plateau: Plateau) {
        self.best = plateau.best;
        self.num_worse = plateau.num_worse;
        self.factor = plateau.factor;
    }

    /// Takes a validation into account: its metric, the greater the better, and the training loss of the epoch before it.
    pub(super) fn validated(&mut self, metric: Option<f64>, loss: Option<f64>) {
        let LrSchedule::Plateau { patience, gamma } = self.lr.schedule else { return };
        let measure = match self.plateau_on {
            PlateauOn::ValidationMetric => metric,
            PlateauOn::TrainingLoss => loss.map(|loss| -loss),
        };
        let Some(measure) = measure else { return };
        if measure > self.best + PLATEAU_THRESHOLD * self.best.abs() || self.best == f64::NEG_INFINITY {
            self.best = measure;
            self.num_worse = 0;
            return;
        }
        self.num_worse += 1;
        if self.num_worse > patience {
            self.num_worse = 0;
            self.factor *= gamma;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rates of the first steps of one-step epochs with these metrics.
    fn rates(schedule: LrSchedule, warmup_steps: u64, metrics: &[f64]) -> Vec<f64> {
        let lr = LearningRate { initial: 0.2, schedule, warmup_steps };
        let mut state = LrState::new(lr, PlateauOn::ValidationMetric, metrics.len() as u64);
        let step = |(epoch, &metric): (usize, &f64)| {
            let rate = state.rate(epoch as u64, epoch as u64);
            state.validated(Some(metric), None);
            rate
        };
        metrics.iter().enumerate().map(step).collect()
    }

    fn check(schedule: LrSchedule, warmup_steps: u64, metrics: &[f64], expected: &[f64]) {
        let found = rates(schedule, warmup_steps, metrics);
        let is_close = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-8;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_close), "{schedule:?}: {found:?}");
    }

    /// The expected rates are those of torch 2.4.1.
    #[test]
    fn schedules_change_the_rate_as_those_of_torch() {
        let step = LrSchedule::Step { every: 3, gamma: 0.5 };
        check(step, 0, &[0.0; 7], &[0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05]);
        check(LrSchedule::Cosine, 0, &[0.0; 6], &[0.2, 0.186_602_54, 0.15, 0.1, 0.05, 0.013_397_46]);
        check(LrSchedule::Constant, 4, &[0.0; 6], &[0.05, 0.1, 0.15, 0.2, 0.2, 0.2]);
        let metrics = [0.5, 0.6, 0.59, 0.6, 0.600_001, 0.61, 0.6, 0.6, 0.6, 0.6];
        let expected = [0.2, 0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.02, 0.002, 0.002];
        check(LrSchedule::Plateau { patience: 1, gamma: 0.1 }, 0, &metrics, &expected);
    }

    /// The expected rates follow the rule of torch's mode "min".
    #[test]
    fn a_plateau_of_the_loss_ignores_the_metric() {
        let schedule = LrSchedule::Plateau { patience: 1, gamma: 0.1 };
        let lr = LearningRate { initial: 0.2, schedule, warmup_steps: 0 };
        let mut state = LrState::new(lr, PlateauOn::TrainingLoss, 7);
        let mut rates = Vec::new();
        for (epoch, loss) in [0.9, 0.8, 0.79999, 0.85, 0.7, 0.7, 0.71].into_iter().enumerate() {
            rates.push(state.rate(epoch as u64, 0));
            state.validated(Some(epoch as f64), Some(loss));
        }
        rates.push(state.rate(7, 0));
        let expected = [0.2, 0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.002];
        assert!(rates.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{rates:?}");
    }

    #[test]
    fn a_step_of_0_epochs_keeps_the_rate() {
        check(LrSchedule::Step { every: 0, gamma: 0.5 }, 0, &[0.0; 3], &[0.2; 3]);
    }
}

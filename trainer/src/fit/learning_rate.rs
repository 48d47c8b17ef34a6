//! The learning rate over a run.

use super::fit_config::FitConfig;
use crate::checkpoint::Plateau;
use edgecut_settings::words;
use std::f64::consts::PI;

/// A better metric must exceed the best one by this fraction, as in PyTorch's `ReduceLROnPlateau`.
const PLATEAU_THRESHOLD: f64 = 1e-4;
const DEFAULT_LR_STEP: u64 = 50;
const DEFAULT_STEP_GAMMA: f64 = 0.5;
const DEFAULT_PLATEAU_GAMMA: f64 = 0.1;
const DEFAULT_LR_PATIENCE: u64 = 10;

/// The change of the learning rate from epoch to epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LrSchedule {
    /// The rate stays the same.
    #[default]
    Constant,
    /// The rate is multiplied by [`FitConfig::lr_gamma`] every [`FitConfig::lr_step`] epochs, as PyTorch's `StepLR`.
    Step,
    /// The rate falls to 0 at the end of the run along half a cosine, as PyTorch's `CosineAnnealingLR` (Loshchilov and
    /// Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017).
    Cosine,
    /// The rate is multiplied by [`FitConfig::lr_gamma`] when more than [`FitConfig::lr_patience`] validations in a row
    /// have not improved the measure of [`PlateauOn`], as PyTorch's `ReduceLROnPlateau`.
    Plateau,
}

words!(
    LrSchedule,
    "schedule",
    Constant = "constant": "The same rate in all epochs",
    Step = "step": "Multiplied by --lr-gamma every --lr-step epochs",
    Cosine = "cosine": "Falling to 0 along half a cosine",
    Plateau = "plateau": "Multiplied by --lr-gamma when more than --lr-patience validations have not improved the metric, or with \
        --protocol best-mean-epoch the training loss",
);

/// The measure that stands still on a plateau.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlateauOn {
    /// The metric on the validation data. These must not be the data whose metric is reported.
    #[default]
    ValidationMetric,
    /// The mean loss of the epoch's training batches.
    TrainingLoss,
}

/// The state of a learning rate during a run.
#[derive(Clone, Debug)]
pub(super) struct LrState {
    schedule: LrSchedule,
    /// The epochs between two changes of a step schedule; 0 keeps the rate.
    step: u64,
    /// The factor of a change.
    gamma: f64,
    /// The validations without improvement that a plateau tolerates.
    patience: u64,
    warmup_steps: u64,
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
    pub(super) fn new(config: &FitConfig) -> Self {
        let gamma = if config.lr_schedule == LrSchedule::Plateau { DEFAULT_PLATEAU_GAMMA } else { DEFAULT_STEP_GAMMA };
        Self {
            schedule: config.lr_schedule,
            step: config.lr_step.unwrap_or(DEFAULT_LR_STEP),
            gamma: config.lr_gamma.unwrap_or(gamma),
            patience: config.lr_patience.unwrap_or(DEFAULT_LR_PATIENCE),
            warmup_steps: config.warmup_steps,
            plateau_on: config.plateau_on,
            num_epochs: config.num_epochs,
            best: f64::NEG_INFINITY,
            num_worse: 0,
            factor: 1.0,
        }
    }

    /// Returns the rate of a step, counted from 0 over the whole run, in an epoch, counted from 0. The rate would be
    /// `initial` without a schedule.
    pub(super) fn rate_of(&self, initial: f64, epoch: u64, step: u64) -> f64 {
        let factor = match self.schedule {
            LrSchedule::Constant => 1.0,
            LrSchedule::Step => {
                let changes = epoch.checked_div(self.step).unwrap_or(0);
                self.gamma.powi(i32::try_from(changes).unwrap_or(i32::MAX))
            }
            LrSchedule::Cosine => (1.0 + (PI * epoch as f64 / self.num_epochs.max(1) as f64).cos()) / 2.0,
            LrSchedule::Plateau => self.factor,
        };
        let warm_up = match self.warmup_steps {
            0 => 1.0,
            steps => ((step + 1) as f64 / steps as f64).min(1.0),
        };
        initial * factor * warm_up
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
        if self.schedule != LrSchedule::Plateau {
            return;
        }
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
        if self.num_worse > self.patience {
            self.num_worse = 0;
            self.factor *= self.gamma;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant() -> FitConfig {
        FitConfig { lr: 0.2, ..FitConfig::default() }
    }

    fn step(epochs: u64) -> FitConfig {
        FitConfig { lr_schedule: LrSchedule::Step, lr_step: Some(epochs), ..constant() }
    }

    fn plateau() -> FitConfig {
        FitConfig { lr_schedule: LrSchedule::Plateau, lr_patience: Some(1), ..constant() }
    }

    /// Checks the rates of the first steps of one-step epochs with these metrics.
    fn check(config: &FitConfig, metrics: &[f64], expected: &[f64]) {
        let mut state = LrState::new(&FitConfig { num_epochs: metrics.len() as u64, ..config.clone() });
        let mut found = Vec::new();
        for (epoch, &metric) in metrics.iter().enumerate() {
            found.push(state.rate_of(config.lr, epoch as u64, epoch as u64));
            state.validated(Some(metric), None);
        }
        let is_close = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-8;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_close), "{config:?}: {found:?}");
    }

    /// torch 2.4.1 gives the expected rates.
    #[test]
    fn schedules_change_the_rate_as_those_of_torch() {
        check(&step(3), &[0.0; 7], &[0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05]);
        let cosine = FitConfig { lr_schedule: LrSchedule::Cosine, ..constant() };
        check(&cosine, &[0.0; 6], &[0.2, 0.186_602_54, 0.15, 0.1, 0.05, 0.013_397_46]);
        check(&FitConfig { warmup_steps: 4, ..constant() }, &[0.0; 6], &[0.05, 0.1, 0.15, 0.2, 0.2, 0.2]);
        let metrics = [0.5, 0.6, 0.59, 0.6, 0.600_001, 0.61, 0.6, 0.6, 0.6, 0.6];
        let expected = [0.2, 0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.02, 0.002, 0.002];
        check(&plateau(), &metrics, &expected);
    }

    /// The expected rates follow the rule of torch's mode "min".
    #[test]
    fn a_plateau_of_the_loss_ignores_the_metric() {
        let mut state = LrState::new(&FitConfig { plateau_on: PlateauOn::TrainingLoss, num_epochs: 7, ..plateau() });
        let mut rates = Vec::new();
        for (epoch, loss) in [0.9, 0.8, 0.79999, 0.85, 0.7, 0.7, 0.71].into_iter().enumerate() {
            rates.push(state.rate_of(0.2, epoch as u64, 0));
            state.validated(Some(epoch as f64), Some(loss));
        }
        rates.push(state.rate_of(0.2, 7, 0));
        let expected = [0.2, 0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.002];
        assert!(rates.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{rates:?}");
    }

    #[test]
    fn a_step_of_0_epochs_keeps_the_rate() {
        check(&step(0), &[0.0; 3], &[0.2; 3]);
    }
}

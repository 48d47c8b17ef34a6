//! The flags of the optimizer and of its learning rate.

use crate::args::not_negative;
use crate::exit::UsageError;
use clap::{Args, ValueEnum};
use edgecut_trainer::{FitConfig, LearningRate, LrSchedule, OptimizerKind};
use serde::Serialize;

/// The momentum of SGD without `--momentum`.
const DEFAULT_MOMENTUM: f64 = 0.9;
/// The validations without improvement that a plateau has without `--lr-patience`.
const DEFAULT_LR_PATIENCE: u64 = 10;
/// The factor of a plateau without `--lr-gamma`.
const DEFAULT_PLATEAU_GAMMA: f64 = 0.1;
/// The decay in steps that `--lr-schedule step` has by default.
const DEFAULT_LR_STEP: u64 = 50;
const DEFAULT_STEP_GAMMA: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OptimizerName {
    /// Adam with an L2 penalty
    Adam,
    /// Adam with decoupled weight decay
    Adamw,
    /// Stochastic gradient descent with momentum
    Sgd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScheduleName {
    /// The same rate in all epochs
    Constant,
    /// Multiplied by --lr-gamma every --lr-step epochs
    Step,
    /// Falling to 0 along half a cosine
    Cosine,
    /// Multiplied by --lr-gamma when --lr-patience validations have not improved the metric, or with --protocol
    /// best-mean-epoch the training loss
    Plateau,
}

/// Flags of the optimizer and of its learning rate; equal on all ranks.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct OptimizerArgs {
    /// Optimizer of all parameters. Embeddings of nodes have a sparse Adam
    #[arg(long, value_enum, default_value_t = OptimizerName::Adam)]
    optimizer: OptimizerName,
    /// Momentum of sgd [default: 0.9]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    momentum: Option<f64>,
    /// Change of --lr from epoch to epoch [default: step for train graph, otherwise constant]
    #[arg(long, value_enum)]
    lr_schedule: Option<ScheduleName>,
    /// Epochs between two changes of a step schedule; 0 keeps the learning rate constant [default: 50]
    #[arg(long, value_name = "N")]
    lr_step: Option<u64>,
    /// Factor of each change of a step schedule or on a plateau [default: 0.5, on a plateau 0.1]
    #[arg(long, value_name = "G", value_parser = not_negative)]
    lr_gamma: Option<f64>,
    /// Validations without a better metric before the learning rate falls on a plateau [default: 10]
    #[arg(long, value_name = "N")]
    lr_patience: Option<u64>,
    /// Steps over which the learning rate rises linearly at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup_steps: u64,
    /// Largest norm of the gradients of all parameters together; longer ones are scaled down [default: no limit]
    #[arg(long, value_name = "NORM", value_parser = positive)]
    grad_clip: Option<f64>,
    /// Average the gradients of N steps before the optimizer takes one step, as with batches N times larger. Not for
    /// models with embeddings
    #[arg(long, aliases = ["gradient-accumulation-steps", "gradient_accumulation_steps"], value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    accumulate_steps: u64,
}

fn positive(text: &str) -> Result<f64, String> {
    let value = not_negative(text)?;
    if value > 0.0 { Ok(value) } else { Err(format!("{text} is not above 0")) }
}

impl OptimizerArgs {
    /// Returns the settings of a training loop with this initial learning rate. `schedule` is the default schedule.
    ///
    /// # Errors
    /// [`UsageError`] for flags that have no effect on each other.
    pub(crate) fn fit(&self, lr: f64, schedule: ScheduleName) -> Result<FitConfig, UsageError> {
        Ok(FitConfig {
            optimizer: self.optimizer()?,
            lr: LearningRate { initial: lr, schedule: self.schedule(schedule)?, warmup_steps: self.warmup_steps },
            grad_clip: self.grad_clip,
            accumulate_steps: self.accumulate_steps,
            ..FitConfig::default()
        })
    }

    /// Returns the optimizer.
    ///
    /// # Errors
    /// [`UsageError`] for `--momentum` with another optimizer than sgd.
    fn optimizer(&self) -> Result<OptimizerKind, UsageError> {
        if self.momentum.is_some() && self.optimizer != OptimizerName::Sgd {
            let what = "--momentum has no effect without --optimizer sgd: leave it out, or choose that optimizer";
            return Err(UsageError(what.into()));
        }
        Ok(match self.optimizer {
            OptimizerName::Adam => OptimizerKind::Adam,
            OptimizerName::Adamw => OptimizerKind::AdamW,
            OptimizerName::Sgd => OptimizerKind::Sgd { momentum: self.momentum.unwrap_or(DEFAULT_MOMENTUM) },
        })
    }

    /// Returns the schedule of the learning rate, which is `default` unless `--lr-schedule` is given.
    ///
    /// # Errors
    /// [`UsageError`] for a flag of another schedule.
    fn schedule(&self, default: ScheduleName) -> Result<LrSchedule, UsageError> {
        use ScheduleName::{Constant, Cosine, Plateau, Step};
        let chosen = self.lr_schedule.unwrap_or(default);
        for (flag, is_given, schedules) in [
            ("--lr-step", self.lr_step.is_some(), &[Step][..]),
            ("--lr-gamma", self.lr_gamma.is_some(), &[Step, Plateau]),
            ("--lr-patience", self.lr_patience.is_some(), &[Plateau]),
        ] {
            if is_given && !schedules.contains(&chosen) {
                let name = |schedule: &ScheduleName| {
                    schedule.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
                };
                let names = schedules.iter().map(name).collect::<Vec<_>>().join(" or ");
                return Err(UsageError(format!(
                    "{flag} has no effect on a {} learning rate: choose --lr-schedule {names}",
                    name(&chosen)
                )));
            }
        }
        Ok(match chosen {
            Constant => LrSchedule::Constant,
            Step => LrSchedule::Step {
                every: self.lr_step.unwrap_or(DEFAULT_LR_STEP),
                gamma: self.lr_gamma.unwrap_or(DEFAULT_STEP_GAMMA),
            },
            Cosine => LrSchedule::Cosine,
            Plateau => LrSchedule::Plateau {
                patience: self.lr_patience.unwrap_or(DEFAULT_LR_PATIENCE),
                gamma: self.lr_gamma.unwrap_or(DEFAULT_PLATEAU_GAMMA),
            },
        })
    }
}

//! The settings of a training run that do not depend on the task.

use super::learning_rate::{LrSchedule, PlateauOn};
use crate::checkpoint::Checkpoints;
use crate::model_file::WarmStart;
use crate::optimizer::OptimizerKind;
use edgecut_settings::{Flag, at_least_1_long, below_1, not_negative, positive, settings};

settings! {
    /// The settings of a training run that do not depend on the task.
    #[derive(Clone, Debug)]
    pub struct FitConfig {
        /// Maximum number of epochs [default: 100, and fewer if --patience ends the training]
        pub num_epochs: u64 = 10
            => Flag::new("N").aliases(&["epochs"]).checked(at_least_1_long).default_later().may_change().training_only();
        /// Stop after N validations in a row without a better metric; 0 never stops early [default: 20 without
        /// --num-epochs, 0 with it]
        pub patience: Option<u64> = None => Flag::new("N").may_change().training_only();
        /// Learning rate
        pub lr: f64 = 0.003 => Flag::new("X").aliases(&["learning-rate"]).checked(not_negative).training_only();
        /// Optimizer of all parameters. Embeddings of nodes have a sparse Adam
        pub optimizer: OptimizerKind = OptimizerKind::Adam => Flag::new("OPTIMIZER").training_only();
        /// Momentum of sgd [default: 0.9]
        pub momentum: Option<f64> = None => Flag::new("X").checked(not_negative).training_only();
        /// Change of --lr from epoch to epoch [default: step for train graph, otherwise constant]
        pub lr_schedule: LrSchedule = LrSchedule::Constant => Flag::new("LR_SCHEDULE").default_later().training_only();
        /// Epochs between two changes of a step schedule; 0 keeps the learning rate constant [default: 50]
        pub lr_step: Option<u64> = None => Flag::new("N").training_only();
        /// Factor of each change of a step schedule or on a plateau [default: 0.5, on a plateau 0.1]
        pub lr_gamma: Option<f64> = None => Flag::new("G").checked(not_negative).training_only();
        /// Validations without a better metric that keep the learning rate on a plateau. It falls after one more [default: 10]
        pub lr_patience: Option<u64> = None => Flag::new("N").training_only();
        /// Steps over which the learning rate rises linearly at the start
        pub warmup_steps: u64 = 0 => Flag::new("N").training_only();
        /// Largest norm of the gradients of all parameters together, except learned embeddings of nodes; longer ones are scaled
        /// down [default: no limit]
        pub grad_clip: Option<f64> = None => Flag::new("NORM").checked(positive).training_only();
        /// Average the gradients of N steps before the optimizer takes one step, as with batches N times larger. Not for
        /// models with embeddings
        pub accumulate_steps: u64 = 1 => Flag::new("N")
            .aliases(&["gradient-accumulation-steps", "gradient_accumulation_steps"]).checked(at_least_1_long).training_only();
        /// L2 penalty on all parameters except embeddings; for adamw, the decoupled weight decay
        pub weight_decay: f64 = 0.0 => Flag::new("X").checked(not_negative).training_only();
        /// Evaluate and save an exponential moving average of the parameters, which keeps this share of the average at each
        /// step, for example 0.999
        pub ema: Option<f64> = None => Flag::new("DECAY").checked(below_1).training_only();
        /// Keep these parameters as they are, for example layers.0,encoders: names of tensors as in a saved model, or the
        /// first parts of their names. `embeddings` are the embeddings of nodes without features
        pub freeze: Vec<String> = Vec::new() => Flag::new("LIST").checked(is_named).training_only();
        /// Random seed
        pub seed: u64 = 0 => Flag::new("S");
        /// Evaluate on the validation set every N epochs, and after the last one
        pub eval_every: u64 = 1 => Flag::new("N").checked(at_least_1_long).training_only();
        /// The measure that lowers a rate with [`LrSchedule::Plateau`].
        pub plateau_on: PlateauOn = PlateauOn::ValidationMetric;
        /// The saved model to start from; `None` starts from the given model.
        pub warm_start: Option<WarmStart> = None;
        /// The checkpoints of the run, and the one to continue from; `None` writes none.
        pub checkpoints: Option<Checkpoints> = None;
        /// The number of steps to measure instead of training ([`Observer::profiled`](crate::Observer::profiled)); `None`
        /// trains. The loaders must make each batch on request.
        pub profiled_steps: Option<usize> = None;
    }
}

fn is_named(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("a name is empty".into()) } else { Ok(()) }
}

impl FitConfig {
    /// Rejects settings that have no effect on the chosen optimizer or schedule.
    ///
    /// # Errors
    /// The first such setting, and the choices on which it has an effect.
    pub fn check(&self) -> Result<(), String> {
        if self.momentum.is_some() && self.optimizer != OptimizerKind::Sgd {
            let what = "`momentum` has no effect without `optimizer=sgd`: leave it out, or choose that optimizer";
            return Err(what.into());
        }
        for (setting, is_given, schedules) in [
            ("lr_step", self.lr_step.is_some(), &[LrSchedule::Step][..]),
            ("lr_gamma", self.lr_gamma.is_some(), &[LrSchedule::Step, LrSchedule::Plateau]),
            ("lr_patience", self.lr_patience.is_some(), &[LrSchedule::Plateau]),
        ] {
            if is_given && !schedules.contains(&self.lr_schedule) {
                let names = schedules.iter().map(LrSchedule::to_string).collect::<Vec<_>>().join(" or ");
                let chosen = self.lr_schedule;
                return Err(format!(
                    "`{setting}` has no effect on a {chosen} learning rate: choose `lr_schedule={names}`"
                ));
            }
        }
        Ok(())
    }
}

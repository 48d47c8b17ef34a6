//! Training: one loop for every task.
//!
//! [`fit`] trains a model on a [`Task`], keeps the model of the best validation epoch, tells an [`Observer`] about the
//! progress and tests the best model. A task provides the batches, the computation of a step, and an [`Evaluator`]. The
//! tasks of this crate are [`NodeTask`](crate::NodeTask), [`LinkTask`](crate::link::LinkTask) and
//! [`GraphTask`](crate::graph::GraphTask). The model may be any burn module that the task can run. Users' models and
//! tasks take the same path: `examples/own-model` learns the same bits as `train node --model sage`.
//!
//! A loop of one's own calls [`step_gradients`] for each batch and [`evaluate`] for each split.

mod accumulated;
mod autodiff_turn;
mod averaged;
mod best;
mod early_stopping;
mod epoch_clock;
mod fit_config;
mod fitted;
mod freeze;
mod learning_rate;
mod observer;
mod profile;
mod progress;
mod resumed;
mod run;
mod start;
mod statistics;
pub(crate) mod step;
mod task;

pub use crate::loss::SeedTotals;
pub use crate::metrics::Selection;
pub(crate) use autodiff_turn::AutodiffTurn;
pub use epoch_clock::{EpochCost, HopCost, RankCost, SlowStep};
pub use fit_config::FitConfig;
pub use fitted::Fitted;
pub(crate) use freeze::freezes_embedding;
pub use learning_rate::{LrSchedule, PlateauOn};
pub use observer::{EpochReport, Observer, StepReport};
pub use statistics::average_statistics;
pub use step::{BatchResult, Outputs, SeedBatch, StepGradients, evaluate, step_gradients};
pub(crate) use step::{Forward, backward_and_all_reduce, forward_seeds, run_evaluation};
pub use task::{Evaluation, Evaluator, Task, TrainingEpoch};

use crate::error::TrainError;
use crate::model_file::ModelSettings;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::AutodiffGnnBackend;
use run::Run;

/// The scores of a task's models on one split.
type ScoresOf<T, B, M> = <<T as Task<B, M>>::Evaluator as Evaluator<
    <B as AutodiffBackend>::InnerBackend,
    <M as AutodiffModule<B>>::InnerModule,
>>::Scores;

/// The trained model of a task, with settings of type `C`.
type FittedBy<T, B, M, C> = Fitted<
    <M as AutodiffModule<B>>::InnerModule,
    C,
    <<T as Task<B, M>>::Evaluator as Evaluator<
        <B as AutodiffBackend>::InnerBackend,
        <M as AutodiffModule<B>>::InnerModule,
    >>::Result,
>;

/// Trains `model` on all ranks, and tests the model of the best validation epoch. Every rank calls this
/// function with an equal model, and gets the same model and the same result.
///
/// `settings` are stored with a saved model and returned with the trained one; `()` if there are none.
///
/// The best epoch is the first one with the best metric on the validation data, and the last epoch if the metric is
/// not defined in any epoch, for example without validation data. Training stops early after [`FitConfig::patience`]
/// validations without a better one.
///
/// [`FitConfig::warm_start`] replaces the weights of `model`, and [`FitConfig::freeze`] keeps some of them.
/// [`FitConfig::checkpoints`] stores the state of the run, and continues from a stored one.
/// [`FitConfig::profiled_steps`] measures steps instead of training, and the result has no scores.
///
/// # Errors
/// An error of the task or the observer, a failure of the job, or a loss that is not finite. [`TrainError::Stopped`] if
/// the run was asked to end and has stored its state.
pub fn fit<B: AutodiffGnnBackend, M: AutodiffModule<B>, T: Task<B, M>, C: ModelSettings>(
    task: T,
    model: M,
    settings: C,
    config: &FitConfig,
    world: &mut ProcessGroup,
    observer: &mut dyn Observer<ScoresOf<T, B, M>>,
) -> Result<FittedBy<T, B, M, C>, TrainError> {
    config.check().map_err(|what| TrainError::Config { what })?;
    let (mut run, mut model) = Run::start(task, model, settings, config, world, observer)?;
    if let Some(steps) = config.profiled_steps {
        return run.profile(model, steps);
    }
    while !run.progress.is_done(config) {
        model = run.train_epoch(model)?;
    }
    run.finish(model)
}

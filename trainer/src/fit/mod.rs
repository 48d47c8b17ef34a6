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
pub(crate) mod data_parallel;
mod epoch_clock;
mod fit_config;
mod fitted;
mod freeze;
mod learning_rate;
mod observer;
mod progress;
mod resumed;
mod start;
mod statistics;
mod task;

pub use crate::loss::SeedTotals;
pub use crate::metrics::Selection;
pub(crate) use autodiff_turn::AutodiffTurn;
pub use data_parallel::{BatchResult, Outputs, SeedBatch, StepGradients, evaluate, step_gradients};
pub(crate) use data_parallel::{Forward, backward_and_all_reduce, forward_seeds, run_evaluation};
pub use epoch_clock::{EpochCost, HopCost, RankCost, SlowStep};
pub use fit_config::FitConfig;
pub use fitted::Fitted;
pub use learning_rate::{LrSchedule, PlateauOn};
pub use observer::{EpochReport, Observer, StepReport};
pub use statistics::average_statistics;
pub use task::{Evaluator, Task, TrainingEpoch};

use crate::checkpoint::Checkpointer;
use crate::model_file::{BestModel, ModelSettings, ModelView};
use crate::models::Mode;
use crate::optimizer::{AnyOptimizer, clip_norm};
use crate::train_error::TrainError;
use best::Best;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::{DropoutKey, GnnBackend};
use edgecut_graph::Split;
use epoch_clock::EpochClock;
use progress::Progress;
use resumed::Resumed;
use start::prepare;
use std::time::Instant;

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
///
/// # Errors
/// An error of the task or the observer, a failure of the job, or a loss that is not finite. [`TrainError::Stopped`] if
/// the run was asked to end and has stored its state.
pub fn fit<B, M, T, C>(
    mut task: T,
    model: M,
    settings: C,
    config: &FitConfig,
    world: &mut ProcessGroup,
    observer: &mut dyn Observer<ScoresOf<T, B, M>>,
) -> Result<FittedBy<T, B, M, C>, TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend,
    M: AutodiffModule<B>,
    T: Task<B, M>,
    C: ModelSettings,
{
    config.check().map_err(|what| TrainError::Config { what })?;
    let held_ids = task.embeddings().held_ids();
    let restored = config.checkpoints.as_ref().map(|found| found.read(&held_ids, world)).transpose()?.flatten();
    // A resumed run has started before: its weights come from the checkpoint.
    let warm_start = config.warm_start.as_ref().filter(|_| restored.is_none());
    let mut model = prepare(model, task.embeddings_mut(), &settings, (warm_start, &config.freeze), world, observer)?;
    let mut optimizer = AnyOptimizer::<B, M>::new(config.optimizer, config.momentum, config.weight_decay);
    if config.accumulate_steps > 1 && task.embeddings().num_trained_values() > 0 {
        let what = "`accumulate_steps` has no effect on embeddings, which this model has: train with 1".into();
        return Err(TrainError::Config { what });
    }
    if config.ema.is_some() && task.embeddings().num_trained_values() > 0 {
        let what = "`ema` does not average embeddings, which this model has: leave it out, or freeze them";
        return Err(TrainError::Config { what: what.into() });
    }
    let selection = task.evaluator().selection();
    let metric = selection.metric.clone();
    let mut progress: Progress<ScoresOf<T, B, M>> = Progress::new(config, selection.clone(), world);
    if let Some(stored) = restored {
        let loss = task.saved_loss();
        let run = Resumed { settings: &settings, selection: &selection, loss, embeddings: task.embeddings_mut() };
        (model, optimizer) = run.restore(stored, model, optimizer, &mut progress, world, observer)?;
        if !progress.before.is_empty() {
            task.continue_epoch(progress.position.epoch, &progress.before, world)?;
        }
    }
    let mut checkpointer = config.checkpoints.clone().map(Checkpointer::new);
    while !progress.is_done(config) {
        let epoch = progress.position.epoch;
        let mut clock = EpochClock::start(task.sampler().cloned());
        let first_step = progress.segment.steps;
        // The steps of this epoch in which other numbers of ranks have trained.
        let steps_before = progress.position.step - first_step;
        let TrainingEpoch { num_steps, mut batches } = task.epoch_from(epoch, first_step, world)?;
        progress.segment.num_steps = num_steps;
        let num_steps = steps_before + num_steps;
        for step in steps_before + first_step..num_steps {
            let step_start = Instant::now();
            let waited_before = clock.waited();
            let Some(batch) = clock.waiting(|| batches.next()) else { break };
            // A key per rank and step: ranks need different masks, and a run with the same seed must repeat them.
            let key = DropoutKey::new(config.seed, epoch, step as u64).for_rank(world.rank() as u64);
            let mut gradients = task.step(&model, batch??, Mode::Train(key), world)?;
            clock.compute += gradients.compute;
            clock.exchange += gradients.allreduce;
            // The loss is summed over all ranks, so all of them stop at the same step.
            if !gradients.totals.loss.is_finite() {
                return Err(TrainError::NotFinite { epoch, step, loss: gradients.totals.loss });
            }
            progress.stepped(&gradients.totals, gradients.own_seeds > 0);
            let start = Instant::now();
            let is_last = step + 1 == num_steps;
            if progress.accumulated.add(&mut gradients, is_last) {
                if let Some(max_norm) = config.grad_clip {
                    clip_norm(&mut gradients.flat, max_norm);
                }
                let of_model = gradients.of_model(&model)?;
                model = optimizer.step(progress.lr.rate(epoch, progress.steps_done), model, of_model);
                progress.steps_done += 1;
                progress.averaged.add(&model);
            }
            clock.compute += start.elapsed();
            let waited = clock.waited() - waited_before;
            clock.stepped(step + 1, step_start.elapsed(), waited);
            observer.step(&StepReport {
                epoch: epoch + 1,
                step: step + 1,
                num_steps,
                loss: gradients.totals.mean_loss(),
                num_seeds: gradients.totals.seeds as u64,
                waited,
            });
            if let Some(checkpointer) = &mut checkpointer {
                let state = || progress.stored(&model, &optimizer, task.embeddings());
                let stopped = checkpointer.after_step(progress.position, is_last, state, world)?;
                progress.continue_unless(stopped)?;
            }
        }
        let left_out = task.take_left_out(world)?;
        if left_out > 0 && progress.totals.seeds == 0.0 {
            let what = format!(
                "none of the {left_out} training edges has enough negatives, because their sources are connected to nearly \
                 all nodes: request fewer negatives (`num_negatives`), or do not exclude edges"
            );
            return Err(TrainError::Config { what });
        }
        model = average_statistics(model, progress.own_batches, world)?;
        progress.averaged.average_statistics(&model, progress.own_batches, world)?;
        let mut report = EpochReport {
            fold: None,
            epoch: epoch + 1,
            loss: progress.totals.mean_loss(),
            train_acc: task.train_accuracy(&progress.totals),
            num_seeds: progress.totals.seeds as u64,
            left_out,
            metric: metric.clone(),
            valid: None,
            valid_metric: None,
            cost: clock.stop(world)?,
        };
        let start = Instant::now();
        let is_last = epoch + 1 == config.num_epochs;
        if is_last || (epoch + 1).is_multiple_of(config.eval_every.max(1)) {
            let candidate = progress.averaged.model(&model)?;
            let evaluator = task.evaluator();
            let scores = evaluator.evaluate(Split::Valid, &candidate, task.embeddings(), world)?;
            let valid_metric = evaluator.metric_value(&scores);
            report.valid_metric = valid_metric;
            report.valid = Some(scores.clone());
            if progress.validated(valid_metric, report.loss, is_last) {
                let improved = BestModel {
                    epoch: epoch + 1,
                    selection: selection.clone(),
                    valid_metric,
                    loss: task.saved_loss(),
                    model: ModelView::new(&candidate, &settings),
                    embeddings: task.embeddings().named_tables(),
                };
                observer.improved(&improved, world).map_err(TrainError::Save)?;
                let best = progress.best.take();
                progress.best = Some(Best::new(epoch + 1, valid_metric, scores, &candidate, task.embeddings(), best));
            }
        }
        report.cost.eval_seconds = start.elapsed().as_secs_f64();
        if let Some(checkpointer) = &mut checkpointer {
            report.cost.checkpoint_seconds = checkpointer.take_spent().as_secs_f64();
        }
        observer.epoch(&report).map_err(TrainError::Report)?;
        progress.end_epoch();
        if let Some(checkpointer) = &mut checkpointer {
            let state = || progress.stored(&model, &optimizer, task.embeddings());
            let stopped = checkpointer.after_epoch(progress.position, progress.is_done(config), state, world)?;
            progress.continue_unless(stopped)?;
        }
    }
    if let Some(mut checkpointer) = checkpointer {
        checkpointer.finish(world)?;
    }
    let mut model = progress.averaged.model(&model)?;
    let mut best_epoch = 0;
    let mut valid = ScoresOf::<T, B, M>::default();
    if let Some(best) = progress.best {
        model = best.restore(model, task.embeddings_mut(), world)?;
        best_epoch = best.epoch;
        valid = match best.valid {
            Some(valid) => valid,
            // Checkpoints do not contain the scores. An evaluation of the same model gives the same ones.
            None => task.evaluator().evaluate(Split::Valid, &model, task.embeddings(), world)?,
        };
    }
    let test = task.evaluator().evaluate(Split::Test, &model, task.embeddings(), world)?;
    let result = task.evaluator().result(best_epoch, valid, test);
    let embeddings = std::mem::take(task.embeddings_mut());
    Ok(Fitted { model, settings, embeddings, result, history: progress.history })
}

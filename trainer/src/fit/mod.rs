//! Training: one loop for every task.
//!
//! [`fit`] trains a model on a [`Task`], keeps the model of the best validation epoch, tells an [`Observer`] about the
//! progress and tests the best model. A task provides the batches, the computation of a step, and an [`Evaluator`]. The
//! tasks of this crate are [`NodeTask`](crate::NodeTask), [`LinkTask`](crate::link::LinkTask) and
//! [`GraphTask`](crate::graph::GraphTask). The model may be any burn module that the task can run.
//!
//! A loop of one's own calls [`step_gradients`] for each batch and [`evaluate`] for each split.

mod accumulated;
mod autodiff_turn;
mod best;
pub(crate) mod data_parallel;
mod epoch_clock;
mod fit_config;
mod fitted;
mod freeze;
mod learning_rate;
mod observer;
mod start;
mod statistics;
mod task;

pub(crate) use autodiff_turn::AutodiffTurn;
pub use data_parallel::{ClassifiedBatch, Logits, Made, SeedTotals, StepGradients, evaluate, step_gradients};
pub(crate) use data_parallel::{Forward, JudgedSeeds, exchange, run_evaluation};
pub use epoch_clock::{EpochCost, HopCost, RankCost, SlowStep};
pub use fit_config::FitConfig;
pub use fitted::Fitted;
pub use learning_rate::{LearningRate, LrSchedule};
pub use observer::{EpochReport, Observer, StepReport};
pub use statistics::average_statistics;
pub use task::{Evaluator, Task, TrainingEpoch};

use crate::model_file::{Improved, ModelSettings, ModelView};
use crate::models::Mode;
use crate::ops::{DropoutKey, GnnBackend};
use crate::optimizer::{AnyOptimizer, clip_norm};
use crate::train_error::TrainError;
use accumulated::Accumulated;
use best::Best;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::Split;
use epoch_clock::EpochClock;
use learning_rate::LrState;
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
/// The best epoch is the first one with the highest metric on the validation data, and the last epoch if the metric is
/// not defined in any epoch, for example without validation data. Training stops early after [`FitConfig::patience`]
/// validations without a better one.
///
/// [`FitConfig::warm_start`] replaces the weights of `model`, and [`FitConfig::freeze`] keeps some of them.
///
/// # Errors
/// An error of the task or the observer, a failure of the job, or a loss that is not finite.
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
    let mut model = prepare(model, task.embeddings_mut(), &settings, config, world, observer)?;
    let mut optimizer = AnyOptimizer::<B, M>::new(config.optimizer, config.weight_decay);
    let mut lr = LrState::new(config.lr, config.num_epochs);
    let mut steps_done = 0;
    let mut accumulated = Accumulated::new(config.accumulate_steps);
    if config.accumulate_steps > 1 && task.embeddings().num_trained_values() > 0 {
        let what = "`accumulate_steps` has no effect on embeddings, which this model has: train with 1".into();
        return Err(TrainError::Config { what });
    }
    let metric = task.evaluator().metric();
    let mut best: Option<Best<ScoresOf<T, B, M>>> = None;
    let mut history = Vec::new();
    // The number of validations since the best one.
    let mut num_worse = 0;
    for epoch in 0..config.num_epochs {
        let mut clock = EpochClock::start(task.sampler().cloned());
        let mut totals = SeedTotals::default();
        let mut own_batches = 0;
        let TrainingEpoch { num_steps, mut batches } = task.epoch(epoch, world)?;
        for step in 0..num_steps {
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
            totals.add(&gradients.totals);
            own_batches += u64::from(gradients.own_seeds > 0);
            let start = Instant::now();
            let is_last = step + 1 == num_steps;
            if accumulated.add(&mut gradients, is_last) {
                if let Some(max_norm) = config.grad_clip {
                    clip_norm(&mut gradients.flat, max_norm);
                }
                let of_model = gradients.of_model(&model)?;
                model = optimizer.step(lr.rate(epoch, steps_done), model, of_model);
                steps_done += 1;
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
        }
        model = average_statistics(model, own_batches, world)?;
        let mut report = EpochReport {
            fold: None,
            epoch: epoch + 1,
            loss: totals.mean_loss(),
            train_acc: totals.accuracy(),
            num_seeds: totals.seeds as u64,
            metric: metric.clone(),
            valid: None,
            valid_metric: None,
            cost: clock.stop(world)?,
        };
        let start = Instant::now();
        let is_last = epoch + 1 == config.num_epochs;
        if is_last || (epoch + 1) % config.eval_every.max(1) == 0 {
            let candidate = model.valid();
            let evaluator = task.evaluator();
            let scores = evaluator.evaluate(Split::Valid, &candidate, task.embeddings(), world)?;
            let valid_metric = evaluator.metric_value(&scores);
            report.valid_metric = valid_metric;
            lr.validated(valid_metric);
            report.valid = Some(scores.clone());
            history.push(valid_metric);
            let is_better = match valid_metric {
                Some(_) => best.as_ref().is_none_or(|best| valid_metric > best.valid_metric),
                None => is_last && best.is_none(),
            };
            num_worse += u64::from(valid_metric.is_some());
            if is_better {
                num_worse = 0;
                let improved = Improved {
                    epoch: epoch + 1,
                    metric: metric.clone(),
                    valid_metric,
                    model: ModelView::new(&candidate, &settings),
                    embeddings: task.embeddings().named_tables(),
                };
                observer.improved(&improved, world).map_err(TrainError::Save)?;
                best = Some(Best::new(epoch + 1, valid_metric, scores, &candidate, task.embeddings(), best));
            }
        }
        report.cost.eval_seconds = start.elapsed().as_secs_f64();
        observer.epoch(&report).map_err(TrainError::Report)?;
        // The metric is that of all ranks, so all of them stop here.
        if config.patience.is_some_and(|patience| num_worse >= patience.max(1)) {
            break;
        }
    }
    let mut model = model.valid();
    let mut best_epoch = 0;
    let mut valid = ScoresOf::<T, B, M>::default();
    if let Some(best) = best {
        model = best.restore(model, task.embeddings_mut(), world)?;
        best_epoch = best.epoch;
        valid = best.valid;
    }
    let test = task.evaluator().evaluate(Split::Test, &model, task.embeddings(), world)?;
    let result = task.evaluator().result(best_epoch, valid, test);
    let embeddings = std::mem::take(task.embeddings_mut());
    Ok(Fitted { model, settings, embeddings, result, history })
}

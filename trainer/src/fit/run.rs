//! A training: its start, epochs, steps, validations and end.

use super::best::Best;
use super::epoch_clock::EpochClock;
use super::observer::EvaluationSteps;
use super::progress::Progress;
use super::resumed::Resumed;
use super::start::prepare;
use super::{EpochReport, Evaluation, Evaluator, FitConfig, Fitted, FittedBy, Observer, ScoresOf, StepGradients};
use super::{StepReport, Task, TrainingEpoch, average_statistics};
use crate::checkpoint::{Checkpointer, StepPlace};
use crate::error::TrainError;
use crate::metrics::Selection;
use crate::model_file::{BestModel, ModelSettings, ModelView};
use crate::models::Mode;
use crate::optimizer::{AnyOptimizer, clip_norm};
use burn::module::AutodiffModule;
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::{AutodiffGnnBackend, DropoutKey};
use edgecut_graph::Split;
use std::time::Instant;

/// A training of a model on this rank. The optimizer consumes the model at each step, so that functions take and return it.
pub(super) struct Run<'a, B: AutodiffGnnBackend, M: AutodiffModule<B>, T: Task<B, M>, C> {
    pub(super) task: T,
    pub(super) settings: C,
    pub(super) config: &'a FitConfig,
    selection: Selection,
    optimizer: AnyOptimizer<B, M>,
    pub(super) progress: Progress<ScoresOf<T, B, M>>,
    checkpointer: Option<Checkpointer>,
    pub(super) world: &'a mut ProcessGroup,
    pub(super) observer: &'a mut dyn Observer<ScoresOf<T, B, M>>,
}

impl<'a, B: AutodiffGnnBackend, M: AutodiffModule<B>, T: Task<B, M>, C: ModelSettings> Run<'a, B, M, T, C> {
    /// Starts a training, or continues from a checkpoint.
    pub(super) fn start(
        mut task: T,
        model: M,
        settings: C,
        config: &'a FitConfig,
        world: &'a mut ProcessGroup,
        observer: &'a mut dyn Observer<ScoresOf<T, B, M>>,
    ) -> Result<(Self, M), TrainError> {
        let held_ids = task.embeddings().held_ids();
        let restored = config.checkpoints.as_ref().map(|found| found.read(&held_ids, world)).transpose()?.flatten();
        // A resumed run has started before: its weights come from the checkpoint.
        let warm_start = config.warm_start.as_ref().filter(|_| restored.is_none());
        let start = (warm_start, &config.freeze[..]);
        let mut model = prepare(model, task.embeddings_mut(), &settings, start, world, observer)?;
        let mut optimizer = AnyOptimizer::<B, M>::new(config.optimizer, config.momentum, config.weight_decay);
        if config.accumulate_steps > 1 && task.embeddings().num_trained_values() > 0 {
            let what = "`accumulate_steps` has no effect on embeddings, which this model has: train with 1".into();
            return Err(TrainError::Config { what });
        }
        if config.grad_clip.is_some() && model.num_params() == 0 {
            let what =
                "`grad_clip` has no effect on embeddings, and this model has no other parameters: leave it out".into();
            return Err(TrainError::Config { what });
        }
        if let Some(decay) = config.ema {
            task.embeddings_mut().average(decay);
        }
        let selection = task.evaluator().selection();
        let mut progress = Progress::new(config, selection.clone(), world);
        if let Some(stored) = restored {
            let run = Resumed { settings: &settings, selection: &selection, task: &mut task };
            (model, optimizer) = run.restore(stored, model, optimizer, &mut progress, world, observer)?;
            if !progress.before.is_empty() {
                task.continue_epoch(progress.position.epoch, &progress.before, world)?;
            }
        }
        let checkpointer = config.checkpoints.clone().map(Checkpointer::new);
        let run = Self { task, settings, config, selection, optimizer, progress, checkpointer, world, observer };
        Ok((run, model))
    }

    /// Trains the rest of an epoch, validates, and stores a checkpoint.
    pub(super) fn train_epoch(&mut self, mut model: M) -> Result<M, TrainError> {
        let epoch = self.progress.position.epoch;
        let mut clock = EpochClock::start(self.task.sampler().cloned());
        let first_step = self.progress.segment.steps;
        // The steps of this epoch in which other numbers of ranks have trained.
        let steps_before = self.progress.position.step - first_step;
        self.task.prepare_epoch(epoch, &model, self.world)?;
        let TrainingEpoch { num_steps, mut batches } = self.task.epoch(epoch, first_step, self.world)?;
        self.progress.segment.num_steps = num_steps;
        let num_steps = steps_before + num_steps;
        for step in steps_before + first_step..num_steps {
            let step_start = Instant::now();
            let waited_before = clock.waited();
            let Some(batch) = clock.waiting(|| batches.next()) else { break };
            // A key per rank and step: ranks need different masks, and a run with the same seed must repeat them.
            let key = DropoutKey::new(self.config.seed, epoch, step as u64).for_rank(self.world.rank() as u64);
            let progress = &self.progress;
            self.task.embeddings_mut().schedule_lr(|initial| progress.lr.rate_of(initial, epoch, progress.steps_done));
            let gradients = self.task.step(&model, batch??, Mode::Train(key), self.world)?;
            clock.compute += gradients.compute;
            clock.exchange += gradients.allreduce;
            let totals = gradients.totals;
            let start = Instant::now();
            model = self.update(model, gradients, (epoch, step), step + 1 == num_steps)?;
            clock.compute += start.elapsed();
            let waited = clock.waited() - waited_before;
            clock.stepped(step + 1, step_start.elapsed(), waited);
            self.observer.step(&StepReport {
                epoch: epoch + 1,
                fold: None,
                step: step + 1,
                num_steps,
                loss: totals.mean_loss(),
                num_seeds: totals.seeds as u64,
                waited,
            });
            if let Some(checkpointer) = &mut self.checkpointer {
                let progress = &self.progress;
                let stopped = checkpointer.after_step(
                    progress.position,
                    StepPlace { is_last: step + 1 == num_steps, resumes: self.task.resumes_within(epoch) },
                    || progress.stored(&model, &self.optimizer, self.task.embeddings(), self.task.num_left_out()),
                    self.world,
                )?;
                progress.continue_unless(stopped)?;
            }
        }
        let left_out = self.task.take_left_out(self.world)?;
        self.check_learned(left_out)?;
        let own_batches = self.progress.own_batches;
        model = average_statistics(model, own_batches, self.world)?;
        self.progress.averaged.average_statistics(&model, own_batches, self.world)?;
        let totals = &self.progress.totals;
        let mut report = EpochReport {
            fold: None,
            epoch: epoch + 1,
            loss: totals.mean_loss(),
            train_acc: self.task.evaluator().train_accuracy(totals),
            num_seeds: totals.seeds as u64,
            left_out,
            metric: self.selection.metric.clone(),
            valid: None,
            valid_metric: None,
            cost: clock.stop(self.world)?,
        };
        let start = Instant::now();
        let is_last = epoch + 1 == self.config.num_epochs;
        if is_last || (epoch + 1).is_multiple_of(self.config.eval_every.max(1)) {
            self.validate(&model, &mut report, is_last).map_err(|error| error.in_validation(epoch + 1))?;
        }
        report.cost.eval_seconds = start.elapsed().as_secs_f64();
        if let Some(checkpointer) = &mut self.checkpointer {
            report.cost.checkpoint_seconds = checkpointer.take_spent().as_secs_f64();
        }
        self.observer.epoch(&report).map_err(TrainError::Report)?;
        self.progress.end_epoch();
        if let Some(checkpointer) = &mut self.checkpointer {
            let progress = &self.progress;
            let stopped = checkpointer.after_epoch(
                progress.position,
                progress.is_done(self.config),
                || progress.stored(&model, &self.optimizer, self.task.embeddings(), self.task.num_left_out()),
                self.world,
            )?;
            progress.continue_unless(stopped)?;
        }
        Ok(model)
    }

    /// Updates the model by the gradients of a step, or adds them to the gradients of earlier steps.
    pub(super) fn update(
        &mut self,
        mut model: M,
        mut gradients: StepGradients,
        (epoch, step): (u64, usize),
        is_last: bool,
    ) -> Result<M, TrainError> {
        // The loss is summed over all ranks, so all of them stop at the same step.
        if !gradients.totals.loss.is_finite() {
            return Err(TrainError::NotFinite { epoch, step, loss: gradients.totals.loss });
        }
        let progress = &mut self.progress;
        progress.stepped(&gradients.totals, gradients.own_seeds > 0);
        if progress.accumulated.add(&mut gradients, is_last) {
            if let Some(max_norm) = self.config.grad_clip {
                clip_norm(&mut gradients.flat, max_norm);
            }
            let of_model = gradients.of_model(&model)?;
            let rate = progress.lr.rate_of(self.config.lr, epoch, progress.steps_done);
            model = self.optimizer.step(rate, model, of_model);
            progress.steps_done += 1;
            progress.averaged.add(&model);
        }
        Ok(model)
    }

    /// Returns an error if the epoch had nothing to learn from.
    fn check_learned(&self, left_out: u64) -> Result<(), TrainError> {
        let totals = &self.progress.totals;
        let what = if left_out > 0 && totals.seeds == 0.0 {
            format!(
                "none of the {left_out} training edges has enough negatives, because their sources are connected to nearly \
                 all nodes: request fewer negatives (`num_negatives`), or do not exclude edges"
            )
        } else if totals.seeds > 0.0 && totals.weight == 0.0 {
            "all training data has the weight 0, so nothing can be learned: check the weights of classes and edges, and \
             that some values are known"
                .into()
        } else {
            return Ok(());
        };
        Err(TrainError::Config { what })
    }

    /// Evaluates the model, or its average, on the validation data, and keeps it if it is the best one.
    fn validate(
        &mut self,
        model: &M,
        report: &mut EpochReport<ScoresOf<T, B, M>>,
        is_last: bool,
    ) -> Result<(), TrainError> {
        self.task.embeddings().show_averages(true, self.world)?;
        self.validate_shown(model, report, is_last)?;
        self.task.embeddings().show_averages(false, self.world)
    }

    /// Validates the model with the embeddings that are shown.
    fn validate_shown(
        &mut self,
        model: &M,
        report: &mut EpochReport<ScoresOf<T, B, M>>,
        is_last: bool,
    ) -> Result<(), TrainError> {
        let candidate = self.progress.averaged.model(model)?;
        let evaluator = self.task.evaluator();
        let progress = EvaluationSteps::new(Split::Valid, self.observer);
        let embeddings = self.task.embeddings();
        let mut run = Evaluation { model: &candidate, embeddings, progress: &progress, world: &mut *self.world };
        let scores = evaluator.evaluate(Split::Valid, &mut run)?;
        let valid_metric = evaluator.metric_value(&scores);
        report.valid_metric = valid_metric;
        report.valid = Some(scores.clone());
        if !self.progress.validated(valid_metric, report.loss, is_last) {
            return Ok(());
        }
        let improved = BestModel {
            epoch: report.epoch,
            selection: self.selection.clone(),
            valid_metric,
            loss: evaluator.saved_loss(),
            decision: evaluator.decision(&scores),
            target_decisions: evaluator.target_decisions(&scores),
            model: ModelView::new(&candidate, &self.settings),
            embeddings: self.task.embeddings().named_tables(),
        };
        self.observer.improved(&improved, self.world).map_err(TrainError::Save)?;
        let before = self.progress.best.take();
        let best = Best::new(report.epoch, valid_metric, scores, &candidate, self.task.embeddings(), before);
        self.progress.best = Some(best);
        Ok(())
    }

    /// Tests the best model, and returns it.
    pub(super) fn finish(mut self, model: M) -> Result<FittedBy<T, B, M, C>, TrainError> {
        if let Some(mut checkpointer) = self.checkpointer {
            checkpointer.finish(self.world)?;
        }
        let mut model = self.progress.averaged.model(&model)?;
        self.task.embeddings().show_averages(true, self.world)?;
        let mut best_epoch = 0;
        let mut valid = ScoresOf::<T, B, M>::default();
        if let Some(best) = self.progress.best {
            model = best.restore(model, self.task.embeddings_mut(), self.world)?;
            best_epoch = best.epoch;
            valid = match best.valid {
                Some(valid) => valid,
                // Checkpoints do not contain the scores. An evaluation of the same model gives the same ones.
                None => {
                    let progress = EvaluationSteps::new(Split::Valid, self.observer);
                    let embeddings = self.task.embeddings();
                    let world = &mut *self.world;
                    let mut run = Evaluation { model: &model, embeddings, progress: &progress, world };
                    self.task.evaluator().evaluate(Split::Valid, &mut run)?
                }
            };
        }
        let progress = EvaluationSteps::new(Split::Test, self.observer);
        let embeddings = self.task.embeddings();
        let mut run = Evaluation { model: &model, embeddings, progress: &progress, world: &mut *self.world };
        let test = self.task.evaluator().evaluate_test(&valid, &mut run)?;
        let result = self.task.evaluator().result(best_epoch, valid, test);
        let embeddings = std::mem::take(self.task.embeddings_mut());
        Ok(Fitted { model, settings: self.settings, embeddings, result, history: self.progress.history })
    }
}

//! The state of the training loop besides the model and its optimizer.

use super::accumulated::Accumulated;
use super::averaged::Averaged;
use super::best::Best;
use super::early_stopping::EarlyStopping;
use super::fit_config::FitConfig;
use super::learning_rate::LrState;
use crate::checkpoint::{Checkpoints, Floats, Position, RankState, StoredShard};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::gradients::flatten_parameters;
use crate::loss::SeedTotals;
use crate::metrics::Selection;
use crate::optimizer::AnyOptimizer;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::EpochSegment;
use std::path::PathBuf;

/// The state of the training loop besides the model and its optimizer.
pub(super) struct Progress<S> {
    pub(super) position: Position,
    /// The segments of the epoch in which other numbers of ranks have trained.
    pub(super) before: Vec<EpochSegment>,
    /// This job's segment of the epoch.
    pub(super) segment: EpochSegment,
    /// The number of steps of the optimizer.
    pub(super) steps_done: u64,
    pub(super) lr: LrState,
    early_stopping: EarlyStopping,
    pub(super) accumulated: Accumulated,
    pub(super) averaged: Averaged,
    /// The totals of the epoch so far.
    pub(super) totals: SeedTotals,
    /// The number of this epoch's batches that have updated this rank's statistics.
    pub(super) own_batches: u64,
    pub(super) best: Option<Best<S>>,
    pub(super) history: Vec<Option<f64>>,
}

impl<S> Progress<S> {
    pub(super) fn new(config: &FitConfig, selection: Selection, world: &ProcessGroup) -> Self {
        let num_groups = config.checkpoints.as_ref().map_or(0, Checkpoints::num_groups);
        Self {
            position: Position::default(),
            before: Vec::new(),
            segment: EpochSegment { world_size: world.size(), num_groups, num_steps: 0, steps: 0 },
            steps_done: 0,
            lr: LrState::new(config),
            early_stopping: EarlyStopping::new(selection),
            accumulated: Accumulated::new(config.accumulate_steps),
            averaged: Averaged::new(config.ema),
            totals: SeedTotals::default(),
            own_batches: 0,
            best: None,
            history: Vec::new(),
        }
    }

    /// Returns true if the training has ended.
    pub(super) fn is_done(&self, config: &FitConfig) -> bool {
        self.position.epoch >= config.num_epochs || self.early_stopping.is_due(config.patience)
    }

    /// Counts a step.
    pub(super) fn stepped(&mut self, totals: &SeedTotals, has_own_seeds: bool) {
        self.totals.add(totals);
        self.own_batches += u64::from(has_own_seeds);
        self.position.step += 1;
        self.position.steps += 1;
        self.segment.steps += 1;
    }

    /// Notes the metric of a validation, and the loss of the epoch before it. Returns true if the model is the best so far.
    /// `is_last` is true after the last epoch.
    pub(super) fn validated(&mut self, metric: Option<f64>, loss: Option<f64>, is_last: bool) -> bool {
        self.lr.validated(self.early_stopping.measure(metric), loss);
        self.history.push(metric);
        let best = self.best.as_ref().and_then(|best| best.valid_metric);
        self.early_stopping.validated(metric, best, is_last)
    }

    /// Ends the run if it was stopped with a checkpoint in this folder.
    ///
    /// # Errors
    /// [`TrainError::Stopped`].
    pub(super) fn continue_unless(&self, stopped: Option<PathBuf>) -> Result<(), TrainError> {
        match stopped {
            Some(checkpoint) => {
                Err(TrainError::Stopped { checkpoint, epoch: self.position.epoch, step: self.position.step })
            }
            None => Ok(()),
        }
    }

    /// Goes on to the next epoch.
    pub(super) fn end_epoch(&mut self) {
        self.position.epoch += 1;
        self.position.step = 0;
        self.before.clear();
        self.segment.steps = 0;
        self.totals = SeedTotals::default();
        self.own_batches = 0;
    }

    /// Returns a copy of the state for a checkpoint. `left_out` is the number of seeds that this rank's batches of the epoch have
    /// left out.
    pub(super) fn stored<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        model: &M,
        optimizer: &AnyOptimizer<B, M>,
        embeddings: &Embeddings,
        left_out: u64,
    ) -> RankState {
        let is_within_epoch = self.position.step > 0;
        let segments = self.before.iter().copied().chain(is_within_epoch.then_some(self.segment));
        let embedded = embeddings.states().into_iter().zip(embeddings.held_ids());
        RankState {
            position: self.position,
            segments: segments.collect(),
            parameters: Floats(flatten_parameters(model)),
            averages: Floats(self.averaged.values().to_vec()),
            optimizer: optimizer.state(model),
            steps_done: self.steps_done,
            plateau: self.lr.plateau(),
            accumulated: self.accumulated.stored(),
            totals: self.totals,
            own_batches: self.own_batches,
            embeddings: embedded.map(|(state, ids)| StoredShard::new(state, ids)).collect(),
            best: self.best.as_ref().map(Best::stored),
            history: self.history.clone(),
            num_worse: self.early_stopping.num_worse,
            left_out,
        }
    }

    /// Takes over the state of a checkpoint of a model with this number of parameters, except the model, the optimizer and
    /// the embeddings.
    pub(super) fn restore(&mut self, stored: RankState, num_parameters: usize) {
        self.position = stored.position;
        self.before = stored.segments;
        let is_mine = |last: &EpochSegment| {
            (last.world_size, last.num_groups) == (self.segment.world_size, self.segment.num_groups)
        };
        if self.before.last().is_some_and(is_mine) {
            self.segment = self.before.pop().unwrap_or(self.segment);
        }
        self.steps_done = stored.steps_done;
        self.lr.set_plateau(stored.plateau);
        self.accumulated.restore(stored.accumulated);
        self.averaged.restore(stored.averages.0, num_parameters);
        self.totals = stored.totals;
        self.own_batches = stored.own_batches;
        self.best = stored.best.map(Into::into);
        self.history = stored.history;
        self.early_stopping.num_worse = stored.num_worse;
    }
}

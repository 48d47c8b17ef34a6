//! The measurement of a few steps instead of a training.

use super::run::Run;
use super::{Evaluator, Fitted, FittedBy, ScoresOf, Task, TrainingEpoch};
use crate::cluster_plan::ProfileMeter;
use crate::error::TrainError;
use crate::model_file::ModelSettings;
use crate::models::Mode;
use burn::module::AutodiffModule;
use edgecut_gnn::ops::{AutodiffGnnBackend, DropoutKey};

impl<B: AutodiffGnnBackend, M: AutodiffModule<B>, T: Task<B, M>, C: ModelSettings> Run<'_, B, M, T, C> {
    /// Measures `wanted` steps of the first epoch, after one that grows buffers and fills caches, and tells the observer.
    /// The model that is returned has no scores.
    pub(super) fn profile(mut self, mut model: M, wanted: usize) -> Result<FittedBy<T, B, M, C>, TrainError> {
        let Some(sampler) = self.task.sampler().cloned() else {
            return Err(TrainError::config("the batches of this task are not sampled, so there is nothing to profile"));
        };
        let TrainingEpoch { num_steps, mut batches } = self.task.epoch(0, 0, self.world)?;
        self.progress.segment.num_steps = num_steps;
        let mut meter = ProfileMeter::new(&sampler);
        for step in 0..num_steps.min(wanted + 1) {
            let counts = step > 0 || num_steps == 1;
            meter.batch_begins(self.world)?;
            let Some(batch) = batches.next() else { break };
            let batch = batch??;
            meter.step_begins(counts, self.world)?;
            let key = DropoutKey::new(self.config.seed, 0, step as u64).for_rank(self.world.rank() as u64);
            let gradients = self.task.step(&model, batch, Mode::Train(key), self.world)?;
            let seeds = gradients.totals.seeds;
            let num_gradients = gradients.flat.len();
            model = self.update(model, gradients, (0, step), step + 1 == num_steps)?;
            if counts {
                meter.step_ended(seeds, num_gradients);
            }
        }
        drop(batches);
        let profile = meter.finish(num_steps, self.world)?;
        self.observer.profiled(&profile);
        let scores = ScoresOf::<T, B, M>::default();
        let result = self.task.evaluator().result(0, scores.clone(), scores);
        let embeddings = std::mem::take(self.task.embeddings_mut());
        Ok(Fitted { model: model.valid(), settings: self.settings, embeddings, result, history: Vec::new() })
    }
}

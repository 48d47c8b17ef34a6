//! The continuation of a run from a checkpoint.

use super::ScoresOf;
use super::best::Best;
use super::observer::Observer;
use super::progress::Progress;
use super::task::{Evaluation, Evaluator, Task};
use crate::checkpoint::RankState;
use crate::error::TrainError;
use crate::gradients::load_parameters;
use crate::metrics::Selection;
use crate::model_file::{BestModel, ModelSettings, ModelView};
use crate::optimizer::AnyOptimizer;
use burn::module::AutodiffModule;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::ShardState;
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::Split;
use std::collections::BTreeMap;

/// A run that continues from a checkpoint.
pub(super) struct Resumed<'a, C, T> {
    pub(super) settings: &'a C,
    /// The metric that selects the best epoch.
    pub(super) selection: &'a Selection,
    pub(super) task: &'a mut T,
}

impl<C: ModelSettings, T> Resumed<'_, C, T> {
    /// Returns the model and the optimizer of a checkpoint, and restores the embeddings and the progress. Every rank must
    /// call this.
    ///
    /// # Errors
    /// A state of another model, or a failure to save the best model.
    pub(super) fn restore<B, M>(
        mut self,
        mut stored: RankState,
        model: M,
        optimizer: AnyOptimizer<B, M>,
        progress: &mut Progress<ScoresOf<T, B, M>>,
        world: &mut ProcessGroup,
        observer: &mut dyn Observer<ScoresOf<T, B, M>>,
    ) -> Result<(M, AnyOptimizer<B, M>), TrainError>
    where
        B: AutodiffGnnBackend,
        M: AutodiffModule<B>,
        T: Task<B, M>,
    {
        let parameters = std::mem::take(&mut stored.parameters).0;
        let moments = std::mem::take(&mut stored.optimizer);
        self.task.restore_left_out(stored.left_out);
        let shards: Vec<ShardState> = std::mem::take(&mut stored.embeddings).into_iter().map(Into::into).collect();
        progress.restore(stored, parameters.len());
        if let Some(best) = &mut progress.best {
            self.save_again(best, &model, world, observer)?;
        }
        let model = load_parameters(model, &parameters)?;
        let optimizer =
            optimizer.with_state(&model, &moments).map_err(|error| TrainError::OtherState(Box::new(error)))?;
        let embeddings = self.task.embeddings_mut();
        if !embeddings.is_empty() {
            // The first barrier ends all reads of the best model's rows; the second one ensures that all ranks have
            // restored their rows before any rank reads.
            world.barrier()?;
            embeddings.set_states(&shards)?;
            world.barrier()?;
        }
        Ok((model, optimizer))
    }

    /// Tells the observer of the best model up to the checkpoint, so that it is saved: the interrupted run may have saved
    /// a model of a later epoch.
    fn save_again<B, M>(
        &mut self,
        best: &mut Best<ScoresOf<T, B, M>>,
        model: &M,
        world: &mut ProcessGroup,
        observer: &mut dyn Observer<ScoresOf<T, B, M>>,
    ) -> Result<(), TrainError>
    where
        B: AutodiffGnnBackend,
        M: AutodiffModule<B>,
        T: Task<B, M>,
    {
        let model = best.restore(model.valid(), self.task.embeddings_mut(), world)?;
        let evaluator = self.task.evaluator();
        let mut decision = None;
        let mut target_decisions = BTreeMap::new();
        if evaluator.decides() {
            // Checkpoints do not contain the scores. An evaluation of the same model chooses the same decision.
            let embeddings = self.task.embeddings();
            let mut run = Evaluation { model: &model, embeddings, progress: &(), world: &mut *world };
            let valid = evaluator.evaluate(Split::Valid, &mut run)?;
            decision = evaluator.decision(&valid);
            target_decisions = evaluator.target_decisions(&valid);
            best.valid = Some(valid);
        }
        let improved = BestModel {
            epoch: best.epoch,
            selection: self.selection.clone(),
            valid_metric: best.valid_metric,
            loss: evaluator.saved_loss(),
            decision,
            target_decisions,
            model: ModelView::new(&model, self.settings),
            embeddings: self.task.embeddings().named_tables(),
        };
        observer.improved(&improved, world).map_err(TrainError::Save)
    }
}

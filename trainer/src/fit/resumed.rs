//! The continuation of a run from a checkpoint.

use super::best::Best;
use super::observer::Observer;
use super::progress::Progress;
use crate::checkpoint::RankState;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::gradients::load_parameters;
use crate::metrics::Selection;
use crate::model_file::{BestModel, ModelSettings, ModelView, SavedLoss};
use crate::optimizer::AnyOptimizer;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::ShardState;

/// A run that continues from a checkpoint.
pub(super) struct Resumed<'a, C> {
    pub(super) settings: &'a C,
    /// The metric that selects the best epoch.
    pub(super) selection: &'a Selection,
    pub(super) loss: Option<SavedLoss>,
    pub(super) embeddings: &'a mut Embeddings,
}

impl<C: ModelSettings> Resumed<'_, C> {
    /// Returns the model and the optimizer of a checkpoint, and restores the embeddings and the progress. Every rank must
    /// call this.
    ///
    /// # Errors
    /// A state of another model, or a failure to save the best model.
    pub(super) fn restore<B: AutodiffBackend, M: AutodiffModule<B>, S>(
        mut self,
        mut stored: RankState,
        model: M,
        optimizer: AnyOptimizer<B, M>,
        progress: &mut Progress<S>,
        world: &mut ProcessGroup,
        observer: &mut dyn Observer<S>,
    ) -> Result<(M, AnyOptimizer<B, M>), TrainError> {
        let parameters = std::mem::take(&mut stored.parameters).0;
        let moments = std::mem::take(&mut stored.optimizer).into();
        let shards: Vec<ShardState> = std::mem::take(&mut stored.embeddings).into_iter().map(Into::into).collect();
        progress.restore(stored);
        if let Some(best) = &progress.best {
            self.save_again(best, &model, world, observer)?;
        }
        let model = load_parameters(model, &parameters)?;
        let optimizer =
            optimizer.with_state(&model, &moments).map_err(|error| TrainError::OtherState(Box::new(error)))?;
        if !self.embeddings.is_empty() {
            // The first barrier ends all reads of the best model's rows; the second one ensures that all ranks have
            // restored their rows before any rank reads.
            world.barrier()?;
            self.embeddings.set_states(&shards)?;
            world.barrier()?;
        }
        Ok((model, optimizer))
    }

    /// Tells the observer of the best model up to the checkpoint, so that it is saved: the interrupted run may have saved
    /// a model of a later epoch.
    fn save_again<B: AutodiffBackend, M: AutodiffModule<B>, S>(
        &mut self,
        best: &Best<S>,
        model: &M,
        world: &mut ProcessGroup,
        observer: &mut dyn Observer<S>,
    ) -> Result<(), TrainError> {
        let model = best.restore(model.valid(), self.embeddings, world)?;
        let improved = BestModel {
            epoch: best.epoch,
            selection: self.selection.clone(),
            valid_metric: best.valid_metric,
            loss: self.loss.clone(),
            model: ModelView::new(&model, self.settings),
            embeddings: self.embeddings.named_tables(),
        };
        observer.improved(&improved, world).map_err(TrainError::Save)
    }
}

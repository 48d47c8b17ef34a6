//! The parts of training and evaluation that differ between tasks.

use super::step::{BatchResult, StepGradients};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::inference_progress::InferenceProgress;
use crate::loss::SeedTotals;
use crate::metrics::{Decision, Selection};
use crate::model_file::SavedLoss;
use crate::models::Mode;
use burn::module::AutodiffModule;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::EpochSegment;
use edgecut_dist_sampler::DistNeighborSampler;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use edgecut_graph::Split;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A training task: the batches of a model of type `M`, and the computation of its gradients.
///
/// All ranks take the same steps and evaluate at the same time, so [`Task::step`] and [`Evaluator::evaluate`] may use
/// collectives.
pub trait Task<B: AutodiffGnnBackend, M: AutodiffModule<B>> {
    /// A batch as tensors.
    type Batch;
    /// The evaluation of the trained models.
    type Evaluator: Evaluator<B::InnerBackend, M::InnerModule>;

    /// Returns the evaluation of the trained models.
    fn evaluator(&self) -> &Self::Evaluator;

    /// Prepares an epoch, counted from 0, with the model before it. Every rank calls this before the epoch, also when a run
    /// continues within it. The default does nothing.
    ///
    /// # Errors
    /// A failure of the job.
    fn prepare_epoch(&mut self, _epoch: u64, _model: &M, _world: &mut ProcessGroup) -> Result<(), TrainError> {
        Ok(())
    }

    /// Returns true if a run can continue within an epoch: if [`prepare_epoch`](Self::prepare_epoch) does not read the model.
    /// Otherwise checkpoints are written between epochs. The default returns true.
    fn resumes_within(&self, _epoch: u64) -> bool {
        true
    }

    /// Starts an epoch at `first_step`, both counted from 0, and returns the batches from there on. A run that continues from
    /// a checkpoint starts at a later step than the first.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the training data does not make a step.
    fn epoch(
        &self,
        epoch: u64,
        first_step: usize,
        world: &ProcessGroup,
    ) -> Result<TrainingEpoch<Self::Batch>, TrainError>;

    /// Prepares the rest of an epoch that other numbers of ranks have begun, so that each seed is used once in it. After
    /// this, [`epoch`](Self::epoch) counts the steps of this epoch without those in `before`. A run that
    /// continues from a checkpoint calls this on every rank. The default fails.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the task cannot do this.
    fn continue_epoch(
        &mut self,
        epoch: u64,
        before: &[EpochSegment],
        _world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        let ranks = before.last().map_or(0, |segment| segment.world_size);
        let what = format!(
            "this task cannot continue epoch {} with another number of processes: resume with {ranks} processes",
            epoch + 1
        );
        Err(TrainError::Config { what })
    }

    /// Computes the gradients of one batch over all ranks, and updates the embeddings.
    ///
    /// # Errors
    /// A batch that does not match the model, or a failure of the job.
    fn step(
        &mut self,
        model: &M,
        batch: Self::Batch,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError>;

    /// Returns the number of training seeds that the batches of all ranks have left out since the last call, because they
    /// cannot be trained on. Every rank calls this at the end of an epoch. The default returns 0.
    ///
    /// # Errors
    /// A failure of the job.
    fn take_left_out(&mut self, _world: &mut ProcessGroup) -> Result<u64, TrainError> {
        Ok(0)
    }

    /// Returns the number of seeds that this rank's batches have left out since the last call of
    /// [`take_left_out`](Self::take_left_out), for a checkpoint. The default returns 0.
    fn num_left_out(&self) -> u64 {
        0
    }

    /// Takes over this number from the checkpoint of a run that continues. The default does nothing.
    fn restore_left_out(&mut self, _num_left_out: u64) {}

    /// Returns the embeddings that the model reads; empty if all nodes have features.
    fn embeddings(&self) -> &Embeddings;

    /// Returns the embeddings that the model reads, for restoring their values of the best epoch.
    fn embeddings_mut(&mut self) -> &mut Embeddings;

    /// Returns the sampler of the training batches, whose times and traffic are reported. `None` by default.
    fn sampler(&self) -> Option<&Arc<DistNeighborSampler>> {
        None
    }
}

/// The batches of one epoch.
pub struct TrainingEpoch<T> {
    /// The number of steps of the whole epoch, equal on all ranks.
    pub num_steps: usize,
    /// This rank's batch for each step, from the first step that was asked for.
    pub batches: Box<dyn Iterator<Item = BatchResult<T>>>,
}

/// An evaluation of a model of type `M`, in which all ranks take part.
pub struct Evaluation<'a, M> {
    /// The model.
    pub model: &'a M,
    /// The embeddings that it reads.
    pub embeddings: &'a Embeddings,
    /// The receiver of the progress, which is told of each step.
    pub progress: &'a dyn InferenceProgress,
    /// All ranks.
    pub world: &'a mut ProcessGroup,
}

/// The evaluation of models of type `M` on validation and test data.
///
/// All ranks call [`evaluate`](Self::evaluate) at the same time, and get the same scores.
pub trait Evaluator<B: GnnBackend, M> {
    /// The scores of a model on one split.
    type Scores: Clone + Default;
    /// The result of a run: the scores of the selected model.
    type Result;

    /// Returns the metric that selects the best epoch.
    fn selection(&self) -> Selection;

    /// Returns the value of this metric; `None` if it is not defined on the data.
    fn metric_value(&self, scores: &Self::Scores) -> Option<f64>;

    /// Returns the accuracy of training batches with these totals; `None` if the loss does not count correct predictions.
    fn train_accuracy(&self, totals: &SeedTotals) -> Option<f64> {
        totals.accuracy()
    }

    /// Returns the loss, which saved models name; `None` by default.
    fn saved_loss(&self) -> Option<SavedLoss> {
        None
    }

    /// Evaluates a model on one split over all ranks. Each seed counts once.
    ///
    /// # Errors
    /// A batch that cannot be made or does not match the model, or a failure of the job.
    fn evaluate(&self, split: Split, run: &mut Evaluation<'_, M>) -> Result<Self::Scores, TrainError>;

    /// Returns the decision that the scores on the validation data have chosen, which saved models contain; `None` by
    /// default.
    fn decision(&self, _valid: &Self::Scores) -> Option<Decision> {
        None
    }

    /// Returns the decisions of several targets that the scores on the validation data have chosen, by the names of the targets;
    /// none by default.
    fn target_decisions(&self, _valid: &Self::Scores) -> BTreeMap<String, Decision> {
        BTreeMap::new()
    }

    /// Returns true if a [`decision`](Self::decision) is chosen, of one target or of several. The default returns false.
    fn decides(&self) -> bool {
        false
    }

    /// Evaluates a model on the test data over all ranks, by the decision of its scores on the validation data. The default
    /// does not depend on these scores.
    ///
    /// # Errors
    /// The errors of [`evaluate`](Self::evaluate).
    fn evaluate_test(&self, _valid: &Self::Scores, run: &mut Evaluation<'_, M>) -> Result<Self::Scores, TrainError> {
        self.evaluate(Split::Test, run)
    }

    /// Returns the result of a run from the scores of the model of epoch `best_epoch`, which is 0 if nothing was
    /// trained.
    fn result(&self, best_epoch: u64, valid: Self::Scores, test: Self::Scores) -> Self::Result;

    /// Evaluates a trained model on the validation and test data.
    ///
    /// # Errors
    /// The errors of [`evaluate`](Self::evaluate).
    fn evaluate_trained(&self, run: &mut Evaluation<'_, M>) -> Result<Self::Result, TrainError> {
        let valid = self.evaluate(Split::Valid, run)?;
        let test = self.evaluate_test(&valid, run)?;
        Ok(self.result(0, valid, test))
    }
}

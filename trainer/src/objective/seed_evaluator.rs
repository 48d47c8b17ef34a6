//! The evaluation of models for nodes, edges and graphs.

use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{Evaluator, SeedTotals, Selection};
use crate::inference_progress::InferenceProgress;
use crate::metrics::Decision;
use crate::model_file::SavedLoss;
use crate::objective::Objective;
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistRows;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;

/// The evaluation of models by the scores that `S` computes.
pub struct SeedEvaluator<S> {
    pub(crate) objective: Objective,
    pub(crate) scorer: S,
}

/// The scores of models of type `M`.
pub(crate) trait Scorer<B: GnnBackend, M> {
    /// Computes the outputs for all nodes, if the evaluation reads them. Every rank must call this.
    fn all_outputs(
        &self,
        _model: &M,
        _embeddings: &Embeddings,
        _progress: &dyn InferenceProgress,
        _world: &mut ProcessGroup,
    ) -> Result<Option<DistRows>, TrainError> {
        Ok(None)
    }

    /// Adds the seeds of the state's split, and returns the scores. Every rank must call this.
    fn scores(
        &self,
        state: ScoreState<'_>,
        outputs: Option<&DistRows>,
        model: &M,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError>;
}

impl<B: GnnBackend, M, S: Scorer<B, M>> Evaluator<B, M> for SeedEvaluator<S> {
    type Scores = SeedScores;
    type Result = SeedResult;

    fn selection(&self) -> Selection {
        self.objective.selection()
    }

    fn metric_value(&self, scores: &SeedScores) -> Option<f64> {
        scores.metrics.first()
    }

    fn train_accuracy(&self, totals: &SeedTotals) -> Option<f64> {
        self.objective.loss.accuracy(totals)
    }

    fn saved_loss(&self) -> Option<SavedLoss> {
        let Objective { loss, outputs, .. } = &self.objective;
        Some(SavedLoss { name: loss.name().to_owned(), outputs: Some(*outputs) })
    }

    fn decision(&self, valid: &SeedScores) -> Option<Decision> {
        valid.decision.clone()
    }

    fn decides(&self) -> bool {
        self.objective.rule.decides()
    }

    fn evaluate(
        &self,
        split: Split,
        model: &M,
        embeddings: &Embeddings,
        progress: &dyn InferenceProgress,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let outputs = self.scorer.all_outputs(model, embeddings, progress, world)?;
        let state = ScoreState::new(split, None, &self.objective, progress);
        self.scorer.scores(state, outputs.as_ref(), model, embeddings, world)
    }

    fn evaluate_test(
        &self,
        valid: &SeedScores,
        model: &M,
        embeddings: &Embeddings,
        progress: &dyn InferenceProgress,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let outputs = self.scorer.all_outputs(model, embeddings, progress, world)?;
        let state = ScoreState::new(Split::Test, valid.decision.as_ref(), &self.objective, progress);
        self.scorer.scores(state, outputs.as_ref(), model, embeddings, world)
    }

    // Computes the outputs for all nodes once for both splits.
    fn evaluate_trained(
        &self,
        model: &M,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedResult, TrainError> {
        let outputs = self.scorer.all_outputs(model, embeddings, &(), world)?;
        let state = ScoreState::new(Split::Valid, None, &self.objective, &());
        let valid = self.scorer.scores(state, outputs.as_ref(), model, embeddings, world)?;
        let state = ScoreState::new(Split::Test, valid.decision.as_ref(), &self.objective, &());
        let test = self.scorer.scores(state, outputs.as_ref(), model, embeddings, world)?;
        Ok(Evaluator::<B, M>::result(self, 0, valid, test))
    }

    fn result(&self, best_epoch: u64, valid: SeedScores, test: SeedScores) -> SeedResult {
        SeedResult::new(best_epoch, self.objective.metrics.first(), valid, test)
    }
}

//! The evaluation of models for nodes, edges and graphs.

use crate::error::TrainError;
use crate::fit::{Evaluation, Evaluator, SeedTotals, Selection};
use crate::metrics::Decision;
use crate::model_file::SavedLoss;
use crate::objective::Objective;
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores};
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
    fn all_outputs(&self, _run: &mut Evaluation<'_, M>) -> Result<Option<DistRows>, TrainError> {
        Ok(None)
    }

    /// Adds the seeds of the state's split, and returns the scores. Every rank must call this.
    fn scores(&self, state: ScoreState<'_>, run: &mut Evaluation<'_, M>) -> Result<SeedScores, TrainError>;
}

impl<S> SeedEvaluator<S> {
    /// Computes the scores on a split, by the decision of the validation data if they are given. `rows` are the outputs for
    /// all nodes, if they were computed.
    fn scores_on<B: GnnBackend, M>(
        &self,
        split: Split,
        valid: Option<&SeedScores>,
        rows: Option<&DistRows>,
        run: &mut Evaluation<'_, M>,
    ) -> Result<SeedScores, TrainError>
    where
        S: Scorer<B, M>,
    {
        let chosen = valid.and_then(|valid| valid.decision.as_ref());
        let mut state = ScoreState::new(split, chosen, &self.objective, run.progress);
        state.rows = rows;
        self.scorer.scores(state, run)
    }
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

    fn evaluate(&self, split: Split, run: &mut Evaluation<'_, M>) -> Result<SeedScores, TrainError> {
        let rows = self.scorer.all_outputs(run)?;
        self.scores_on::<B, M>(split, None, rows.as_ref(), run)
    }

    fn evaluate_test(&self, valid: &SeedScores, run: &mut Evaluation<'_, M>) -> Result<SeedScores, TrainError> {
        let rows = self.scorer.all_outputs(run)?;
        self.scores_on::<B, M>(Split::Test, Some(valid), rows.as_ref(), run)
    }

    // Computes the outputs for all nodes once for both splits.
    fn evaluate_trained(&self, run: &mut Evaluation<'_, M>) -> Result<SeedResult, TrainError> {
        let rows = self.scorer.all_outputs(run)?;
        let valid = self.scores_on::<B, M>(Split::Valid, None, rows.as_ref(), run)?;
        let test = self.scores_on::<B, M>(Split::Test, Some(&valid), rows.as_ref(), run)?;
        Ok(Evaluator::<B, M>::result(self, 0, valid, test))
    }

    fn result(&self, best_epoch: u64, valid: SeedScores, test: SeedScores) -> SeedResult {
        SeedResult::new(best_epoch, self.objective.metrics.first(), valid, test)
    }
}

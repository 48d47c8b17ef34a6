//! Evaluation of models for whole graphs.

use super::batch::{GraphBatchOptions, graph_batches};
use super::config::GraphTrainingConfig;
use super::split::GraphSplit;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{Evaluator, Selection};
use crate::metrics::Decision;
use crate::models::GraphClassifier;
use crate::objective::Objective;
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::GraphDataLoader;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::{GraphDataset, Split};
use std::sync::Arc;

/// The evaluation of models for whole graphs on the validation and test graphs.
pub struct GraphEvaluator<B: Backend> {
    options: GraphBatchOptions,
    pub(super) objective: Objective,
    valid: GraphDataLoader,
    test: GraphDataLoader,
    /// True if a metric that is not defined on the validation graphs is an error.
    selects_epoch: bool,
    device: B::Device,
}

impl<B: GnnBackend> GraphEvaluator<B> {
    pub(super) fn new(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        device: &B::Device,
        world: &ProcessGroup,
    ) -> Result<Self, TrainError> {
        let loader = |graph_ids: &[u32]| {
            let graph_ids = graph_ids.to_vec();
            GraphDataLoader::new(Arc::clone(graphs), graph_ids, config.eval_loader(), world.rank(), world.size())
        };
        let evaluator = Self {
            options: GraphBatchOptions::of_model(&config.model_config(graphs)?, false),
            objective: config.objective(graphs)?,
            valid: loader(&split.valid)?,
            test: loader(&split.test)?,
            selects_epoch: false,
            device: device.clone(),
        };
        evaluator.objective.check_validation(split.valid.len())?;
        Ok(evaluator)
    }

    /// Makes it an error if the metric is not defined on the validation graphs, since it could not select an epoch.
    pub(super) fn selecting_epochs(self) -> Self {
        Self { selects_epoch: self.valid.total_graphs() > 0, ..self }
    }

    /// Computes the scores on a split, by the decision of the validation data if it is another one.
    fn scores(
        &self,
        split: Split,
        chosen: Option<&Decision>,
        model: &impl GraphClassifier<B>,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = graph_batches::<B>(loader, 0, self.options, &self.device);
        scores_of_batches(model, batches, Ok, ScoreState::new(split, chosen, &self.objective), world)
    }
}

impl<B: GnnBackend, M: GraphClassifier<B>> Evaluator<B, M> for GraphEvaluator<B> {
    type Scores = SeedScores;
    type Result = SeedResult;

    fn selection(&self) -> Selection {
        self.objective.selection()
    }

    fn metric_value(&self, scores: &SeedScores) -> Option<f64> {
        scores.metrics.first()
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
        _embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let scores = self.scores(split, None, model, world)?;
        if self.selects_epoch && split == Split::Valid && scores.metrics.first().is_none() {
            let name = self.objective.metrics.first();
            let what = format!(
                "metric {name} is not defined on the validation graphs: use {}",
                self.objective.default_metric()
            );
            return Err(TrainError::Config { what });
        }
        Ok(scores)
    }

    fn evaluate_test(
        &self,
        valid: &SeedScores,
        model: &M,
        _embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        self.scores(Split::Test, valid.decision.as_ref(), model, world)
    }

    fn result(&self, best_epoch: u64, valid: SeedScores, test: SeedScores) -> SeedResult {
        SeedResult::new(best_epoch, self.objective.metrics.first(), valid, test)
    }
}

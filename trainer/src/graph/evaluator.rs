//! Evaluation of models for whole graphs.

use super::batch::{GraphBatchOptions, graph_batches};
use super::config::GraphTrainingConfig;
use super::split::GraphSplit;
use crate::error::TrainError;
use crate::fit::Evaluation;
use crate::models::GraphClassifier;
use crate::objective::seed_evaluator::{Scorer, SeedEvaluator};
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::GraphDataLoader;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::{GraphDataset, Split};
use std::sync::Arc;

/// The evaluation of models for whole graphs on the validation and test graphs.
pub type GraphEvaluator<B> = SeedEvaluator<GraphScorer<B>>;

/// The batches of the validation and test data.
pub struct GraphScorer<B: Backend> {
    options: GraphBatchOptions,
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
        let objective = config.objective(graphs)?;
        objective.check_validation(split.valid.len())?;
        let scorer = GraphScorer {
            options: GraphBatchOptions::of_model(&config.model_config(graphs)?, false),
            valid: loader(&split.valid)?,
            test: loader(&split.test)?,
            selects_epoch: false,
            device: device.clone(),
        };
        Ok(Self { objective, scorer })
    }

    /// Makes it an error if the metric is not defined on the validation graphs, since it could not select an epoch.
    pub(super) fn selecting_epochs(mut self) -> Self {
        self.scorer.selects_epoch = self.scorer.valid.total_graphs() > 0;
        self
    }
}

impl<B: GnnBackend, M: GraphClassifier<B>> Scorer<B, M> for GraphScorer<B> {
    fn scores(&self, state: ScoreState<'_>, run: &mut Evaluation<'_, M>) -> Result<SeedScores, TrainError> {
        let split = state.split;
        let objective = state.objective;
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = graph_batches::<B>(loader, 0, self.options, &self.device);
        let scores = scores_of_batches(run, batches, Ok, state)?;
        if self.selects_epoch && split == Split::Valid && scores.metrics.first().is_none() {
            let name = objective.metrics.first();
            let default = objective.loss.default_metric();
            let what = format!("metric {name} is not defined on the validation graphs: use `metric={default}`");
            return Err(TrainError::Config { what });
        }
        Ok(scores)
    }
}

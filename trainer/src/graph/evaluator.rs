//! Evaluation of graph classification.

use super::batch::{GraphBatchOptions, graph_batches};
use super::config::GraphTrainingConfig;
use super::split::GraphSplit;
use crate::classification_result::ClassificationResult;
use crate::classification_scores::{ClassificationScores, ClassificationState};
use crate::embeddings::Embeddings;
use crate::fit::{Evaluator, run_evaluation};
use crate::metrics::Metric;
use crate::models::GraphClassifier;
use crate::ops::GnnBackend;
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::GraphDataLoader;
use edgecut_graph::{GraphDataset, Split};
use std::sync::Arc;

/// The evaluation of graph classifiers on the validation and test graphs.
pub struct GraphEvaluator<B: Backend> {
    options: GraphBatchOptions,
    metric: Metric,
    num_classes: usize,
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
        let gcn_norm = config.conv.needs_gcn_norm();
        let loader = |graph_ids: &[u32]| {
            let graph_ids = graph_ids.to_vec();
            GraphDataLoader::new(Arc::clone(graphs), graph_ids, config.eval_loader(), world.rank(), world.size())
        };
        Ok(Self {
            options: GraphBatchOptions { gcn_norm, ..GraphBatchOptions::default() },
            metric: config.metric,
            num_classes: graphs.classes().len(),
            valid: loader(&split.valid)?,
            test: loader(&split.test)?,
            selects_epoch: false,
            device: device.clone(),
        })
    }

    /// Makes it an error if the metric is not defined on the validation graphs, since it could not select an epoch.
    pub(super) fn selecting_epochs(self) -> Self {
        Self { selects_epoch: self.valid.total_graphs() > 0, ..self }
    }
}

impl<B: GnnBackend, M: GraphClassifier<B>> Evaluator<B, M> for GraphEvaluator<B> {
    type Scores = ClassificationScores;
    type Result = ClassificationResult;

    fn metric(&self) -> String {
        self.metric.to_string()
    }

    fn metric_value(&self, scores: &ClassificationScores) -> Option<f64> {
        scores.metric
    }

    fn evaluate(
        &self,
        split: Split,
        model: &M,
        _embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<ClassificationScores, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = graph_batches::<B>(loader, 0, self.options, &self.device);
        let mut state = ClassificationState::new(split, self.metric, self.num_classes);
        let totals = run_evaluation(model, batches, Ok, |logits, labels| state.add(logits, labels), world)?;
        let scores = state.scores(&totals, world)?;
        if self.selects_epoch && split == Split::Valid && scores.metric.is_none() {
            let name = self.metric;
            let what = format!("metric {name} is not defined on the validation graphs: use `metric=accuracy`");
            return Err(TrainError::Config { what });
        }
        Ok(scores)
    }

    fn result(&self, best_epoch: u64, valid: ClassificationScores, test: ClassificationScores) -> ClassificationResult {
        ClassificationResult::new(best_epoch, self.metric, valid, test)
    }
}

//! Evaluation of node classification.

use super::config::NodeTrainingConfig;
use super::task::{NodeData, split_loader};
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::classification_result::ClassificationResult;
use crate::classification_scores::ClassificationScores;
use crate::embeddings::Embeddings;
use crate::fit::Evaluator;
use crate::fit::data_parallel::evaluate_metric;
use crate::metrics::Metric;
use crate::models::{GraphSchema, NodeClassifier};
use crate::ops::GnnBackend;
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::DistNeighborLoader;
use edgecut_graph::Split;
use std::sync::Arc;

/// The evaluation of node classifiers on the validation and test nodes.
pub struct NodeEvaluator<B: Backend> {
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    metric: Metric,
    num_classes: usize,
    valid: DistNeighborLoader,
    test: DistNeighborLoader,
    device: B::Device,
}

impl<B: GnnBackend> NodeEvaluator<B> {
    /// Creates the loaders of the validation and test nodes. Every rank must call this.
    pub(super) fn new(
        data: &NodeData,
        config: &NodeTrainingConfig,
        options: BatchOptions,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let options =
            BatchOptions { for_training: false, precision: config.training.device_memory.precision, ..options };
        Ok(Self {
            schema: Arc::clone(&data.schema),
            options,
            metric: config.metric,
            num_classes: data.num_classes(),
            valid: split_loader(data, config, Split::Valid, options, world)?,
            test: split_loader(data, config, Split::Test, options, world)?,
            device: device.clone(),
        })
    }
}

impl<B: GnnBackend, M: NodeClassifier<B>> Evaluator<B, M> for NodeEvaluator<B> {
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
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<ClassificationScores, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = tensor_batches(loader, 0, &self.schema, self.options, &self.device);
        let classes = (self.metric, self.num_classes);
        let (totals, metric) = evaluate_metric(model, embeddings, batches, classes, &self.device, world)?;
        Ok(ClassificationScores { accuracy: totals.accuracy(), metric })
    }

    fn result(&self, best_epoch: u64, valid: ClassificationScores, test: ClassificationScores) -> ClassificationResult {
        ClassificationResult::new(best_epoch, self.metric, valid, test)
    }
}

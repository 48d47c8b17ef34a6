//! What is said of node classification.

use crate::embeddings::Embeddings;
use crate::epoch_clock::EpochCost;
use crate::metrics::Metric;
use crate::models::{ModelConfig, NodeModel};
use burn::tensor::backend::Backend;
use serde::Serialize;

/// One epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Mean training loss over all seeds of all ranks.
    pub loss: Option<f64>,
    /// Accuracy on the training seeds while they were trained on.
    pub train_acc: Option<f64>,
    /// Accuracy on the validation nodes, in epochs that validate.
    pub valid_acc: Option<f64>,
    /// What chooses the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes, in epochs that validate.
    pub valid_metric: Option<f64>,
    /// What the epoch cost.
    #[serde(flatten)]
    pub cost: EpochCost,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeResult {
    /// The epoch with the best metric on the validation nodes, counted from 1; the last one without validation nodes; 0 where
    /// nothing was trained.
    pub best_epoch: u64,
    /// Its validation accuracy.
    pub valid_acc: Option<f64>,
    /// Accuracy on the test nodes with that epoch's model.
    pub test_acc: Option<f64>,
    /// What chose the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes.
    pub valid_metric: Option<f64>,
    /// This metric on the test nodes.
    pub test_metric: Option<f64>,
}

/// Watches a run.
pub trait Observer<B: Backend> {
    /// `done` of `total` steps of `epoch` (counted from 1) are done.
    fn step(&mut self, epoch: u64, done: usize, total: usize);
    /// An epoch has ended.
    ///
    /// # Errors
    /// The report cannot be written; the run then ends.
    fn epoch(&mut self, report: &EpochReport) -> std::io::Result<()>;

    /// `model` is the best so far, with these embeddings of node types without features.
    ///
    /// # Errors
    /// The model cannot be saved; the run then ends.
    fn improved(&mut self, model: &NodeModel<B>, config: &ModelConfig, embeddings: &Embeddings) -> std::io::Result<()>;
}

/// How good a model is on a split.
#[derive(Clone, Copy, Default)]
pub(crate) struct Judged {
    pub(crate) accuracy: Option<f64>,
    pub(crate) metric: Option<f64>,
}

impl NodeResult {
    pub(crate) fn new(best_epoch: u64, metric: Metric, valid: Judged, test: Judged) -> Self {
        let (valid_acc, valid_metric) = (valid.accuracy, valid.metric);
        Self { best_epoch, valid_acc, test_acc: test.accuracy, metric, valid_metric, test_metric: test.metric }
    }
}

//! How good a classifier of nodes or graphs has become.

use crate::metrics::Metric;
use serde::Serialize;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassificationResult {
    /// The epoch with the best metric on the validation nodes or graphs, counted from 1, the first of several; the last one without
    /// any; 0 where nothing was trained.
    pub best_epoch: u64,
    /// Its validation accuracy.
    pub valid_acc: Option<f64>,
    /// Accuracy on the test nodes or graphs with that epoch's model.
    pub test_acc: Option<f64>,
    /// What chose the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes or graphs.
    pub valid_metric: Option<f64>,
    /// This metric on the test nodes or graphs.
    pub test_metric: Option<f64>,
}

impl ClassificationResult {
    pub(crate) fn new(best_epoch: u64, metric: Metric, valid: Judged, test: Judged) -> Self {
        let (valid_acc, valid_metric) = (valid.accuracy, valid.metric);
        Self { best_epoch, valid_acc, test_acc: test.accuracy, metric, valid_metric, test_metric: test.metric }
    }
}

/// How good a model is on a split.
#[derive(Clone, Copy, Default)]
pub(crate) struct Judged {
    pub(crate) accuracy: Option<f64>,
    pub(crate) metric: Option<f64>,
}

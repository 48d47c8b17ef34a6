//! The result of training or evaluating a classifier of nodes or graphs.

use crate::metrics::Metric;
use serde::Serialize;

/// The result of a training or evaluation run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassificationResult {
    /// The first epoch with the best metric on the validation nodes or graphs, counted from 1. The last epoch if there
    /// is no validation data; 0 if nothing was trained.
    pub best_epoch: u64,
    /// The validation accuracy of that epoch.
    pub valid_acc: Option<f64>,
    /// The accuracy of that epoch's model on the test nodes or graphs.
    pub test_acc: Option<f64>,
    /// The metric that selected the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes or graphs.
    pub valid_metric: Option<f64>,
    /// This metric on the test nodes or graphs.
    pub test_metric: Option<f64>,
}

impl ClassificationResult {
    pub(crate) fn new(best_epoch: u64, metric: Metric, valid: Judged, test: Judged) -> Self {
        Self {
            best_epoch,
            valid_acc: valid.accuracy,
            test_acc: test.accuracy,
            metric,
            valid_metric: valid.metric,
            test_metric: test.metric,
        }
    }
}

/// The evaluation of a model on one split.
#[derive(Clone, Copy, Default)]
pub(crate) struct Judged {
    pub(crate) accuracy: Option<f64>,
    pub(crate) metric: Option<f64>,
}

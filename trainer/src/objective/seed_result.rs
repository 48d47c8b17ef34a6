//! The result of training or evaluating a model on nodes or graphs.

use crate::metrics::{Decision, Metric, MetricValues};
use crate::objective::seed_scores::{SeedScores, TestDetails};
use serde::{Deserialize, Serialize};

/// The result of a training or evaluation run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedResult {
    /// The first epoch with the best metric on the validation nodes or graphs, counted from 1. The last epoch if there
    /// is no validation data; 0 if nothing was trained.
    pub best_epoch: u64,
    /// The validation accuracy of that epoch; `None` for numbers.
    pub valid_acc: Option<f64>,
    /// The accuracy of that epoch's model on the test nodes or graphs; `None` for numbers.
    pub test_acc: Option<f64>,
    /// The metric that selected the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes or graphs.
    pub valid_metric: Option<f64>,
    /// This metric on the test nodes or graphs.
    pub test_metric: Option<f64>,
    /// All metrics on the validation nodes or graphs.
    pub valid_metrics: MetricValues,
    /// All metrics on the test nodes or graphs.
    pub test_metrics: MetricValues,
    /// The thresholds and the temperature that the validation data has chosen; `None` for the greatest logit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The predictions on the test nodes or graphs.
    #[serde(skip)]
    pub test_details: TestDetails,
}

impl SeedResult {
    pub(crate) fn new(best_epoch: u64, metric: Metric, valid: SeedScores, test: SeedScores) -> Self {
        Self {
            best_epoch,
            valid_acc: valid.accuracy,
            test_acc: test.accuracy,
            metric,
            valid_metric: valid.metrics.first(),
            test_metric: test.metrics.first(),
            valid_metrics: valid.metrics,
            test_metrics: test.metrics,
            decision: test.decision,
            test_details: test.details,
        }
    }
}

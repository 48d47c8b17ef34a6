//! The result of training or evaluating a classifier of nodes or graphs.

use crate::classification_scores::ClassificationScores;
use crate::metrics::{ConfusionMatrix, Metric};
use serde::{Deserialize, Serialize};

/// The result of a training or evaluation run.
///
/// ```
/// use edgecut_trainer::ClassificationResult;
/// use edgecut_trainer::metrics::Metric;
/// let result = ClassificationResult {
///     best_epoch: 3,
///     valid_acc: Some(0.5),
///     test_acc: None,
///     metric: Metric::Accuracy,
///     valid_metric: Some(0.5),
///     test_metric: None,
///     test_confusion: None,
/// };
/// assert_eq!(serde_json::to_value(&result)?["valid_acc"], 0.5);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The predictions on the test nodes or graphs by label, as in [`ClassificationScores::confusion`].
    #[serde(skip)]
    pub test_confusion: Option<ConfusionMatrix>,
}

impl ClassificationResult {
    pub(crate) fn new(
        best_epoch: u64,
        metric: Metric,
        valid: ClassificationScores,
        test: ClassificationScores,
    ) -> Self {
        Self {
            best_epoch,
            valid_acc: valid.accuracy,
            test_acc: test.accuracy,
            metric,
            valid_metric: valid.metric,
            test_metric: test.metric,
            test_confusion: test.confusion,
        }
    }
}

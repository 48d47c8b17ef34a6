//! The settings of the scores of an evaluation.

use crate::metrics::{Decision, Metric, MetricList, Threshold};

/// The settings of the scores of a model for nodes, edges or graphs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoringConfig {
    /// The metrics, the first of which selects the best epoch. `None` is the default of the loss: the accuracy for classes.
    pub metrics: Option<MetricList<Metric>>,
    /// The probability above which a label applies, or a seed has the positive one of two classes. `None` keeps the
    /// thresholds of [`decision`](Self::decision).
    pub threshold: Option<Threshold>,
    /// True to divide logits by the temperature with the highest likelihood on the validation data.
    pub calibrate: bool,
    /// The positive one of two classes, which thresholds, scores and curves are about. `None` keeps the
    /// class of [`decision`](Self::decision), which is the second one by default.
    pub positive_class: Option<usize>,
    /// The decision of a saved model, before the settings above change it.
    pub decision: Decision,
}

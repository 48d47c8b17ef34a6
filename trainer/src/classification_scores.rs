//! The scores of a classifier of nodes or graphs.

use serde::Serialize;

/// The evaluation of a classifier on one split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassificationScores {
    /// The accuracy; `None` without seeds.
    pub accuracy: Option<f64>,
    /// The metric that selects the best epoch; `None` if it is not defined on the split.
    pub metric: Option<f64>,
}

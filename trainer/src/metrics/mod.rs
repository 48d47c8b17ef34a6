//! How good predictions are, over the seeds of all ranks.
//!
//! What is computed is pure and works on plain numbers; what ranks hold is brought together by one collective at the end.

mod confusion_matrix;
mod metric;
mod metric_state;
mod ranking;
mod roc_auc;

pub use confusion_matrix::ConfusionMatrix;
pub use metric::{Metric, ParseMetricError};
pub use metric_state::MetricState;
pub use ranking::{RankingMetrics, realistic_rank};
pub use roc_auc::{ScoredLabels, roc_auc};

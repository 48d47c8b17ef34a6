//! How good predictions are, over the seeds of all ranks.
//!
//! Metrics are computed from plain numbers. Ranks keep counts or scores of their own seeds and combine them by collectives at
//! the end of an evaluation.

mod class_counts;
mod metric;
mod metric_state;
mod ranking;
mod roc_auc;

pub use class_counts::ClassCounts;
pub use metric::{Metric, ParseMetricError};
pub use metric_state::MetricState;
pub use ranking::{RankingMetrics, realistic_rank};
pub use roc_auc::{ScoredLabels, roc_auc};

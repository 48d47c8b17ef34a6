//! The metrics of predictions, over the seeds of all ranks.
//!
//! Metrics are computed from plain numbers. Each rank keeps the counts or scores of its own seeds, and the ranks
//! combine them by collectives at the end of an evaluation.

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

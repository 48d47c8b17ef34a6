//! The metrics of predictions, over the seeds of all ranks.
//!
//! Metrics are computed from plain numbers. Each rank keeps the counts or scores of its own seeds, and the ranks
//! combine them by collectives at the end of an evaluation.

mod class_counts;
mod confusion;
mod gathered_scores;
mod metric;
mod metric_state;
mod ranking;
mod roc_auc;
mod score_histogram;

pub use class_counts::ClassCounts;
pub use confusion::ConfusionMatrix;
pub use gathered_scores::GatheredScores;
pub use metric::{Metric, ParseMetricError};
pub use metric_state::MetricState;
pub(crate) use metric_state::predictions;
pub use ranking::{RankingMetrics, realistic_rank};
pub use roc_auc::{ScoredLabels, roc_auc};
pub use score_histogram::ScoreHistogram;

//! The metrics of predictions, over the seeds of all ranks.
//!
//! Metrics are computed from plain numbers. Each rank keeps the counts or scores of its own seeds, and the ranks
//! combine them by collectives at the end of an evaluation.

mod class_counts;
mod confusion;
mod error_sums;
mod gathered_scores;
mod kinds;
mod metric;
mod output_rows;
mod ranking;
mod roc_auc;
mod score_histogram;
mod scored_columns;
mod selection;

pub use class_counts::ClassCounts;
pub use confusion::ConfusionMatrix;
pub use gathered_scores::GatheredScores;
pub use metric::{Metric, MetricEntry, MetricState, ParseMetricError};
pub(crate) use output_rows::host_rows;
pub use output_rows::{OutputRows, class_of};
pub use ranking::{RankingMetrics, realistic_rank};
pub use roc_auc::{ScoredLabels, roc_auc};
pub use score_histogram::ScoreHistogram;
pub use selection::Selection;

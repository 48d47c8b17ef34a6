//! The metrics of predictions, over the seeds of all ranks.
//!
//! Metrics are computed from plain numbers. Each rank keeps the counts or scores of its own seeds, and the ranks
//! combine them by collectives at the end of an evaluation.

mod class_counts;
mod confusion;
mod curve;
mod decision;
mod error_sums;
mod gathered_scores;
mod metric;
mod metric_list;
mod metric_values;
mod output_rows;
mod ranking;
mod registry;
mod roc_auc;
mod score_histogram;
mod scored_columns;
mod selection;
mod temperature;
mod threshold;

pub use class_counts::{ClassCounts, OfClass};
pub use confusion::ConfusionMatrix;
pub(crate) use curve::CurveCounts;
pub use curve::{Curve, CurvePoint};
pub use decision::Decision;
pub use gathered_scores::GatheredScores;
pub use metric::{Metric, MetricEntry, MetricState, ParseMetricError};
pub use metric_list::MetricList;
pub use metric_values::MetricValues;
pub(crate) use output_rows::host_rows;
pub use output_rows::{OutputRows, class_of};
pub use ranking::{RankingMetrics, realistic_rank};
pub use roc_auc::ScoredLabels;
pub use score_histogram::ScoreHistogram;
pub(crate) use scored_columns::{add_scores, no_scores};
pub use selection::Selection;
pub(crate) use temperature::fit_temperature;
pub use threshold::Threshold;
pub(crate) use threshold::best_f1;

//! The scores and results of link prediction.

use super::config::LinkMetric;
use crate::metrics::{RankingMetrics, ScoreHistogram};
use serde::{Serialize, Serializer};

/// The ranking metrics of held-out edges against negative destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkScores {
    /// The number of ranked edges.
    pub edges: u64,
    /// The mean reciprocal rank.
    pub mrr: Option<f64>,
    /// The fraction of edges ranked first.
    #[serde(rename = "hits@1")]
    pub hits_at_1: Option<f64>,
    /// The fraction of edges ranked among the first three.
    #[serde(rename = "hits@3")]
    pub hits_at_3: Option<f64>,
    /// The fraction of edges ranked among the first ten.
    #[serde(rename = "hits@10")]
    pub hits_at_10: Option<f64>,
    /// The fraction of edges ranked among the first K, for another K that the metric names.
    #[serde(flatten, serialize_with = "hits_as_text")]
    pub hits_at: Option<(u32, f64)>,
    /// The area under the ROC curve. It is computed only with shared negatives or as the metric that selects the best
    /// epoch, because it needs all scores, while the other metrics need only sums.
    pub roc_auc: Option<f64>,
    /// The average precision, computed in the same cases.
    pub average_precision: Option<f64>,
    /// The scores of the edges and of their negatives; `None` if edges are ranked against all nodes.
    #[serde(skip)]
    pub histogram: Option<ScoreHistogram>,
}

impl LinkScores {
    pub(super) fn new(ranks: &RankingMetrics) -> Self {
        let [one, three, ten] = ranks.hits().map_or([None; 3], |hits| hits.map(Some));
        Self {
            edges: ranks.count(),
            mrr: ranks.mrr(),
            hits_at_1: one,
            hits_at_3: three,
            hits_at_10: ten,
            hits_at: ranks.hits_at(),
            ..Self::default()
        }
    }

    /// Returns the mean of the scores of several kinds of edges, weighted by their numbers.
    pub(super) fn mean(kinds: &[Self]) -> Self {
        let edges: u64 = kinds.iter().map(|kind| kind.edges).sum();
        let mean = |metric: &dyn Fn(&Self) -> Option<f64>| {
            let with_edges = kinds.iter().filter(|kind| kind.edges > 0);
            let sum: Option<f64> = with_edges.map(|kind| Some(metric(kind)? * kind.edges as f64)).sum();
            sum.filter(|_| edges > 0).map(|sum| sum / edges as f64)
        };
        let depth = kinds.iter().find_map(|kind| kind.hits_at).map(|(depth, _)| depth);
        let mut histogram = ScoreHistogram::default();
        kinds.iter().filter_map(|kind| kind.histogram.as_ref()).for_each(|of_kind| histogram.merge(of_kind));
        Self {
            edges,
            mrr: mean(&|kind| kind.mrr),
            hits_at_1: mean(&|kind| kind.hits_at_1),
            hits_at_3: mean(&|kind| kind.hits_at_3),
            hits_at_10: mean(&|kind| kind.hits_at_10),
            hits_at: depth.and_then(|depth| Some((depth, mean(&|kind| kind.hits_at.map(|(_, share)| share))?))),
            roc_auc: mean(&|kind| kind.roc_auc),
            average_precision: mean(&|kind| kind.average_precision),
            histogram: Some(histogram),
        }
    }

    /// Returns the value of one metric.
    pub fn get(&self, metric: LinkMetric) -> Option<f64> {
        match metric {
            LinkMetric::Mrr => self.mrr,
            LinkMetric::HitsAt(1) => self.hits_at_1,
            LinkMetric::HitsAt(3) => self.hits_at_3,
            LinkMetric::HitsAt(10) => self.hits_at_10,
            LinkMetric::HitsAt(depth) => self.hits_at.filter(|(of, _)| *of == depth).map(|(_, share)| share),
            LinkMetric::RocAuc => self.roc_auc,
            LinkMetric::AveragePrecision => self.average_precision,
        }
    }
}

/// Serialises the share of hits under its name, such as `hits@50`.
fn hits_as_text<S: Serializer>(hits: &Option<(u32, f64)>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(hits.iter().map(|(depth, share)| (format!("hits@{depth}"), share)))
}

/// The result of a training or evaluation run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkResult {
    /// The epoch with the best metric on the validation edges, counted from 1; 0 if nothing was trained.
    pub best_epoch: u64,
    /// The metric that selected the epoch.
    pub metric: LinkMetric,
    /// The metrics of that epoch's model on the validation edges.
    pub valid: LinkScores,
    /// The metrics of that epoch's model on the test edges.
    pub test: LinkScores,
}

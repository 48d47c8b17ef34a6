//! The scores and results of link prediction.

use super::config::LinkMetric;
use super::list_metric::ListScores;
use crate::metrics::{Curve, MetricList, RankingMetrics, ScoreHistogram};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The ranking metrics of held-out edges against negative destinations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkScores {
    /// The number of ranked edges.
    pub edges: u64,
    /// The number of edges that are not ranked and in no metric, because each node that could be their negative is a known
    /// destination of their source. If both ends are ranked, the number of ends.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The mean reciprocal rank.
    pub mrr: Option<f64>,
    /// The fraction of edges ranked among the first K, for K of 1, 3 and 10 and each other K that the metrics name. A fraction is
    /// `None` if edges are ranked against so few negatives that all of them would count.
    #[serde(flatten, serialize_with = "hits_as_text", deserialize_with = "hits_of_text")]
    pub hits: BTreeMap<u32, Option<f64>>,
    /// The area under the ROC curve. It is computed only with shared negatives or as the metric that selects the best
    /// epoch, because it needs all scores, while the other metrics need only sums.
    pub roc_auc: Option<f64>,
    /// The average precision, computed in the same cases.
    pub average_precision: Option<f64>,
    /// The lists of the best destinations of sources; `None` unless the metrics judge them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<ListScores>,
    /// The scores of the edges and of their negatives; `None` if edges are ranked against all nodes.
    #[serde(skip)]
    pub histogram: Option<ScoreHistogram>,
    /// The ROC curve and the precision-recall curve of test edges among their negatives; empty for other edges, and if edges
    /// are ranked against all nodes.
    #[serde(skip)]
    pub curves: Vec<Curve>,
}

impl LinkScores {
    pub(super) fn new(ranks: &RankingMetrics) -> Self {
        Self {
            edges: ranks.count(),
            left_out: 0,
            mrr: ranks.mrr(),
            hits: ranks.hits(),
            roc_auc: None,
            average_precision: None,
            lists: None,
            histogram: None,
            curves: Vec::new(),
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
        let mut hits = BTreeMap::new();
        for &depth in kinds.iter().flat_map(|kind| kind.hits.keys()) {
            hits.insert(depth, mean(&|kind| kind.get(LinkMetric::HitsAt(depth))));
        }
        let mut histogram = ScoreHistogram::default();
        kinds.iter().filter_map(|kind| kind.histogram.as_ref()).for_each(|of_kind| histogram.merge(of_kind));
        Self {
            edges,
            left_out: kinds.iter().map(|kind| kind.left_out).sum(),
            mrr: mean(&|kind| kind.mrr),
            hits,
            roc_auc: mean(&|kind| kind.roc_auc),
            average_precision: mean(&|kind| kind.average_precision),
            lists: None,
            histogram: Some(histogram),
            // The curves of several kinds have no mean.
            curves: if let [only] = kinds { only.curves.clone() } else { Vec::new() },
        }
    }

    /// Returns the scores without the fractions of hits that are 1 for every model, if no edge has more than this number of
    /// negatives.
    pub(super) fn without_certain_hits(mut self, most_negatives: u64) -> Self {
        for (&depth, share) in &mut self.hits {
            *share = share.filter(|_| u64::from(depth) <= most_negatives);
        }
        self
    }

    /// Returns the value of one metric.
    pub fn get(&self, metric: LinkMetric) -> Option<f64> {
        match metric {
            LinkMetric::Mrr => self.mrr,
            LinkMetric::HitsAt(depth) => self.hits.get(&depth).copied().flatten(),
            LinkMetric::RocAuc => self.roc_auc,
            LinkMetric::AveragePrecision => self.average_precision,
            LinkMetric::OfLists(metric) => self.lists.as_ref()?.metrics.get(&metric.to_string()).copied(),
        }
    }
}

impl Default for LinkScores {
    /// Returns the scores of no edges.
    fn default() -> Self {
        Self::new(&RankingMetrics::with_depths(&[]))
    }
}

/// Serialises each share of hits under its name, such as `hits@50`.
fn hits_as_text<S: Serializer>(hits: &BTreeMap<u32, Option<f64>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(hits.iter().map(|(depth, share)| (format!("hits@{depth}"), share)))
}

/// Reads the shares of hits from their names.
fn hits_of_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u32, Option<f64>>, D::Error> {
    let fields = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    let hits = |(name, share): (&String, &serde_json::Value)| {
        let depth: u32 = name.strip_prefix("hits@")?.parse().ok()?;
        Some((depth, share.as_f64()))
    };
    Ok(fields.iter().filter_map(hits).collect())
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The result of a training or evaluation run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// The epoch with the best metric on the validation edges, counted from 1; 0 if nothing was trained.
    pub best_epoch: u64,
    /// The metric that selected the epoch.
    pub metric: LinkMetric,
    /// All metrics that the configuration names.
    #[serde(default)]
    pub metrics: MetricList<LinkMetric>,
    /// The metrics of that epoch's model on the validation edges.
    pub valid: LinkScores,
    /// The metrics of that epoch's model on the test edges.
    pub test: LinkScores,
}

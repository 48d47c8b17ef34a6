//! The scores and results of link prediction.

use super::config::LinkMetric;
use super::list_metric::ListScores;
use crate::metrics::{Curve, MetricList, RankingMetrics, ScoreHistogram};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The ranking metrics of held-out edges against negative destinations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkScores {
    /// The number of ranked edges.
    pub edges: u64,
    /// The number of edges that are not ranked and in no metric, because each node that could be their negative is a known
    /// destination of their source. If both ends are ranked, the number of ends.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The mean reciprocal rank.
    pub mrr: Option<f64>,
    /// The fraction of edges ranked first. These fractions are `None` if edges are ranked against so few negatives that
    /// all of them would count.
    #[serde(rename = "hits@1")]
    pub hits_at_1: Option<f64>,
    /// The fraction of edges ranked among the first three.
    #[serde(rename = "hits@3")]
    pub hits_at_3: Option<f64>,
    /// The fraction of edges ranked among the first ten.
    #[serde(rename = "hits@10")]
    pub hits_at_10: Option<f64>,
    /// The fractions of edges ranked among the first K, for each other K that the metrics name.
    #[serde(flatten, serialize_with = "hits_as_text", deserialize_with = "hits_of_text")]
    pub hits_at: BTreeMap<u32, f64>,
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
        let [one, three, ten] = ranks.hits().map_or([None; 3], |hits| hits.map(Some));
        Self {
            edges: ranks.count(),
            mrr: ranks.mrr(),
            hits_at_1: one,
            hits_at_3: three,
            hits_at_10: ten,
            hits_at: ranks.hits_at().into_iter().collect(),
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
        let mut hits_at = BTreeMap::new();
        for &depth in kinds.iter().flat_map(|kind| kind.hits_at.keys()) {
            if let Some(share) = mean(&|kind| kind.hits_at.get(&depth).copied()) {
                hits_at.insert(depth, share);
            }
        }
        let mut histogram = ScoreHistogram::default();
        kinds.iter().filter_map(|kind| kind.histogram.as_ref()).for_each(|of_kind| histogram.merge(of_kind));
        Self {
            edges,
            left_out: kinds.iter().map(|kind| kind.left_out).sum(),
            mrr: mean(&|kind| kind.mrr),
            hits_at_1: mean(&|kind| kind.hits_at_1),
            hits_at_3: mean(&|kind| kind.hits_at_3),
            hits_at_10: mean(&|kind| kind.hits_at_10),
            hits_at,
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
    pub(super) fn without_certain_hits(self, most_negatives: u64) -> Self {
        let kept = |share: Option<f64>, depth: u64| share.filter(|_| depth <= most_negatives);
        Self {
            hits_at_1: kept(self.hits_at_1, 1),
            hits_at_3: kept(self.hits_at_3, 3),
            hits_at_10: kept(self.hits_at_10, 10),
            ..self
        }
    }

    /// Returns the value of one metric.
    pub fn get(&self, metric: LinkMetric) -> Option<f64> {
        match metric {
            LinkMetric::Mrr => self.mrr,
            LinkMetric::HitsAt(1) => self.hits_at_1,
            LinkMetric::HitsAt(3) => self.hits_at_3,
            LinkMetric::HitsAt(10) => self.hits_at_10,
            LinkMetric::HitsAt(depth) => self.hits_at.get(&depth).copied(),
            LinkMetric::RocAuc => self.roc_auc,
            LinkMetric::AveragePrecision => self.average_precision,
            LinkMetric::OfLists(metric) => self.lists.as_ref()?.metrics.get(&metric.to_string()).copied(),
        }
    }
}

/// Serialises each share of hits under its name, such as `hits@50`.
fn hits_as_text<S: Serializer>(hits: &BTreeMap<u32, f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(hits.iter().map(|(depth, share)| (format!("hits@{depth}"), share)))
}

/// Reads the shares of hits at depths that have no field of their own.
fn hits_of_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u32, f64>, D::Error> {
    let fields = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    let hits = |(name, share): (&String, &serde_json::Value)| {
        let depth: u32 = name.strip_prefix("hits@")?.parse().ok()?;
        Some((depth, share.as_f64()?))
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

//! The settings of link prediction, and their checks against the graph.

use crate::edge_type_name::edge_type;
use crate::models::{GraphSchema, LinkModelConfig, ModelError};
use crate::nn::DecoderKind;
use crate::train_error::TrainError;
use crate::training_config::TrainingConfig;
use edgecut_dist_loader::NegativeSampling;
use edgecut_graph::{EdgeTypeId, Meta};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The settings of link prediction.
///
/// ```
/// use edgecut_dist_loader::{Exclude, NegativeDistribution, NegativeSampling};
/// use edgecut_dist_sampler::{Fanout, SamplerConfig};
/// use edgecut_trainer::TrainingConfig;
/// use edgecut_trainer::link::{LinkEvaluation, LinkLoss, LinkMetric, LinkTrainingConfig, RankedEnds};
/// use edgecut_trainer::models::{ConvKind, SageSettings};
/// use edgecut_trainer::nn::{Aggregation, DecoderKind};
/// let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
/// let config = LinkTrainingConfig {
///     training: TrainingConfig::new(kind, SamplerConfig::new(vec![Fanout::Count(10); 2])),
///     decoder: DecoderKind::Dot,
///     negatives: NegativeSampling {
///         num: 1,
///         distribution: NegativeDistribution::Uniform,
///         exclude: Exclude::Nothing,
///         shared: false,
///     },
///     in_batch_negatives: false,
///     loss: LinkLoss::Bce,
///     n3_weight: 0.0,
///     edge_types: Vec::new(),
///     reverse_types: Vec::new(),
///     evaluation: LinkEvaluation::Sampled(100),
///     ranked_ends: RankedEnds::Destination,
///     metric: LinkMetric::Mrr,
/// };
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct LinkTrainingConfig {
    /// The settings of the encoder and its training.
    pub training: TrainingConfig,
    /// The decoder that scores pairs of nodes.
    pub decoder: DecoderKind,
    /// The negatives of training.
    pub negatives: NegativeSampling,
    /// True to use the end nodes of a batch's edges as shared negatives too. The negatives of an edge exclude its own
    /// source, and the destinations that an edge of the batch or its reverse connects the source to.
    pub in_batch_negatives: bool,
    /// The loss.
    pub loss: LinkLoss,
    /// The weight of the N3 regularization, the sum of the third powers of the absolute values in the vectors of an
    /// edge's end nodes and relation (Lacroix, Usunier and Obozinski, "Canonical tensor decomposition for knowledge
    /// base completion", ICML 2018).
    pub n3_weight: f64,
    /// The names of the edge types to predict. If empty, all types with held-out edges.
    pub edge_types: Vec<String>,
    /// The names of pairs of edge types that are the reverse of each other, in addition to the pairs `NAME` and
    /// `rev_NAME`.
    pub reverse_types: Vec<(String, String)>,
    /// The candidates that held-out edges are ranked against.
    pub evaluation: LinkEvaluation,
    /// The ends of held-out edges that are ranked.
    pub ranked_ends: RankedEnds,
    /// The metric that selects the best epoch.
    pub metric: LinkMetric,
}

/// The loss of link prediction.
///
/// ```
/// use edgecut_trainer::link::LinkLoss;
/// assert_eq!("softmax".parse(), Ok(LinkLoss::Softmax));
/// assert_eq!(LinkLoss::Bce.to_string(), "bce");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLoss {
    /// Binary cross-entropy, the mean over an edge and its negatives.
    Bce,
    /// Cross-entropy of classifying the edge among itself and its negatives.
    Softmax,
}

/// The candidates that held-out edges are ranked against.
///
/// ```
/// use edgecut_trainer::link::LinkEvaluation;
/// let sampled = LinkEvaluation::Sampled(100);
/// assert_eq!(serde_json::to_string(&sampled)?, r#"{"sampled":100}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkEvaluation {
    /// This number of sampled destinations per edge, excluding those of known edges.
    Sampled(usize),
    /// All nodes of the destination's type, excluding those of known edges.
    Filtered,
    /// The negatives that the dataset gives. Edge types without given negatives are not evaluated, unless none has any,
    /// which is an error.
    Given,
}

/// The ends of held-out edges that are ranked.
///
/// ```
/// use edgecut_trainer::link::RankedEnds;
/// assert_eq!("both".parse(), Ok(RankedEnds::Both));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RankedEnds {
    /// The destination of an edge, among other destinations.
    #[default]
    Destination,
    /// The destination, and the source among other sources. The metrics are means over both. Only for
    /// [`LinkEvaluation::Filtered`].
    Both,
}

impl fmt::Display for RankedEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destination => "destination",
            Self::Both => "both",
        })
    }
}

impl FromStr for RankedEnds {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "destination" | "tail" => Ok(Self::Destination),
            "both" => Ok(Self::Both),
            _ => Err(format!("unknown ends {word:?}: expected destination or both")),
        }
    }
}

/// A metric of link prediction; greater is better.
///
/// ```
/// use edgecut_trainer::link::LinkMetric;
/// assert_eq!("hits@50".parse(), Ok(LinkMetric::HitsAt(50)));
/// assert_eq!(LinkMetric::RocAuc.to_string(), "roc-auc");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkMetric {
    /// The mean reciprocal rank.
    Mrr,
    /// The fraction of edges ranked among the first K, at least 1.
    HitsAt(u32),
    /// The area under the ROC curve of edges and negatives.
    RocAuc,
    /// The average precision of edges among edges and negatives.
    AveragePrecision,
}

impl LinkMetric {
    /// Returns true if the metric compares the scores of all edges and negatives with each other.
    pub(crate) fn needs_all_scores(self) -> bool {
        matches!(self, Self::RocAuc | Self::AveragePrecision)
    }
}

impl Serialize for LinkMetric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LinkMetric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for LinkMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mrr => f.write_str("mrr"),
            Self::HitsAt(depth) => write!(f, "hits@{depth}"),
            Self::RocAuc => f.write_str("roc-auc"),
            Self::AveragePrecision => f.write_str("average-precision"),
        }
    }
}

impl FromStr for LinkMetric {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "mrr" => Ok(Self::Mrr),
            "roc-auc" | "rocauc" => Ok(Self::RocAuc),
            "average-precision" | "ap" => Ok(Self::AveragePrecision),
            _ => match word.strip_prefix("hits@").map(str::parse) {
                Some(Ok(depth @ 1..)) => Ok(Self::HitsAt(depth)),
                _ => {
                    let expected = "mrr, hits@K such as hits@50, roc-auc or average-precision";
                    Err(format!("unknown metric {word:?}: expected {expected}"))
                }
            },
        }
    }
}

impl FromStr for LinkLoss {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "bce" => Ok(Self::Bce),
            "softmax" => Ok(Self::Softmax),
            _ => Err(format!("unknown loss {word:?}: expected bce or softmax")),
        }
    }
}

impl fmt::Display for LinkLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bce => "bce",
            Self::Softmax => "softmax",
        })
    }
}

/// Returns the edge types that `config` names, or else all types with held-out edges.
///
/// # Errors
/// [`TrainError::Config`] for an unknown or ambiguous name, if no edges are held out for validation, or if the metric
/// does not support the evaluation.
pub fn target_edge_types(meta: &Meta, config: &LinkTrainingConfig) -> Result<Vec<EdgeTypeId>, TrainError> {
    let fail = |what: String| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
    if config.metric.needs_all_scores() && config.evaluation == LinkEvaluation::Filtered {
        let metric = config.metric;
        return fail(format!("{metric} needs sampled or given negatives: set their number, or choose another metric"));
    }
    if config.ranked_ends == RankedEnds::Both && config.evaluation != LinkEvaluation::Filtered {
        return fail("both ends are ranked among all nodes only: evaluate among all (`evaluation=all`)".into());
    }
    let types: Vec<EdgeTypeId> = if config.edge_types.is_empty() {
        let held_out = |e: &usize| meta.edge_types[*e].held_out.iter().any(|&count| count > 0);
        (0..meta.edge_types.len()).filter(held_out).map(|e| EdgeTypeId(e as u16)).collect()
    } else {
        // The set removes types that are named twice.
        let named = config.edge_types.iter().map(|name| edge_type(meta, name)).collect::<Result<BTreeSet<_>, _>>()?;
        named.into_iter().collect()
    };
    if types.iter().all(|e| meta.edge_types[e.index()].held_out[0] == 0) {
        return fail(
            "no edges are held out for validation: partition it with `hold_out_edges`, or give it validation and test edges"
                .into(),
        );
    }
    Ok(types)
}

/// Returns the pairs of edge types that `config` declares as the reverse of each other.
///
/// # Errors
/// [`TrainError::Config`] for an unknown or ambiguous name.
pub(crate) fn reverse_edge_types(
    meta: &Meta,
    config: &LinkTrainingConfig,
) -> Result<Vec<(EdgeTypeId, EdgeTypeId)>, TrainError> {
    let pair = |(one, other): &(String, String)| Ok((edge_type(meta, one)?, edge_type(meta, other)?));
    config.reverse_types.iter().map(pair).collect()
}

/// Returns the model that `config` describes for a graph.
///
/// # Errors
/// [`TrainError::Dataset`] if settings contradict the graph or each other.
pub fn link_model_config(meta: &Meta, config: &LinkTrainingConfig) -> Result<LinkModelConfig, TrainError> {
    let unfit = |source: ModelError| TrainError::Dataset { dataset: meta.dataset.clone(), source };
    let graph = GraphSchema::new(meta).map_err(unfit)?;
    let model = LinkModelConfig { encoder: config.training.network(graph, Vec::new(), true), decoder: config.decoder };
    model.validate().map_err(unfit)?;
    Ok(model)
}

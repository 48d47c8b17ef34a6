//! The settings of link prediction, and their checks against the graph.

use super::list_metric::ListMetric;
use super::loss::{Bce, LinkLoss};
use super::rank_range::RankRange;
use crate::edge_type_name::{edge_type, reverse_edge_types};
use crate::error::{ModelError, TrainError};
use crate::metrics::MetricList;
use crate::models::LinkModelConfig;
use crate::training_config::TrainingConfig;
use edgecut_dist_loader::{Exclude, NegativeDistribution, NegativePairs, NegativeSampling};
use edgecut_gnn::nn::{DecoderKind, Dot};
use edgecut_graph::{EdgeTypeId, Meta, NodeTypeId};
use edgecut_settings::{Flag, in_range, not_negative, settings, suggestion, text_value, words};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

settings! {
    /// The settings of link prediction.
    #[derive(Clone, Debug)]
    pub struct LinkTrainingConfig {
        /// The settings of the encoder and its training.
        pub training: TrainingConfig = TrainingConfig::default();
        /// Edge types to predict, separated by commas: relation names or SRC__REL__DST [default: all types with held-out
        /// edges, and with --load-model those of the training]
        pub edge_types: Vec<String> = Vec::new() => Flag::new("LIST");
        /// Pairs of edge types that are the reverse of each other: ONE=OTHER, separated by commas. NAME and rev_NAME are
        /// always paired. Message passing excludes the seed edges of a batch and their reverses. --overlap compares the types
        pub reverse_types: Vec<(String, String)> = Vec::new() => Flag::new("LIST").checked(is_pair);
        /// Decoder that scores a pair of nodes, with settings as in NAME:SETTING=VALUE,SETTING=VALUE
        pub decoder: DecoderKind = DecoderKind::Dot(Dot {}) => Flag::new("NAME[:SETTINGS]");
        /// Loss of an edge and its negatives, with settings as in NAME:SETTING=VALUE,SETTING=VALUE
        pub loss: LinkLoss = LinkLoss::Bce(Bce {}) => Flag::new("NAME[:SETTINGS]");
        /// Negative destinations per training edge
        pub num_negatives: usize = 1 => Flag::new("N").checked(in_range::<1, 1_000_000>).training_only();
        /// Probability distribution of negative destinations
        pub negatives: NegativeDistribution = NegativeDistribution::Uniform => Flag::new("NEGATIVES").training_only();
        /// Use the same negatives for all edges of a batch, which makes large --num-negatives cheap
        pub shared_negatives: bool = false => Flag::switch().training_only();
        /// With --shared-negatives: also use the end nodes of the other edges of the batch as negatives. Destinations that an
        /// edge of the batch connects to the source are excluded, and with --decoder dot also the source of the edge
        pub in_batch_negatives: bool = false => Flag::switch().requires("shared_negatives").training_only();
        // Yi et al., "Sampling-bias-corrected neural modeling for large corpus item recommendations", RecSys 2019.
        /// With --in-batch-negatives and --loss softmax: correct the scores of negatives by the probability that they are
        /// in the batch, which grows with their popularity. Otherwise popular nodes are negatives too often
        pub log_q_correction: bool = false => Flag::switch().requires("in_batch_negatives").training_only();
        /// Edge types whose edges are known negatives, separated by commas, such as dislikes beside likes. The negatives of an
        /// edge are first destinations to which its source has such an edge, and others are drawn
        pub train_negatives: Vec<String> = Vec::new() => Flag::new("LIST").conflicts_with(&["shared_negatives"]).training_only();
        /// Negatives by the model of the epoch before: destinations with the ranks FIRST to LAST among all destinations that are
        /// no training edges of the source. The first epoch has none
        pub ranked_negatives: Option<RankRange> = None => Flag::new("FIRST-LAST").conflicts_with(&["shared_negatives"]).training_only();
        /// With --ranked-negatives: rank about N destinations, which are drawn before each epoch [default: all]
        pub ranked_among: Option<usize> = None => Flag::new("N").checked(in_range::<1, { u32::MAX as u64 }>).requires("ranked_negatives").training_only();
        /// At most N negatives of an edge come from --train-negatives, --negative-pairs and --ranked-negatives, and others are
        /// drawn [default: all of --num-negatives]
        pub max_given_negatives: Option<usize> = None => Flag::new("N").checked(in_range::<1, 1_000_000>).training_only();
        /// Negatives of sources. All predicted edge types have the same ends then.
        pub negative_pairs: Option<Arc<NegativePairs>> = None;
        /// Use only the K negatives of each edge with the highest scores in the loss. Needs --exclude-positives or
        /// --shared-negatives
        pub hard_negatives: Option<usize> = None => Flag::new("K").checked(in_range::<1, 1_000_000>)
            .conflicts_with(&["log_q_correction"]).training_only();
        /// Weight each training edge in the loss by its stored weight
        pub weighted_loss: bool = false => Flag::switch().training_only();
        /// Never sample an edge of the message-passing graph as a negative, nor the same negative twice for an edge
        pub exclude_positives: bool = false => Flag::switch().conflicts_with(&["shared_negatives"]).training_only();
        // Lacroix, Usunier and Obozinski, "Canonical tensor decomposition for knowledge base completion", ICML 2018.
        /// Weight of the N3 regularization: the cubed entries of the source, destination and relation vectors
        pub n3_weight: f64 = 0.0 => Flag::new("X").checked(not_negative).training_only();
        /// Negatives to rank each held-out edge against: N sampled destinations, all nodes, or those that the dataset gives
        /// (given). Destinations of known edges of the same source are excluded from the first two [default: given if the
        /// dataset has them, else 100]
        pub eval_negatives: LinkEvaluation = LinkEvaluation::Sampled(100) => Flag::new("N|all|given").default_later();
        /// With --eval-negatives all: ends of held-out edges to rank. both also ranks the source among all sources, and the
        /// metrics are means over both ends
        pub rank: RankedEnds = RankedEnds::Destination => Flag::new("destination|both");
        /// Metrics on the validation edges, separated by commas; the first selects the best epoch. K is any number. roc-auc and
        /// average-precision keep all scores in memory and are computed only if named here, or if all edges share given
        /// negatives. recall@K, ndcg@K, map@K, hit-rate@K and coverage@K compare the K best of all destinations of a source
        /// with its held-out edges
        pub metric: MetricList<LinkMetric> = MetricList::default() => Flag::new("mrr|hits@K|recall@K|ndcg@K|roc-auc,…");
        /// With recall@K, ndcg@K, map@K, hit-rate@K or coverage@K in --metric: list the destinations of at most N of the sources
        /// with held-out edges, the same for each --seed [default: 2000]
        pub eval_sources: Option<usize> = None => Flag::new("N").checked(in_range::<1, { u32::MAX as u64 }>);
        /// True to train on all edges without validation. The model of the last epoch is kept.
        pub without_validation: bool = false;
        /// True to accept held-out edges whose reverse is a training edge of a type in `reverse_types`, as parts do that were made
        /// with `overlap=allow`.
        pub allows_overlap: bool = false;
    }
}

impl LinkTrainingConfig {
    /// Returns the sampling of the negatives of training.
    pub fn negative_sampling(&self) -> NegativeSampling {
        NegativeSampling {
            num: self.num_negatives,
            distribution: self.negatives,
            exclude: if self.exclude_positives { Exclude::Edges } else { Exclude::Nothing },
            shared: self.shared_negatives,
        }
    }

    /// Returns this configuration for the evaluation of a saved model, which needs validation or test edges.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the graph has neither, or for an unknown or ambiguous edge type.
    pub fn for_evaluation(&self, meta: &Meta) -> Result<Self, TrainError> {
        let [has_validation, has_test] = held_out_of(meta, &chosen_edge_types(meta, self)?);
        if !has_validation && !has_test {
            return Err(TrainError::config(format!(
                "dataset {}: it has no held-out edges to evaluate on: hold out edges (`hold_out_edges=0.1,0.1`), or give it \
                 validation or test edges",
                meta.dataset
            )));
        }
        Ok(Self { without_validation: !has_validation, ..self.clone() })
    }
}

/// Checks a pair of edge types, `ONE=OTHER`.
pub(crate) fn is_pair(text: &str) -> Result<(), String> {
    if text.matches('=').count() > 1 {
        return Err(format!(
            "{text:?} has several `=`, so that it does not say where the second type begins: types with `=` in their names \
             cannot be paired, rename them"
        ));
    }
    match text.split_once('=') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() => Ok(()),
        _ => Err(format!("{text:?} is not a pair of edge types: write ONE=OTHER, such as writes=written_by")),
    }
}

/// The candidates that held-out edges are ranked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkEvaluation {
    /// This number of sampled destinations per edge, excluding known edges.
    Sampled(usize),
    /// All nodes of the destination's type, excluding known edges.
    Filtered,
    /// The negatives that the dataset gives, in temporal sampling at the time of their edge. Edge types without given negatives
    /// are not evaluated, unless none has any, which is an error.
    Given,
}

text_value!(LinkEvaluation);

impl fmt::Display for LinkEvaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sampled(number) => write!(f, "{number}"),
            Self::Filtered => f.write_str("all"),
            Self::Given => f.write_str("given"),
        }
    }
}

impl FromStr for LinkEvaluation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Self::Filtered),
            ("given", _) => Ok(Self::Given),
            (_, Ok(num @ 1..=1_000_000)) => Ok(Self::Sampled(num)),
            _ => Err(format!("{text:?} is neither `all`, `given` nor a number from 1 to 1000000")),
        }
    }
}

/// The ends of held-out edges that are ranked.
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

words!(RankedEnds, "ends", Destination = "destination" | "tail", Both = "both");

/// A metric of link prediction; greater is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkMetric {
    /// The mean reciprocal rank.
    #[default]
    Mrr,
    /// The fraction of edges ranked among the first K, at least 1.
    HitsAt(u32),
    /// The area under the ROC curve of edges and negatives.
    RocAuc,
    /// The average precision of edges among edges and negatives.
    AveragePrecision,
    /// A metric of the best destinations of sources among all destinations.
    OfLists(ListMetric),
}

impl LinkMetric {
    /// Returns the name for people, as it stands within a sentence.
    pub fn label(self) -> String {
        match self {
            Self::Mrr => "MRR".into(),
            Self::HitsAt(depth) => format!("hits@{depth}"),
            Self::RocAuc => "ROC AUC".into(),
            Self::AveragePrecision => "average precision".into(),
            Self::OfLists(metric) => metric.label(),
        }
    }

    /// Returns true if the metric compares the scores of all edges and negatives with each other.
    pub(crate) fn needs_all_scores(self) -> bool {
        matches!(self, Self::RocAuc | Self::AveragePrecision)
    }
}

text_value!(MetricList<LinkMetric>);

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
            Self::OfLists(metric) => write!(f, "{metric}"),
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
            _ => match (word.strip_prefix("hits@").map(str::parse), word.parse()) {
                (Some(Ok(depth @ 1..)), _) => Ok(Self::HitsAt(depth)),
                (_, Ok(of_lists)) => Ok(Self::OfLists(of_lists)),
                _ => {
                    let known = ["mrr", "hits@50", "recall@20", "ndcg@20", "map@20", "roc-auc", "average-precision"];
                    let hint = suggestion(word, known);
                    let expected = "mrr, hits@K such as hits@50, roc-auc, average-precision, or recall@K, ndcg@K, map@K, \
                                    hit-rate@K or coverage@K such as recall@20";
                    Err(format!("unknown metric {word:?}{hint}: expected {expected}"))
                }
            },
        }
    }
}

/// Returns the edge types that `config` names, or else all types with held-out edges. Without held-out edges, this is the only
/// type that is not the reverse of another.
///
/// # Errors
/// [`TrainError::Config`] for an unknown or ambiguous name, if no edges are held out for validation, if types must be named,
/// or if the metric does not support the evaluation.
pub fn target_edge_types(meta: &Meta, config: &LinkTrainingConfig) -> Result<Vec<EdgeTypeId>, TrainError> {
    let fail = |what: String| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
    let of_all_scores = config.metric.iter().find(|metric| metric.needs_all_scores());
    if let (Some(metric), LinkEvaluation::Filtered) = (of_all_scores, config.eval_negatives) {
        return fail(format!("{metric} needs sampled or given negatives: set their number, or choose another metric"));
    }
    if config.rank == RankedEnds::Both && config.eval_negatives != LinkEvaluation::Filtered {
        return fail("both ends are ranked among all nodes only: evaluate among all (`eval_negatives=all`)".into());
    }
    let types = chosen_edge_types(meta, config)?;
    let [has_validation, _] = held_out_of(meta, &types);
    if config.without_validation && has_validation {
        return fail(
            "it has validation edges, which are not trained on: leave `hold_out_edges=0` out to validate on them, or \
             make the parts without them"
                .into(),
        );
    }
    if !config.without_validation && !has_validation {
        return fail(
            "no edges are held out for validation: partition it with `hold_out_edges`, give it validation and test \
             edges, or train on all edges without validation (`hold_out_edges=0`)"
                .into(),
        );
    }
    Ok(types)
}

/// Returns the edge types to predict. Their held-out edges are not checked.
fn chosen_edge_types(meta: &Meta, config: &LinkTrainingConfig) -> Result<Vec<EdgeTypeId>, TrainError> {
    if !config.edge_types.is_empty() {
        // The set removes types that are named twice.
        let named = config.edge_types.iter().map(|name| edge_type(meta, name)).collect::<Result<BTreeSet<_>, _>>()?;
        return Ok(named.into_iter().collect());
    }
    let all = (0..meta.edge_types.len()).map(|e| EdgeTypeId(e as u16));
    let held_out: Vec<EdgeTypeId> = all.clone().filter(|&e| held_out_of(meta, &[e]) != [false; 2]).collect();
    if !config.without_validation || !held_out.is_empty() {
        return Ok(held_out);
    }
    let pairs = reverse_edge_types(meta, &config.reverse_types)?;
    let reverses = reverses_of_others(meta, &pairs);
    let forward: Vec<EdgeTypeId> = all.filter(|edge_type| !reverses.contains(edge_type)).collect();
    if forward.len() > 1 {
        // Without held-out edges, nothing tells the types to predict from those that only carry messages.
        let names: Vec<String> = forward.iter().map(|e| meta.edge_types[e.index()].full_name()).collect();
        return Err(TrainError::config(format!(
            "dataset {}: it has several edge types and no held-out edges, so that the types to predict must be named: \
             choose from {} (`edge_types`)",
            meta.dataset,
            names.join(", ")
        )));
    }
    Ok(forward)
}

/// Returns the edge types that are named as the reverse of another type, and the second types of declared pairs. Names tell the
/// direction of a pair that is declared as well, and of two pairs of the same types, the first one does. A type is no reverse of
/// itself here, so at least one type is left.
fn reverses_of_others(meta: &Meta, pairs: &[(EdgeTypeId, EdgeTypeId)]) -> BTreeSet<EdgeTypeId> {
    let mut reverses = BTreeSet::new();
    for (edge_type, edges) in (0..).map(EdgeTypeId).zip(&meta.edge_types) {
        let forward = edges.names().forward();
        if meta.edge_types.iter().any(|other| forward == Some(other.names())) {
            reverses.insert(edge_type);
        }
    }
    for (one, other) in pairs {
        if one != other && !reverses.contains(one) {
            reverses.insert(*other);
        }
    }
    reverses
}

/// Returns true for validation edges if one of the types has some, and for test edges likewise.
pub(super) fn held_out_of(meta: &Meta, edge_types: &[EdgeTypeId]) -> [bool; 2] {
    [0, 1].map(|at| edge_types.iter().any(|e| meta.edge_types[e.index()].held_out[at] > 0))
}

/// Returns the model that `config` describes for a graph.
///
/// # Errors
/// [`TrainError::Dataset`] or [`TrainError::Config`] if settings contradict the graph or each other.
pub fn link_model_config(meta: &Meta, config: &LinkTrainingConfig) -> Result<LinkModelConfig, TrainError> {
    let unfit = |source: ModelError| TrainError::Dataset { dataset: meta.dataset.clone(), source };
    if config.n3_weight > 0.0 && !config.decoder.has_n3() {
        return Err(TrainError::config(format!(
            "the N3 penalty is defined for products of source, relation and destination only, not for the decoder {}: \
             leave `n3_weight` out, or use dot, distmult or complex",
            config.decoder
        )));
    }
    if config.log_q_correction && !config.loss.is_sampled_softmax() {
        return Err(TrainError::config(format!(
            "the log-Q correction estimates a softmax over all nodes, which the loss {} does not compute: use \
             `loss=softmax`, or leave `log_q_correction` out",
            config.loss
        )));
    }
    if let Some(what) = useless_hard_negatives(config).or_else(|| useless_limit_of_given(config)) {
        return Err(TrainError::Config { what });
    }
    let graph = config.training.schema(meta).map_err(unfit)?;
    let model = LinkModelConfig { encoder: config.training.network(graph, Vec::new(), true), decoder: config.decoder };
    model.validate().map_err(unfit)?;
    Ok(model)
}

/// Returns the reason why the choice of hard negatives has no effect or chooses edges, if there is one.
fn useless_hard_negatives(config: &LinkTrainingConfig) -> Option<String> {
    let kept = config.hard_negatives?;
    if !config.shared_negatives && !config.exclude_positives {
        return Some(
            "drawn negatives may be training edges, which a good model scores highest, so that they would be the hard \
             negatives: add `exclude_positives`, or leave `hard_negatives` out"
                .into(),
        );
    }
    let num = config.num_negatives;
    if kept >= num && !config.in_batch_negatives {
        return Some(format!(
            "the {kept} hardest of {num} negatives are all of them: raise `num_negatives`, or lower `hard_negatives`"
        ));
    }
    None
}

/// Returns the reason why the limit of given negatives has no effect, if there is one.
fn useless_limit_of_given(config: &LinkTrainingConfig) -> Option<String> {
    let most = config.max_given_negatives?;
    let are_given =
        !config.train_negatives.is_empty() || config.negative_pairs.is_some() || config.ranked_negatives.is_some();
    if !are_given {
        return Some(
            "`max_given_negatives` has no effect without given negatives: add `train_negatives`, `negative_pairs` or \
             `ranked_negatives`, or leave it out"
                .into(),
        );
    }
    let num = config.num_negatives;
    (most >= num).then(|| {
        format!(
            "`max_given_negatives` {most} has no effect on {num} negatives per edge: raise `num_negatives`, or leave it out"
        )
    })
}

/// Returns the types of the sources and of the destinations of all predicted edge types, which listed negatives have.
///
/// # Errors
/// [`TrainError::Config`] for predicted types with different ends, and the errors of [`target_edge_types`].
pub fn negative_pair_types(meta: &Meta, config: &LinkTrainingConfig) -> Result<[NodeTypeId; 2], TrainError> {
    let mut found: Option<[&String; 2]> = None;
    for edge_type in target_edge_types(meta, config)? {
        let edges = &meta.edge_types[edge_type.index()];
        let ends = [&edges.src_type, &edges.dst_type];
        if found.is_some_and(|found| found != ends) {
            let what = "listed negatives (`negative_pairs`) have one source type and one destination type, but edge types with \
                        different ends are predicted: choose types with the same ends (`edge_types`)";
            return Err(TrainError::config(what));
        }
        found = Some(ends);
    }
    match found.map(|ends| ends.map(|name| meta.node_types.iter().position(|nodes| nodes.name == *name))) {
        Some([Some(src), Some(dst)]) => Ok([src, dst].map(|t| NodeTypeId(t as u16))),
        _ => Err(TrainError::config(
            "no edge type is predicted, so that listed negatives (`negative_pairs`) have no types",
        )),
    }
}

//! What link prediction trains, and on what.

use crate::models::{GraphSchema, LinkModelConfig, RelationalConfig};
use crate::nn::DecoderKind;
use crate::train_error::TrainError;
use crate::training_config::TrainingConfig;
use edgecut_dist_loader::NegativeSampling;
use edgecut_graph::{EdgeTypeId, Meta};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What link prediction trains, and by what it is judged.
#[derive(Clone, Debug)]
pub struct LinkTrainingConfig {
    /// The encoder, and how it is trained.
    pub training: TrainingConfig,
    /// How pairs are scored.
    pub decoder: DecoderKind,
    /// The negatives of training.
    pub negatives: NegativeSampling,
    /// True if the ends of a batch's edges are shared negatives too. An edge's own source, and destinations that an edge of
    /// the batch or its reverse joins its source to, are none of its negatives.
    pub in_batch_negatives: bool,
    /// How wrong scores are.
    pub loss: LinkLoss,
    /// Weight of the third powers of the rows of an edge's ends and of its relation (Lacroix, Usunier and Obozinski,
    /// "Canonical tensor decomposition for knowledge base completion", ICML 2018).
    pub n3_weight: f64,
    /// The edge types to predict, by name; all that have held-out edges if there is none.
    pub edge_types: Vec<String>,
    /// Pairs of edge types that are each other's reverse, by name, beside those that `rev_` tells.
    pub reverse_types: Vec<(String, String)>,
    /// What held-out edges are ranked among.
    pub evaluation: LinkEvaluation,
    /// What chooses the epoch.
    pub metric: LinkMetric,
}

/// How wrong scores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLoss {
    /// Binary cross entropy, the mean over an edge and its negatives.
    Bce,
    /// Cross entropy of choosing the edge among it and its negatives.
    Softmax,
}

/// What held-out edges are ranked among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkEvaluation {
    /// So many destinations each, none of them one of a known edge.
    Sampled(usize),
    /// All nodes of the destination's type but those of known edges.
    Filtered,
}

/// A measure of link prediction; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkMetric {
    /// The mean reciprocal rank.
    Mrr,
    /// The share of edges among the first ten.
    #[serde(rename = "hits@10")]
    HitsAt10,
    /// The area under the ROC curve of edges and sampled negatives.
    RocAuc,
}

impl fmt::Display for LinkMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mrr => "mrr",
            Self::HitsAt10 => "hits@10",
            Self::RocAuc => "roc-auc",
        })
    }
}

impl FromStr for LinkMetric {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "mrr" => Ok(Self::Mrr),
            "hits@10" => Ok(Self::HitsAt10),
            "roc-auc" => Ok(Self::RocAuc),
            _ => Err(format!("unknown metric {word:?}: expected mrr, hits@10 or roc-auc")),
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

/// The edge types that `config` names, or that have held-out edges.
///
/// # Errors
/// [`TrainError::Config`] for a name that no edge type has, or several have, and if nothing is held out to be judged by.
pub fn target_edge_types(meta: &Meta, config: &LinkTrainingConfig) -> Result<Vec<EdgeTypeId>, TrainError> {
    let fail = |what: String| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
    if config.metric == LinkMetric::RocAuc && config.evaluation == LinkEvaluation::Filtered {
        return fail(
            "the area under the ROC curve is of sampled negatives: say how many, or choose another metric".into(),
        );
    }
    let types: Vec<EdgeTypeId> = if config.edge_types.is_empty() {
        let held_out = |e: &usize| meta.edge_types[*e].held_out.iter().any(|&count| count > 0);
        (0..meta.edge_types.len()).filter(held_out).map(|e| EdgeTypeId(e as u16)).collect()
    } else {
        // One that is named twice is one.
        let named = config.edge_types.iter().map(|name| edge_type(meta, name)).collect::<Result<BTreeSet<_>, _>>()?;
        named.into_iter().collect()
    };
    if types.iter().all(|e| meta.edge_types[e.index()].held_out[0] == 0) {
        return fail(
            "no edges are held out for validation: partition it with --hold-out-edges, or give it validation and test edges"
                .into(),
        );
    }
    Ok(types)
}

/// The pairs of edge types that `config` declares as each other's reverse.
///
/// # Errors
/// [`TrainError::Config`] for a name that no edge type has, or several have.
pub(crate) fn reverse_edge_types(
    meta: &Meta,
    config: &LinkTrainingConfig,
) -> Result<Vec<(EdgeTypeId, EdgeTypeId)>, TrainError> {
    let pair = |(one, other): &(String, String)| Ok((edge_type(meta, one)?, edge_type(meta, other)?));
    config.reverse_types.iter().map(pair).collect()
}

/// The edge type of a name: `author__writes__paper`, or the relation alone where only one has it.
pub(crate) fn edge_type(meta: &Meta, name: &str) -> Result<EdgeTypeId, TrainError> {
    let all: Vec<String> =
        meta.edge_types.iter().map(|e| format!("{}__{}__{}", e.src_type, e.relation, e.dst_type)).collect();
    let found: Vec<usize> = match all.iter().position(|triple| triple == name) {
        Some(exact) => vec![exact],
        None => (0..all.len()).filter(|&e| meta.edge_types[e].relation == name).collect(),
    };
    match found[..] {
        [only] => Ok(EdgeTypeId(only as u16)),
        [] => {
            Err(TrainError::Config { what: format!("there is no edge type {name}: the graph has {}", all.join(", ")) })
        }
        _ => Err(TrainError::Config {
            what: format!("several edge types have the relation {name}: name one as {}", all[found[0]]),
        }),
    }
}

/// The model that `config` describes for a graph.
///
/// # Errors
/// [`TrainError::Config`] if settings fit neither the graph nor each other.
pub fn link_model_config(meta: &Meta, config: &LinkTrainingConfig) -> Result<LinkModelConfig, TrainError> {
    let fail = |what: String| TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) };
    let training = &config.training;
    let encoder = RelationalConfig {
        kind: training.kind,
        graph: GraphSchema::new(meta).map_err(|e| fail(e.to_string()))?,
        outputs: Vec::new(),
        hidden_channels: training.hidden_channels,
        num_layers: training.sampler.num_neighbors.num_hops(),
        relation_aggregation: training.relation_aggregation,
        residual: training.residual,
        layer_norm: training.layer_norm,
        dropout: training.dropout,
        input_dropout: training.input_dropout,
        normalize_features: training.normalize_features,
    };
    let model = LinkModelConfig { encoder, decoder: config.decoder };
    model.validate().map_err(|e| fail(e.to_string()))?;
    Ok(model)
}

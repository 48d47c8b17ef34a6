//! Convolutions over several edge types, each with its own weights.

use std::fmt;
use std::str::FromStr;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::aggregation::Aggregation;
use super::dense::Dense;
use super::gat_conv::{GatConv, GatConvConfig};
use super::incoming::Incoming;
use super::relation_weights::Decomposition;
use super::rgcn_conv::{RgcnConv, RgcnConvConfig};
use super::weight_init::WeightInit;
use crate::ops::{Activation, AttentionVersion, DropoutMask, GnnBackend};

/// How a destination combines what it hears over several edge types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationAggregation {
    /// The sum.
    #[default]
    Sum,
    /// The mean over all edge types into its node type, those without edges included.
    Mean,
}

impl fmt::Display for RelationAggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
        })
    }
}

/// A word that names no such aggregation.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown aggregation over edge types {0:?}: expected sum or mean")]
pub struct ParseRelationAggregationError(String);

impl FromStr for RelationAggregation {
    type Err = ParseRelationAggregationError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            _ => Err(ParseRelationAggregationError(word.to_owned())),
        }
    }
}

/// Which convolution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TypedConvKind {
    /// A SAGE layer's aggregation per edge type.
    Sage {
        /// How neighbors are combined.
        aggregation: Aggregation,
    },
    /// Attention per edge type.
    Gat {
        /// How edges are scored.
        version: AttentionVersion,
        /// Heads, side by side.
        heads: usize,
    },
    /// An R-GCN's.
    Rgcn {
        /// How the weights of edge types are kept few.
        decomposition: Decomposition,
    },
}

/// Settings of a [`TypedConv`]. All node types have rows of the same width.
#[derive(Debug, Clone)]
pub struct TypedConvConfig<'a> {
    /// Which convolution.
    pub kind: TypedConvKind,
    /// Source and destination type of each edge type.
    pub edge_types: &'a [(usize, usize)],
    /// Node types.
    pub num_node_types: usize,
    /// Columns in and out.
    pub channels: usize,
    /// How what edge types say is combined; an R-GCN sums.
    pub combine: RelationAggregation,
}

/// `out_i = combine_r message_r(i) + x_i W_self + b`, with weights per edge type, and `W_self` and `b` per node type that an
/// edge type enters. A message is the aggregated sources times `W_r` (the typed form of [`SageConv`](super::SageConv)), or
/// attention over them ([`GatConv`] without self edges). [`RgcnConv`] has one `W_0` and `b` for all.
#[derive(Module, Debug)]
pub struct TypedConv<B: Backend> {
    /// `W_r`, `[channels, channels]`, of a SAGE layer.
    pub weights: Vec<Param<Tensor<B, 2>>>,
    /// The attention of each edge type.
    pub attentions: Vec<GatConv<B>>,
    /// By node type; nothing for those that no edge type enters.
    pub own: Vec<Option<Dense<B>>>,
    /// An R-GCN's layer.
    pub rgcn: Option<RgcnConv<B>>,
    settings: Settings,
}

/// What of the settings is no tensor.
#[derive(Debug, Clone)]
struct Settings {
    aggregation: Aggregation,
    /// What the sum over edge types is multiplied by, by node type.
    scales: Vec<f64>,
}

impl TypedConvConfig<'_> {
    /// The layer; weights of SAGE as in [`SageConvConfig`](super::SageConvConfig), of the others Glorot-uniform.
    ///
    /// # Panics
    /// If heads or blocks do not divide the channels.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> TypedConv<B> {
        let (channels, relations) = (self.channels, self.edge_types.len());
        let bound = WeightInit::kaiming_bound(channels);
        let (mut weights, mut attentions, mut rgcn) = (Vec::new(), Vec::new(), None);
        let mut aggregation = Aggregation::Mean;
        match self.kind {
            TypedConvKind::Sage { aggregation: chosen } => {
                aggregation = chosen;
                weights = (0..relations).map(|_| init.uniform([channels, channels], bound, device)).collect();
            }
            TypedConvKind::Gat { version, heads } => {
                assert!(heads > 0 && channels.is_multiple_of(heads), "TypedConv: {heads} heads, {channels} channels");
                let layer = |&(src, dst): &(usize, usize)| {
                    GatConvConfig::new(channels, channels / heads, heads)
                        .with_dst_channels((src != dst).then_some(channels))
                        .with_version(version)
                        .with_self_edges(false)
                        .with_bias(false)
                        .init(init, device)
                };
                attentions = self.edge_types.iter().map(layer).collect();
            }
            TypedConvKind::Rgcn { decomposition } => {
                let config = RgcnConvConfig::new(relations, channels, channels).with_decomposition(decomposition);
                rgcn = Some(config.init(init, device));
            }
        }
        let entering = |node_type: usize| self.edge_types.iter().filter(|(_, dst)| *dst == node_type).count();
        let own = |node_type: usize| {
            (rgcn.is_none() && entering(node_type) > 0).then(|| Dense::new(channels, channels, init, device))
        };
        let own = (0..self.num_node_types).map(own).collect();
        let scale = |node_type: usize| match self.combine {
            RelationAggregation::Sum => 1.0,
            RelationAggregation::Mean => 1.0 / entering(node_type).max(1) as f64,
        };
        let settings = Settings { aggregation, scales: (0..self.num_node_types).map(scale).collect() };
        TypedConv { weights, attentions, own, rgcn, settings }
    }

    /// Parameters of the layer; `None` if they cannot be counted.
    pub fn num_parameters(&self) -> Option<usize> {
        let (channels, relations) = (self.channels, self.edge_types.len());
        let matrix = channels.checked_mul(channels)?;
        let dense = matrix.checked_add(channels)?;
        let entered = (0..self.num_node_types).filter(|&t| self.edge_types.iter().any(|&(_, dst)| dst == t)).count();
        let own = entered.checked_mul(dense)?;
        match self.kind {
            TypedConvKind::Sage { .. } => relations.checked_mul(matrix)?.checked_add(own),
            TypedConvKind::Gat { version, .. } => {
                let of_relation = |&(src, dst): &(usize, usize)| match version {
                    AttentionVersion::V1 if src == dst => matrix.checked_add(2 * channels),
                    AttentionVersion::V1 => matrix.checked_mul(2)?.checked_add(2 * channels),
                    AttentionVersion::V2 => matrix.checked_mul(2)?.checked_add(channels),
                };
                self.edge_types.iter().try_fold(own, |sum, ends| sum.checked_add(of_relation(ends)?))
            }
            TypedConvKind::Rgcn { decomposition } => {
                decomposition.num_parameters(relations, channels, channels)?.checked_add(dense)
            }
        }
    }
}

impl<B: GnnBackend> TypedConv<B> {
    /// Applies the layer to the destinations of one node type, with `dropout` of attention's weights. Edge types without
    /// edges cost nothing.
    ///
    /// # Shapes
    /// - `x_dst`: `[num_dst, channels]`
    /// - `x` of each edge type: `[num_src, channels]`
    /// - output: `[num_dst, channels]`
    ///
    /// # Panics
    /// If shapes are others, or there is no such edge type or node type.
    pub fn forward(
        &self,
        node_type: usize,
        x_dst: Tensor<B, 2>,
        incoming: &[Incoming<B>],
        dropout: DropoutMask,
    ) -> Tensor<B, 2> {
        if let Some(rgcn) = &self.rgcn {
            return rgcn.forward(x_dst, incoming);
        }
        let message = |edges: &Incoming<B>| match self.attentions.get(edges.relation) {
            Some(layer) => {
                let dropout = dropout.for_type(edges.relation as u64);
                layer.forward_between(edges.x.clone(), x_dst.clone(), &edges.block, dropout)
            }
            None => edges.message(self.weights[edges.relation].val(), &self.settings.aggregation.reduce()),
        };
        let messages = incoming.iter().filter(|edges| edges.has_edges()).map(message);
        let messages = messages.reduce(|sum, message| sum + message);
        let scale = self.settings.scales[node_type];
        let messages = messages.map(|sum| if scale == 1.0 { sum } else { sum.mul_scalar(scale) });
        let own = self.own[node_type].as_ref().map(|own| own.forward(x_dst.clone(), Activation::Identity));
        match (messages, own) {
            (Some(messages), Some(own)) => messages + own,
            (one, other) => one.or(other).unwrap_or_else(|| x_dst.zeros_like()),
        }
    }
}

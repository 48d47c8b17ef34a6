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
use crate::ops::{Activation, AttentionVersion, DropoutMask, GnnBackend, Precision};

/// The combination of the messages that a destination receives over several edge types.
///
/// ```
/// use edgecut_trainer::nn::RelationAggregation;
/// assert_eq!("mean".parse(), Ok(RelationAggregation::Mean));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationAggregation {
    /// The sum over edge types.
    #[default]
    Sum,
    /// The mean over all edge types into the destination's node type, including those without edges.
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

/// The error of parsing an unknown aggregation over edge types.
///
/// ```
/// use edgecut_trainer::nn::RelationAggregation;
/// let error = "max".parse::<RelationAggregation>().expect_err("an unknown aggregation");
/// assert_eq!(error.to_string(), "unknown aggregation over edge types \"max\": expected sum or mean");
/// ```
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

/// The kind of a [`TypedConv`].
///
/// ```
/// use edgecut_trainer::nn::{Decomposition, RelationAggregation, TypedConvConfig, TypedConvKind};
/// let config = TypedConvConfig {
///     kind: TypedConvKind::Rgcn { decomposition: Decomposition::Basis { num_bases: 2 } },
///     edge_types: &[(0, 1), (1, 1), (1, 0)],
///     num_node_types: 2,
///     channels: 8,
///     combine: RelationAggregation::Sum,
/// };
/// // Two basis matrices with a coefficient per edge type, and one matrix and bias for the nodes themselves.
/// assert_eq!(config.num_parameters(), Some(2 * (64 + 3) + 64 + 8));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TypedConvKind {
    /// The aggregation of a SAGE layer per edge type.
    Sage {
        /// Aggregation of the neighbors.
        aggregation: Aggregation,
    },
    /// Attention per edge type.
    Gat {
        /// Formula of the edges' scores.
        version: AttentionVersion,
        /// Number of heads, whose outputs are concatenated.
        heads: usize,
    },
    /// An R-GCN layer.
    Rgcn {
        /// Decomposition of the weights of edge types.
        decomposition: Decomposition,
    },
}

/// The settings of a [`TypedConv`]. The rows of all node types have the same width.
///
/// ```
/// use burn::backend::NdArray;
/// use edgecut_trainer::nn::{Aggregation, RelationAggregation, TypedConv, TypedConvConfig, TypedConvKind, WeightInit};
/// let config = TypedConvConfig {
///     kind: TypedConvKind::Sage { aggregation: Aggregation::Mean },
///     // From type 0 to type 1, and back.
///     edge_types: &[(0, 1), (1, 0)],
///     num_node_types: 2,
///     channels: 8,
///     combine: RelationAggregation::Sum,
/// };
/// let layer: TypedConv<NdArray> = config.init(&mut WeightInit::new(42), &Default::default());
/// assert_eq!(layer.weights.len(), 2);
/// // A matrix per edge type, and a dense layer per node type.
/// assert_eq!(config.num_parameters(), Some(2 * 64 + 2 * (64 + 8)));
/// ```
#[derive(Debug, Clone)]
pub struct TypedConvConfig<'a> {
    /// Kind of the layer.
    pub kind: TypedConvKind,
    /// Source and destination node type of each edge type.
    pub edge_types: &'a [(usize, usize)],
    /// Number of node types.
    pub num_node_types: usize,
    /// Input and output features of each node.
    pub channels: usize,
    /// Combination of the messages of edge types. An R-GCN always sums.
    pub combine: RelationAggregation,
}

/// A layer over several edge types, `out_i = combine_r message_r(i) + x_i W_self + b`.
///
/// A message is the aggregated sources times `W_r` (the typed form of [`SageConv`](super::SageConv)), or attention over
/// the sources ([`GatConv`] without self edges). Each edge type has its own weights. Each node type that is the
/// destination of an edge type has its own `W_self` and `b`; [`RgcnConv`] shares one `W_0` and `b` between all node
/// types.
///
/// ```
/// # use std::sync::Arc;
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::nn::{
///     Aggregation, Incoming, RelationAggregation, TypedConvConfig, TypedConvKind, WeightInit,
/// };
/// use edgecut_trainer::ops::{BatchGraph, Block, DropoutKey, DropoutMask};
/// let config = TypedConvConfig {
///     kind: TypedConvKind::Sage { aggregation: Aggregation::Mean },
///     edge_types: &[(0, 1)],
///     num_node_types: 2,
///     channels: 4,
///     combine: RelationAggregation::Sum,
/// };
/// let device = Default::default();
/// let layer = config.init::<Cpu>(&mut WeightInit::new(0), &device);
/// // A paper with two authors.
/// let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2], vec![0, 1], 2)?), 1, 2)?;
/// let writes = Incoming { relation: 0, x: Tensor::ones([2, 4], &device), block };
/// let no_dropout = DropoutMask::new(0.0, DropoutKey::new(0, 0, 0));
/// let papers = layer.forward(1, Tensor::ones([1, 4], &device), &[writes], no_dropout);
/// assert_eq!(papers.dims(), [1, 4]);
/// # Ok::<(), edgecut_trainer::ops::BlockError>(())
/// ```
#[derive(Module, Debug)]
pub struct TypedConv<B: Backend> {
    /// `W_r` of each edge type, `[channels, channels]`, of a SAGE layer.
    pub weights: Vec<Param<Tensor<B, 2>>>,
    /// The attention of each edge type, of a GAT layer.
    pub attentions: Vec<GatConv<B>>,
    /// `W_self` and `b` of each node type; `None` for node types that are not the destination of any edge type.
    pub own: Vec<Option<Dense<B>>>,
    /// The layer of an R-GCN.
    pub rgcn: Option<RgcnConv<B>>,
    settings: Settings,
}

/// The settings of a layer that are not tensors.
#[derive(Debug, Clone)]
struct Settings {
    aggregation: Aggregation,
    /// The factor of the sum over edge types, by node type.
    scales: Vec<f64>,
    precision: Precision,
}

impl TypedConvConfig<'_> {
    /// Makes the layer. A SAGE layer is initialised as by [`SageConvConfig`](super::SageConvConfig), the weights of the
    /// other kinds are Glorot-uniform.
    ///
    /// # Panics
    /// If heads or blocks do not divide the channels.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> TypedConv<B> {
        let channels = self.channels;
        let relations = self.edge_types.len();
        let bound = WeightInit::kaiming_bound(channels);
        let mut weights = Vec::new();
        let mut attentions = Vec::new();
        let mut rgcn = None;
        let mut aggregation = Aggregation::Mean;
        match self.kind {
            TypedConvKind::Sage { aggregation: chosen } => {
                aggregation = chosen;
                weights = (0..relations).map(|_| init.uniform([channels, channels], bound, device)).collect();
            }
            TypedConvKind::Gat { version, heads } => {
                assert!(
                    heads > 0 && channels.is_multiple_of(heads),
                    "TypedConv: {heads} heads do not divide {channels} channels"
                );
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
        let scales = (0..self.num_node_types).map(scale).collect();
        let settings = Settings { aggregation, scales, precision: Precision::default() };
        TypedConv { weights, attentions, own, rgcn, settings }
    }

    /// Returns the number of parameters of the layer, or `None` if it overflows.
    pub fn num_parameters(&self) -> Option<usize> {
        let channels = self.channels;
        let relations = self.edge_types.len();
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

impl<B: Backend> TypedConv<B> {
    /// Sets the type in which a GPU multiplies matrices for this layer. The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.settings.precision = precision;
        self.attentions.iter_mut().for_each(|layer| layer.set_precision(precision));
        self.own.iter_mut().flatten().for_each(|layer| layer.set_precision(precision));
        self.rgcn.iter_mut().for_each(|layer| layer.set_precision(precision));
    }
}

impl<B: GnnBackend> TypedConv<B> {
    /// Applies the layer to the destinations of one node type, with `dropout` of the attention weights. Edge types
    /// without edges are skipped.
    ///
    /// # Shapes
    /// - `x_dst`: `[num_dst, channels]`
    /// - `x` of each edge type: `[num_src, channels]`
    /// - output: `[num_dst, channels]`
    ///
    /// # Panics
    /// If a tensor has another shape, or if an edge type or the node type does not exist.
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
            None => {
                let weight = self.weights[edges.relation].val();
                edges.message(weight, &self.settings.aggregation.reduce(), self.settings.precision)
            }
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

//! Convolutions over several edge types, each with its own weights.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::registry::{AnyConv, ConvKind};
use super::relation_aggregation::RelationAggregation;
use super::{Conv, ConvInput, ConvRole, ConvShape, LayerPass, TypedConv, TypedConvInput};
use crate::nn::dense::Dense;
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend, Precision};

/// The size of a layer over several edge types. The rows of all node types have the same width.
#[derive(Debug, Clone)]
pub struct HeteroShape<'a> {
    /// Ends of each edge type, and the width of its features.
    pub edge_types: &'a [EdgeShape],
    /// Number of node types.
    pub num_node_types: usize,
    /// Input and output features of each node.
    pub channels: usize,
    /// Combination of the messages of edge types. A [`TypedConv`] has its own.
    pub combine: RelationAggregation,
}

/// An edge type of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeShape {
    /// Number of the node type of the sources.
    pub src: usize,
    /// Number of the node type of the destinations.
    pub dst: usize,
    /// Columns of the features of edges; 0 if there are none.
    pub edge_channels: usize,
}

/// A layer over several edge types, `out_i = combine_r message_r(i) + x_i W_self + b`, as PyG's `HeteroConv`.
///
/// A message is the output of a [`Conv`] over one edge type, with its own weights. Each node type that is the
/// destination of an edge type has its own `W_self` and `b`.
#[derive(Module, Debug)]
pub struct HeteroConv<B: Backend> {
    /// The convolution of each edge type.
    pub relations: Vec<AnyConv<B>>,
    /// `W_self` and `b` of each node type; `None` for node types that are not the destination of any edge type.
    pub own: Vec<Option<Dense<B>>>,
    settings: Settings,
}

/// The factor of the sum over edge types, by node type.
#[derive(Debug, Clone)]
struct Settings {
    scales: Vec<f64>,
}

impl<B: Backend> HeteroConv<B> {
    /// Returns the shape of the convolution over an edge type.
    pub fn shape_of(edges: EdgeShape, channels: usize) -> ConvShape {
        let EdgeShape { src, dst, edge_channels } = edges;
        let role = ConvRole::EdgeType { between_types: src != dst };
        ConvShape { in_channels: channels, out_channels: channels, edge_channels, role, batch_norm: false }
    }

    /// Makes the layer with a convolution of `kind` per edge type.
    pub(super) fn new(kind: ConvKind, shape: &HeteroShape<'_>, init: &mut WeightInit, device: &B::Device) -> Self {
        let &HeteroShape { edge_types, num_node_types, channels, combine } = shape;
        let mut relations = Vec::with_capacity(edge_types.len());
        let mut entering = vec![0_usize; num_node_types];
        for &edges in edge_types {
            entering[edges.dst] += 1;
            relations.push(kind.init(Self::shape_of(edges, channels), init, device));
        }
        let mut own = Vec::with_capacity(num_node_types);
        let mut scales = Vec::with_capacity(num_node_types);
        for count in entering {
            own.push(if count > 0 { Some(Dense::new(channels, channels, init, device)) } else { None });
            scales.push(match combine {
                RelationAggregation::Sum => 1.0,
                RelationAggregation::Mean => 1.0 / count.max(1) as f64,
            });
        }
        Self { relations, own, settings: Settings { scales } }
    }
}

impl<B: GnnBackend> TypedConv<B> for HeteroConv<B> {
    fn convolve(&self, input: TypedConvInput<'_, B>) -> Tensor<B, 2> {
        let TypedConvInput { node_type, x, num_dst, incoming, pass, activation } = input;
        let x_dst = prefix(x, num_dst);
        let mut messages: Option<Tensor<B, 2>> = None;
        for edges in incoming.iter().filter(|edges| edges.has_edges()) {
            let message = self.relations[edges.relation].convolve(ConvInput {
                x: edges.x.clone(),
                x_dst: Some(x_dst.clone()),
                block: &edges.block,
                edges: edges.edges.clone(),
                pass: LayerPass { edge_type: Some(edges.relation as u64), ..pass },
                activation: Activation::Identity,
            });
            messages = Some(match messages {
                Some(sum) => sum + message,
                None => message,
            });
        }
        let scale = self.settings.scales[node_type];
        if scale != 1.0 {
            messages = messages.map(|sum| sum.mul_scalar(scale));
        }
        let own = self.own[node_type].as_ref().map(|own| own.forward(x_dst.clone(), Activation::Identity));
        activation.apply(match (messages, own) {
            (Some(messages), Some(own)) => messages + own,
            (Some(rows), None) | (None, Some(rows)) => rows,
            (None, None) => x_dst.zeros_like(),
        })
    }

    fn set_precision(&mut self, precision: Precision) {
        for relation in &mut self.relations {
            relation.set_precision(precision);
        }
        for dense in self.own.iter_mut().flatten() {
            dense.set_precision(precision);
        }
    }
}

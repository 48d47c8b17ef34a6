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
///
/// ```
/// # use std::sync::Arc;
/// use burn::tensor::Tensor;
/// use edgecut_gnn::Cpu;
/// use edgecut_gnn::nn::Mode;
/// use edgecut_gnn::nn::{
///     ConvKind, EdgeData, EdgeShape, HeteroShape, Incoming, LayerPass, RelationAggregation, SageSettings, TypedConv, TypedConvInput,
///     WeightInit,
/// };
/// use edgecut_gnn::ops::{Activation, BatchGraph, Block};
/// let shape = HeteroShape {
///     edge_types: &[EdgeShape { src: 0, dst: 1, edge_channels: 0 }],
///     num_node_types: 2,
///     channels: 4,
///     combine: RelationAggregation::Sum,
/// };
/// let device = Default::default();
/// let layer = ConvKind::Sage(SageSettings::default()).init_typed::<Cpu>(&shape, &mut WeightInit::new(0), &device);
/// // A paper with two authors.
/// let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2], vec![0, 1], 2)?), 1, 2)?;
/// let writes = Incoming { relation: 0, x: Tensor::ones([2, 4], &device), block, edges: EdgeData::default() };
/// let pass = LayerPass::new(Mode::Eval, 0);
/// let x = Tensor::ones([1, 4], &device);
/// let activation = Activation::Identity;
/// let input = TypedConvInput { node_type: 1, x, num_dst: 1, incoming: &[writes], pass, activation };
/// assert_eq!(layer.convolve(input).dims(), [1, 4]);
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
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

impl<B: Backend> TypedConv<B> for HeteroConv<B> {
    fn convolve(&self, input: TypedConvInput<'_, B>) -> Tensor<B, 2>
    where
        B: GnnBackend,
    {
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

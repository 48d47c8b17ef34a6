//! The graph convolution of Morris et al.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::nn::conv::aggregation::Aggregation;
use crate::nn::conv::flags::{ConvFlag, FlagKind, FlagValues, ModelName};
use crate::nn::conv::{Conv, ConvInput, ConvRole, ConvSettings, ConvShape, EdgeFeatureUse, EdgeWeighting, PygLayer};
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, EdgeBlocks, GnnBackend, Linear, Precision, aggregate, linear};

/// The settings of a [`GraphConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphConvSettings {
    /// Aggregation of the neighbors. The paper sums.
    pub aggregation: Aggregation,
}

impl ConvSettings for GraphConvSettings {
    const NAME: &'static str = "graphconv";
    const MODELS: &'static [ModelName] = &[ModelName {
        name: "graphconv",
        help: "Graph convolution of Morris et al., which sums the neighbors: k-GNN for k = 1",
        preset: &[],
    }];
    const FLAGS: &'static [ConvFlag] = &[ConvFlag {
        name: "aggregation",
        help: "Neighbor aggregation of graphconv",
        kind: FlagKind::Word(&["mean", "sum", "max"]),
        default: Some("sum"),
    }];
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Read;
    const EDGE_BLOCKS: EdgeBlocks = EdgeBlocks::ToDestinations;

    fn edge_weighting(&self) -> EdgeWeighting {
        match self.aggregation {
            Aggregation::Mean => EdgeWeighting::Mean,
            Aggregation::Sum => EdgeWeighting::Sum,
            Aggregation::Max => EdgeWeighting::None,
        }
    }

    fn pyg(&self, shape: ConvShape) -> Option<PygLayer> {
        if shape.edge_channels > 0 {
            return None;
        }
        let mut arguments = FlagValues::new();
        arguments.insert("in_channels".into(), shape.in_channels.into());
        arguments.insert("out_channels".into(), shape.out_channels.into());
        arguments.insert("aggr".into(), self.aggregation.to_string().into());
        Some(match shape.role {
            ConvRole::Hidden | ConvRole::Output => PygLayer {
                class: "GraphConv",
                arguments,
                tensors: vec![
                    ("weight_neighbors", "lin_rel.weight"),
                    ("bias", "lin_rel.bias"),
                    ("weight_root", "lin_root.weight"),
                ],
            },
            // PyG's `GraphConv` always has a root weight, and without it, the formulas are equal.
            ConvRole::EdgeType { .. } => {
                arguments.insert("root_weight".into(), false.into());
                arguments.insert("bias".into(), false.into());
                PygLayer { class: "SAGEConv", arguments, tensors: vec![("weight_neighbors", "lin_l.weight")] }
            }
        })
    }
}

/// A graph convolution, `out = activation(W_neighbors · aggregated + W_root · x + b)` (Morris et al., "Weisfeiler and
/// Leman go neural: higher-order graph neural networks", AAAI 2019), as PyG's `GraphConv`. With features of edges, it
/// aggregates the concatenated rows of neighbors and edges.
#[derive(Module, Debug)]
pub struct GraphConv<B: Backend> {
    /// Weights for the aggregated neighbors, `[in_channels, out_channels]`; PyG's `lin_rel.weight`, transposed.
    pub weight_neighbors: Param<Tensor<B, 2>>,
    /// Weights for the node itself, `[in_channels, out_channels]`; PyG's `lin_root.weight`, transposed. `None` for the
    /// messages of an edge type.
    pub weight_root: Option<Param<Tensor<B, 2>>>,
    /// `[out_channels]`; PyG's `lin_rel.bias`. `None` for the messages of an edge type.
    pub bias: Option<Param<Tensor<B, 1>>>,
    /// Weights for the aggregated features of edges, `[edge_channels, out_channels]`. `None` without edge features.
    pub weight_edge: Option<Param<Tensor<B, 2>>>,
    aggregation: Aggregation,
    precision: Precision,
}

impl GraphConvSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> GraphConv<B> {
        let ConvShape { in_channels, out_channels, edge_channels, role, .. } = shape;
        let is_layer = !matches!(role, ConvRole::EdgeType { .. });
        let bound = WeightInit::kaiming_bound(in_channels);
        let of_both = WeightInit::kaiming_bound(in_channels.saturating_add(edge_channels));
        GraphConv {
            weight_neighbors: init.uniform([in_channels, out_channels], of_both, device),
            weight_root: is_layer.then(|| init.uniform([in_channels, out_channels], bound, device)),
            bias: is_layer.then(|| init.uniform([out_channels], of_both, device)),
            weight_edge: (edge_channels > 0).then(|| init.uniform([edge_channels, out_channels], of_both, device)),
            aggregation: self.aggregation,
            precision: Precision::default(),
        }
    }
}

impl<B: GnnBackend> Conv<B> for GraphConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, x_dst, block, edges, activation, .. } = input;
        let product = Linear { activation: Activation::Identity, precision: self.precision };
        let bias = self.bias.as_ref().map(Param::val);
        let plain = self.aggregation.reduce();
        let aggregated = aggregate(x.clone(), block, &edges.reduce(plain.clone()));
        let mut output = linear(aggregated, self.weight_neighbors.val(), bias, product);
        if let Some(weight) = &self.weight_edge {
            output = output + edges.aggregated_features(block, &plain, weight, self.precision);
        }
        if let Some(weight) = &self.weight_root {
            let own = x_dst.unwrap_or_else(|| prefix(x, block.num_dst()));
            output = output + linear(own, weight.val(), None, product);
        }
        activation.apply(output)
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }
}

//! The layer of GraphSAGE.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::nn::conv::aggregation::Aggregation;
use crate::nn::conv::flags::{ConvFlag, FlagKind, ModelName};
use crate::nn::conv::order::Order;
use crate::nn::conv::{Conv, ConvInput, ConvRole, ConvSettings, ConvShape, EdgeData, EdgeFeatureUse, EdgeWeighting};
use crate::nn::weight_init::WeightInit;
use crate::ops::{
    Activation, Block, EdgeBlocks, GnnBackend, Linear, Precision, Reduce, aggregate, aggregate_with_self, linear,
};

/// The settings of GraphSAGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SageSettings {
    /// Aggregation of the neighbors.
    pub aggregation: Aggregation,
}

impl ConvSettings for SageSettings {
    const NAME: &'static str = "sage";
    const MODELS: &'static [ModelName] = &[ModelName { name: "sage", help: "GraphSAGE", preset: &[] }];
    const FLAGS: &'static [ConvFlag] = &[ConvFlag {
        name: "aggregation",
        help: "Neighbor aggregation of sage",
        kind: FlagKind::Word(&["mean", "sum", "max"]),
        default: Some("mean"),
    }];
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Read;
    const EDGE_BLOCKS: EdgeBlocks = EdgeBlocks::ToDestinations;

    fn edge_weighting(&self) -> EdgeWeighting {
        match self.aggregation {
            Aggregation::Mean => EdgeWeighting::WeightedMean,
            Aggregation::Sum => EdgeWeighting::Sum,
            Aggregation::Max => EdgeWeighting::None,
        }
    }
}

impl SageSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> SageConv<B> {
        let is_message = matches!(shape.role, ConvRole::EdgeType { .. });
        SageConvConfig::new(shape.in_channels, shape.out_channels)
            .with_aggregation(self.aggregation)
            .with_bias(!is_message)
            .with_root_weight(!is_message)
            .with_edge_channels(shape.edge_channels)
            .init(init, device)
    }
}

/// The settings of a [`SageConv`] as a layer of its own.
#[derive(Config, Debug)]
pub struct SageConvConfig {
    /// Features of each source.
    pub in_channels: usize,
    /// Features of each destination.
    pub out_channels: usize,
    /// Aggregation of the neighbors.
    #[config(default = "Aggregation::Mean")]
    pub aggregation: Aggregation,
    /// True to add a bias to the output.
    #[config(default = true)]
    pub bias: bool,
    /// True to add the node's own row times `W_self`.
    #[config(default = true)]
    pub root_weight: bool,
    /// Features of each edge. 0 for edges without features.
    #[config(default = 0)]
    pub edge_channels: usize,
}

/// A GraphSAGE layer, `out = activation(aggregated · W_neighbors + x[:num_dst] · W_self + b)` (Hamilton, Ying and
/// Leskovec, "Inductive representation learning on large graphs", NeurIPS 2017), as PyG's `SAGEConv` without
/// normalisation of the output. With features of edges, it aggregates the concatenated rows of neighbors and edges, so
/// that the aggregated features of edges times `W_edge` are added.
#[derive(Module, Debug)]
pub struct SageConv<B: Backend> {
    /// Weights for the aggregated neighbors, `[in_channels, out_channels]`; PyG's `lin_l.weight`, transposed.
    pub weight_neighbors: Param<Tensor<B, 2>>,
    /// Weights for the node itself, `[in_channels, out_channels]`; PyG's `lin_r.weight`, transposed. `None` for the
    /// messages of an edge type.
    pub weight_self: Option<Param<Tensor<B, 2>>>,
    /// `[out_channels]`; PyG's `lin_l.bias`.
    pub bias: Option<Param<Tensor<B, 1>>>,
    /// Weights for the aggregated features of edges, `[edge_channels, out_channels]`. `None` without edge features.
    pub weight_edge: Option<Param<Tensor<B, 2>>>,
    aggregation: Aggregation,
    precision: Precision,
}

impl SageConvConfig {
    /// Makes the layer with weights and bias uniform in `±1 / sqrt(in_channels)`, as PyTorch and PyG initialise them.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> SageConv<B> {
        let shape = [self.in_channels, self.out_channels];
        let of_edges = [self.edge_channels, self.out_channels];
        // The weights of neighbors and edges form a linear layer over their concatenated rows.
        let bound = WeightInit::kaiming_bound(self.in_channels);
        let of_both = WeightInit::kaiming_bound(self.in_channels.saturating_add(self.edge_channels));
        SageConv {
            weight_neighbors: init.uniform(shape, of_both, device),
            weight_self: self.root_weight.then(|| init.uniform(shape, bound, device)),
            bias: self.bias.then(|| init.uniform([self.out_channels], of_both, device)),
            weight_edge: (self.edge_channels > 0).then(|| init.uniform(of_edges, of_both, device)),
            aggregation: self.aggregation,
            precision: Precision::default(),
        }
    }
}

impl<B: GnnBackend> Conv<B> for SageConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, block, edges, activation, .. } = input;
        let [fan_in, fan_out] = self.weight_neighbors.dims();
        let order = self.order(block, fan_in, fan_out);
        self.forward_over(x, block, &edges, activation, order)
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }
}

impl<B: GnnBackend> SageConv<B> {
    /// Applies the layer and `activation` in the order that costs less for this block.
    ///
    /// # Shapes
    /// - `x`: `[num_src, in_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If `x` has another shape, or if the block has more destinations than sources.
    pub fn forward(&self, x: Tensor<B, 2>, block: &Block, activation: Activation) -> Tensor<B, 2> {
        let [fan_in, fan_out] = self.weight_neighbors.dims();
        self.forward_in_order(x, block, activation, self.order(block, fan_in, fan_out))
    }

    /// Applies the layer in a given order. A maximum does not commute with the weights, so it is always aggregated
    /// first.
    ///
    /// # Shapes
    /// Those of [`SageConv::forward`].
    ///
    /// # Panics
    /// In the cases of [`SageConv::forward`].
    pub fn forward_in_order(
        &self,
        x: Tensor<B, 2>,
        block: &Block,
        activation: Activation,
        order: Order,
    ) -> Tensor<B, 2> {
        self.forward_over(x, block, &EdgeData::default(), activation, order)
    }

    fn order(&self, block: &Block, fan_in: usize, fan_out: usize) -> Order {
        if self.aggregation.is_linear() { Order::choose(block, fan_in, fan_out) } else { Order::AggregateFirst }
    }

    /// Applies the layer over the values of edges.
    fn forward_over(
        &self,
        x: Tensor<B, 2>,
        block: &Block,
        edges: &EdgeData<B>,
        activation: Activation,
        order: Order,
    ) -> Tensor<B, 2> {
        let plain = self.aggregation.reduce();
        let Some(weight) = &self.weight_edge else {
            return self.forward_rows(x, block, &edges.reduce(plain), activation, order);
        };
        let of_edges = edges.aggregated_features(block, &plain, weight, self.precision);
        let of_rows = self.forward_rows(x, block, &edges.reduce(plain), Activation::Identity, order);
        activation.apply(of_rows + of_edges)
    }

    /// Applies the layer to the rows of nodes alone.
    fn forward_rows(
        &self,
        x: Tensor<B, 2>,
        block: &Block,
        reduce: &Reduce,
        activation: Activation,
        order: Order,
    ) -> Tensor<B, 2> {
        let [fan_in, _] = self.weight_neighbors.dims();
        let weight_neighbors = self.weight_neighbors.val();
        let weight_self = self.weight_self.as_ref().map(Param::val);
        let bias = self.bias.as_ref().map(Param::val);
        let product = Linear { activation: Activation::Identity, precision: self.precision };
        let fused = Linear { activation, precision: self.precision };
        let transforms_first = order == Order::TransformFirst && self.aggregation.is_linear();
        match (weight_self, transforms_first) {
            (Some(weight_self), true) => {
                let own = x.clone().slice([0..block.num_dst(), 0..fan_in]);
                let own = linear(own, weight_self, bias, product);
                activation.apply(aggregate(linear(x, weight_neighbors, None, product), block, reduce) + own)
            }
            (Some(weight_self), false) => {
                // One product instead of two: [aggregated | own] · [W_neighbors; W_self].
                let weight = Tensor::cat(vec![weight_neighbors, weight_self], 0);
                linear(aggregate_with_self(x, block, reduce), weight, bias, fused)
            }
            (None, true) => {
                let neighbors = aggregate(linear(x, weight_neighbors, None, product), block, reduce);
                activation.apply(match bias {
                    Some(bias) => neighbors + bias.unsqueeze(),
                    None => neighbors,
                })
            }
            (None, false) => linear(aggregate(x, block, reduce), weight_neighbors, bias, fused),
        }
    }
}

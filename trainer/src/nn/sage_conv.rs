//! The layer of GraphSAGE.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::aggregation::Aggregation;
use super::order::Order;
use super::weight_init::WeightInit;
use crate::ops::{Activation, Block, GnnBackend, aggregate, aggregate_with_self, linear};

/// The settings of a [`SageConv`].
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
}

/// A GraphSAGE layer, `out = activation(aggregated · W_neighbors + x[:num_dst] · W_self + b)` (Hamilton, Ying and
/// Leskovec, "Inductive representation learning on large graphs", NeurIPS 2017), as PyG's `SAGEConv` without
/// normalisation of the output.
#[derive(Module, Debug)]
pub struct SageConv<B: Backend> {
    /// Weights for the aggregated neighbors, `[in_channels, out_channels]`; PyG's `lin_l.weight`, transposed.
    pub weight_neighbors: Param<Tensor<B, 2>>,
    /// Weights for the node itself, `[in_channels, out_channels]`; PyG's `lin_r.weight`, transposed.
    pub weight_self: Param<Tensor<B, 2>>,
    /// `[out_channels]`; PyG's `lin_l.bias`.
    pub bias: Option<Param<Tensor<B, 1>>>,
    aggregation: Aggregation,
}

impl SageConvConfig {
    /// Makes the layer with weights and bias uniform in `±1 / sqrt(in_channels)`, as PyTorch and PyG initialise them.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> SageConv<B> {
        let shape = [self.in_channels, self.out_channels];
        let bound = WeightInit::kaiming_bound(self.in_channels);
        SageConv {
            weight_neighbors: init.uniform(shape, bound, device),
            weight_self: init.uniform(shape, bound, device),
            bias: self.bias.then(|| init.uniform([self.out_channels], bound, device)),
            aggregation: self.aggregation,
        }
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
        let order =
            if self.aggregation.is_linear() { Order::choose(block, fan_in, fan_out) } else { Order::AggregateFirst };
        self.forward_in_order(x, block, activation, order)
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
        let reduce = self.aggregation.reduce();
        let [fan_in, _] = self.weight_neighbors.dims();
        let weight_neighbors = self.weight_neighbors.val();
        let weight_self = self.weight_self.val();
        let bias = self.bias.as_ref().map(Param::val);
        if order == Order::TransformFirst && self.aggregation.is_linear() {
            let own = x.clone().slice([0..block.num_dst(), 0..fan_in]);
            let own = linear(own, weight_self, bias, Activation::Identity);
            let neighbors = linear(x, weight_neighbors, None, Activation::Identity);
            activation.apply(aggregate(neighbors, block, &reduce) + own)
        } else {
            // One product instead of two: [aggregated | own] · [W_neighbors; W_self].
            let weight = Tensor::cat(vec![weight_neighbors, weight_self], 0);
            linear(aggregate_with_self(x, block, &reduce), weight, bias, activation)
        }
    }
}

//! The input of a layer from one edge type.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::order::Order;
use crate::ops::{Activation, Block, GnnBackend, Reduce, aggregate, linear};

/// The edges of one type into the destinations of a layer, with the rows of their sources.
#[derive(Debug, Clone)]
pub struct Incoming<B: Backend> {
    /// The number of the edge type.
    pub relation: usize,
    /// The rows of the sources, `[num_src, in_channels]`.
    pub x: Tensor<B, 2>,
    /// The edges.
    pub block: Block,
}

impl<B: Backend> Incoming<B> {
    /// Returns whether there is at least one edge. Layers skip edge types without edges.
    pub fn has_edges(&self) -> bool {
        self.block.num_edges() > 0
    }
}

impl<B: GnnBackend> Incoming<B> {
    /// Computes the aggregated sources times `weight`, in the order that costs less.
    ///
    /// # Shapes
    /// - `weight`: `[in_channels, out_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn message(&self, weight: Tensor<B, 2>, reduce: &Reduce) -> Tensor<B, 2> {
        let [fan_in, fan_out] = weight.dims();
        let commutes = !matches!(reduce, Reduce::Max);
        let x = self.x.clone();
        let block = &self.block;
        if commutes && Order::choose(block, fan_in, fan_out) == Order::TransformFirst {
            aggregate(linear(x, weight, None, Activation::Identity), block, reduce)
        } else {
            linear(aggregate(x, block, reduce), weight, None, Activation::Identity)
        }
    }
}

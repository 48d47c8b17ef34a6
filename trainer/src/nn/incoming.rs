//! What a node type hears from one edge type.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::order::Order;
use crate::ops::{Activation, Block, GnnBackend, Reduce, aggregate, linear};

/// The edges of one type into the destinations of a layer, and the rows of their sources.
#[derive(Debug, Clone)]
pub struct Incoming<B: Backend> {
    /// The edge type's number.
    pub relation: usize,
    /// `[num_src, in_channels]`.
    pub x: Tensor<B, 2>,
    /// The edges.
    pub block: Block,
}

impl<B: Backend> Incoming<B> {
    /// Whether there is an edge; an edge type without any says nothing.
    pub fn has_edges(&self) -> bool {
        self.block.num_edges() > 0
    }
}

impl<B: GnnBackend> Incoming<B> {
    /// The aggregated sources times `weight`, in the order that costs less.
    ///
    /// # Shapes
    /// - `weight`: `[in_channels, out_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If shapes do not fit each other.
    pub fn message(&self, weight: Tensor<B, 2>, reduce: &Reduce) -> Tensor<B, 2> {
        let [fan_in, fan_out] = weight.dims();
        let commutes = !matches!(reduce, Reduce::Max);
        let (x, block) = (self.x.clone(), &self.block);
        if commutes && Order::choose(block, fan_in, fan_out) == Order::TransformFirst {
            aggregate(linear(x, weight, None, Activation::Identity), block, reduce)
        } else {
            linear(aggregate(x, block, reduce), weight, None, Activation::Identity)
        }
    }
}

//! The input of a layer from one edge type.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::EdgeData;
use super::order::Order;
use crate::ops::{Activation, Block, GnnBackend, Linear, Precision, Reduce, aggregate, linear};

/// The edges of one type into the destinations of a layer, with the rows of their sources.
#[derive(Debug, Clone)]
pub struct Incoming<B: Backend> {
    /// The number of the edge type.
    pub relation: usize,
    /// The rows of the sources, `[num_src, in_channels]`.
    pub x: Tensor<B, 2>,
    /// The edges.
    pub block: Block,
    /// The values of the edges.
    pub edges: EdgeData<B>,
}

impl<B: Backend> Incoming<B> {
    /// Returns whether there is at least one edge. Layers skip edge types without edges.
    pub(super) fn has_edges(&self) -> bool {
        self.block.num_edges() > 0
    }
}

impl<B: GnnBackend> Incoming<B> {
    /// Computes the aggregated sources times `weight`, in the order that costs less. A GPU multiplies in `precision`.
    ///
    /// # Shapes
    /// - `weight`: `[in_channels, out_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(super) fn message(&self, weight: Tensor<B, 2>, reduce: &Reduce, precision: Precision) -> Tensor<B, 2> {
        let [fan_in, fan_out] = weight.dims();
        let commutes = !matches!(reduce, Reduce::Max);
        let x = self.x.clone();
        let block = &self.block;
        let reduce = &self.edges.reduce(reduce.clone());
        let product = Linear { activation: Activation::Identity, precision };
        if commutes && Order::choose(block, fan_in, fan_out) == Order::TransformFirst {
            aggregate(linear(x, weight, None, product), block, reduce)
        } else {
            linear(aggregate(x, block, reduce), weight, None, product)
        }
    }
}

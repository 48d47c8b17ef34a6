//! Whether a layer multiplies by its weights before or after it aggregates.

use crate::ops::Block;

/// Multiply-adds of a matrix product that cost as much as one feature of one edge.
///
/// A matrix product works from cache, an edge is a row from anywhere in memory.
const EDGE_FEATURE_COST: u64 = 16;

/// The two orders of a layer whose aggregation is linear. They compute the same function up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Aggregate `in_channels` wide, multiply at the destinations.
    AggregateFirst,
    /// Multiply at all sources, aggregate `out_channels` wide: for wide inputs on blocks with about as many destinations
    /// as sources, such as whole graphs.
    TransformFirst,
}

impl Order {
    /// The order with less estimated work:
    /// aggregating first costs `edges * in + dst * in * out`, transforming first `src * in * out + edges * out`, an
    /// edge's feature weighing as much as some multiply-adds.
    ///
    /// It depends on the block's size alone, so a batch has one result on every machine.
    pub fn choose(block: &Block, in_channels: usize, out_channels: usize) -> Self {
        let edges = EDGE_FEATURE_COST.saturating_mul(block.num_edges() as u64);
        let (fan_in, fan_out) = (in_channels as u64, out_channels as u64);
        let product = |rows: usize| (rows as u64).saturating_mul(fan_in).saturating_mul(fan_out);
        let aggregate_first = edges.saturating_mul(fan_in).saturating_add(product(block.num_dst()));
        let transform_first = edges.saturating_mul(fan_out).saturating_add(product(block.num_src()));
        if transform_first < aggregate_first { Self::TransformFirst } else { Self::AggregateFirst }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ops::{BatchGraph, BlockError};

    #[test]
    fn sampled_blocks_aggregate_first_and_wide_whole_graphs_transform_first() -> Result<(), BlockError> {
        // Ten destinations with ten neighbors each, all different.
        let graph = BatchGraph::new((0..=10).map(|row| 10 * row).collect(), (10..110).collect(), 110)?;
        let sampled = Block::new(Arc::new(graph), 10, 110)?;
        assert_eq!(Order::choose(&sampled, 100, 256), Order::AggregateFirst);
        assert_eq!(Order::choose(&sampled, 256, 47), Order::AggregateFirst);
        let whole = BatchGraph::new((0..=100).map(|row| 4 * row).collect(), (0..400).map(|e| e % 100).collect(), 100)?;
        let whole = Block::new(Arc::new(whole), 100, 100)?;
        assert_eq!(Order::choose(&whole, 1433, 16), Order::TransformFirst);
        assert_eq!(Order::choose(&whole, 16, 1433), Order::AggregateFirst);
        Ok(())
    }
}

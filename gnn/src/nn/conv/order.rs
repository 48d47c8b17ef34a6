//! The order of aggregation and multiplication by the weights in a layer.

use crate::ops::Block;

/// The number of multiply-adds of a matrix product that cost as much as aggregating one feature of one edge.
///
/// A matrix product reads from the cache, an edge reads a row from anywhere in memory.
const EDGE_FEATURE_COST: u64 = 16;

/// The two orders of a layer whose aggregation is linear. They compute the same function up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Aggregate `in_channels` columns, then multiply the rows of the destinations.
    AggregateFirst,
    /// Multiply the rows of all sources, then aggregate `out_channels` columns. It is cheaper for wide inputs if a
    /// block has about as many destinations as sources, such as a whole graph.
    TransformFirst,
}

impl Order {
    /// Returns the order with less estimated work.
    ///
    /// With `c` the cost of one feature of one edge (16 multiply-adds), aggregating first costs
    /// `c * edges * in + dst * in * out` and transforming first costs `src * in * out + c * edges * out`.
    ///
    /// The choice depends on the size of the block only, so a batch has the same result on every machine.
    pub fn choose(block: &Block, in_channels: usize, out_channels: usize) -> Self {
        let edges = EDGE_FEATURE_COST.saturating_mul(block.num_edges() as u64);
        let fan_in = in_channels as u64;
        let fan_out = out_channels as u64;
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
        // Ten destinations with ten distinct neighbors each.
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

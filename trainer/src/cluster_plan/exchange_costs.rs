//! The CPU time of exchanges between processes.

use super::profile_meter::{cpu_seconds, mean_over_ranks};
use crate::error::TrainError;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistGraph, NodeFields, SampleError};
use edgecut_graph::{NodeTypeId, NodeTypeMeta};
use std::sync::Arc;

/// The number of requests for one row.
const REQUESTS: u32 = 200;
/// The number of requests for many rows, and the rows of each.
const FETCHES: u32 = 16;
const ROWS: u32 = 4096;
/// The number of all-reduces.
const ALL_REDUCES: u32 = 8;

/// The CPU time of exchanges, in seconds over all ranks that take part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExchangeCosts {
    /// A request without data.
    pub(super) request: f64,
    /// A feature row of another part, beyond the time of one of the own part.
    pub(super) remote_row: f64,
    /// A rank's part of an all-reduce of the gradients.
    pub(super) all_reduce: f64,
}

impl ExchangeCosts {
    /// Measures the costs between the ranks of this job. Every rank must call this.
    pub(super) fn measure(
        graph: &Arc<DistGraph>,
        num_gradients: usize,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let mut gradients = vec![0.0_f32; num_gradients];
        let all_reduce = cpu_of(ALL_REDUCES, world, |_, world| {
            world.all_reduce(&mut gradients, ReduceOp::Sum)?;
            Ok(())
        })?;
        let mut costs = Self { all_reduce, ..Self::default() };
        let rows = SpacedRows::of(graph);
        // All ranks measure, or none.
        let mut lacking = [u64::from(rows.num_remote == 0)];
        world.all_reduce(&mut lacking, ReduceOp::Sum)?;
        if lacking[0] > 0 {
            return Ok(costs);
        }
        costs.request = cpu_of(REQUESTS, world, |turn, _| Ok(rows.fetch(rows.remote(1, turn))?))?;
        let before = graph.traffic().count().requests;
        let remote = cpu_of(FETCHES, world, |turn, _| Ok(rows.fetch(rows.remote(ROWS, turn))?))?;
        let requests = (graph.traffic().count().requests - before) as f64 / f64::from(FETCHES);
        let own = cpu_of(FETCHES, world, |turn, _| Ok(rows.fetch(rows.own(ROWS, turn))?))?;
        let num_remote = rows.remote(ROWS, 0).len() as f64;
        let num_own = rows.own(ROWS, 0).len().max(1) as f64;
        // The noise of a small graph must not make rows of other parts cheaper than others.
        costs.remote_row = ((remote - requests * costs.request) / num_remote - own / num_own).max(0.0);
        Ok(costs)
    }
}

/// Runs `work` for each of `turns` turns on all ranks at the same time. Returns the mean CPU time of a turn of a rank, with
/// the work for other ranks.
fn cpu_of(
    turns: u32,
    world: &mut ProcessGroup,
    mut work: impl FnMut(u32, &mut ProcessGroup) -> Result<(), TrainError>,
) -> Result<f64, TrainError> {
    world.barrier()?;
    let start = cpu_seconds();
    for turn in 0..turns {
        work(turn, world)?;
    }
    // Until then this rank answers requests of the others.
    world.barrier()?;
    mean_over_ranks((cpu_seconds() - start) / f64::from(turns), world)
}

/// Rows of a node type at equal distances, so that they are not in the processor's cache.
struct SpacedRows<'a> {
    graph: &'a Arc<DistGraph>,
    node_type: NodeTypeId,
    wanted: NodeFields,
    num_remote: u32,
}

impl<'a> SpacedRows<'a> {
    /// Chooses the node type with the most bytes of features, or if there are no features, the ids of the largest type.
    fn of(graph: &'a Arc<DistGraph>) -> Self {
        let node_types = &graph.part().meta().node_types;
        let largest = node_types.iter().enumerate().max_by_key(|(_, t)| (all_feature_bytes(t), t.book.num_nodes()));
        let (index, of_type) = largest.expect("a graph has a node type");
        let node_type = NodeTypeId(index as u16);
        let has_features = of_type.feature_dim > 0;
        Self {
            graph,
            node_type,
            wanted: NodeFields { features: has_features, original_ids: !has_features, ..NodeFields::default() },
            num_remote: of_type.book.num_nodes() as u32 - graph.part().owned(node_type).len() as u32,
        }
    }

    /// Returns up to `count` nodes of other parts, other ones in each turn if there are enough.
    fn remote(&self, count: u32, turn: u32) -> Vec<u32> {
        let owned = self.graph.part().owned(self.node_type);
        let mut nodes = spaced(self.num_remote, count, turn);
        for node in &mut nodes {
            if *node >= owned.start {
                *node += owned.len() as u32;
            }
        }
        nodes
    }

    /// Returns up to `count` nodes of the own part.
    fn own(&self, count: u32, turn: u32) -> Vec<u32> {
        let owned = self.graph.part().owned(self.node_type);
        let mut nodes = spaced(owned.len() as u32, count, turn);
        for node in &mut nodes {
            *node += owned.start;
        }
        nodes
    }

    fn fetch(&self, nodes: Vec<u32>) -> Result<(), SampleError> {
        self.graph.handle().block_on(self.graph.fetch(self.node_type, nodes, self.wanted)).map(drop)
    }
}

fn all_feature_bytes(of_type: &NodeTypeMeta) -> usize {
    of_type.book.num_nodes() * of_type.feature_bytes()
}

/// Returns `count` distinct numbers below `len` at equal distances, or all numbers if there are fewer.
fn spaced(len: u32, count: u32, turn: u32) -> Vec<u32> {
    let count = count.min(len);
    let distance = len / count.max(1);
    (0..count).map(|k| k * distance + turn % distance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaced_numbers_are_distinct_and_change() {
        assert_eq!(spaced(10, 3, 0), [0, 3, 6]);
        assert_eq!(spaced(10, 3, 5), [2, 5, 8]);
        assert_eq!(spaced(3, 9, 1), [0, 1, 2]);
        assert_eq!(spaced(0, 9, 1), [0; 0]);
    }
}

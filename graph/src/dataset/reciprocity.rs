//! The question whether the edges of a graph have their reverses.

use super::{Dataset, directions::pack};
use crate::parallel;
use std::collections::HashSet;

/// The number of edges whose reverses are searched for.
const SAMPLE: usize = 1000;

/// The number of sampled edges, and how many of them have their reverses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reciprocity {
    /// The sampled edges between different nodes.
    pub num_sampled: usize,
    /// The sampled edges whose reverses are edges of the graph.
    pub num_reciprocal: usize,
}

impl Reciprocity {
    /// Returns true if fewer than 10 % of the edges have their reverses, which suggests that messages should flow both ways
    /// but do not. In social networks whose edges have a direction, more of them do.
    pub fn is_one_way(self) -> bool {
        10 * self.num_reciprocal < self.num_sampled
    }
}

impl Dataset {
    /// Searches for the reverses of a sample of the edges. Returns `None` for a graph with several edge types, in which direction has a meaning, and for a
    /// graph without edges between different nodes.
    ///
    /// ```
    /// # use edgecut_graph::{Dataset, NodeData};
    /// # let nodes = NodeData { name: "node".into(), num_nodes: 3, ..NodeData::default() };
    /// let mut graph = Dataset::homogeneous("path", nodes, vec![0, 1].into(), vec![1, 2].into());
    /// assert!(graph.reciprocity().is_some_and(|found| found.is_one_way()));
    /// graph.to_undirected();
    /// assert!(graph.reciprocity().is_some_and(|found| !found.is_one_way()));
    /// ```
    pub fn reciprocity(&self) -> Option<Reciprocity> {
        let [edges] = &self.edge_types[..] else { return None };
        if edges.src_type != edges.dst_type {
            return None;
        }
        let num_edges = edges.src.len();
        let step = (num_edges / SAMPLE).max(1);
        let sampled = (0..num_edges).step_by(step).map(|at| (edges.src[at], edges.dst[at]));
        let reverses: HashSet<u64> = sampled.filter(|(src, dst)| src != dst).map(|(src, dst)| pack(dst, src)).collect();
        if reverses.is_empty() {
            return None;
        }
        let found = parallel::filter_map(num_edges, |at| {
            let key = pack(edges.src[at], edges.dst[at]);
            reverses.contains(&key).then_some(key)
        });
        // Parallel edges are the reverse of one edge.
        let found: HashSet<u64> = found.into_iter().collect();
        Some(Reciprocity { num_sampled: reverses.len(), num_reciprocal: found.len() })
    }
}

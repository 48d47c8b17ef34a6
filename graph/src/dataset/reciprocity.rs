//! The question whether the edges of a graph have their reverses.

use super::{Dataset, directions::pack};
use crate::parallel;
use std::collections::HashSet;

/// The number of edges whose reverses are searched for.
const SAMPLE: usize = 1000;

impl Dataset {
    /// Returns the number of sampled edges if none of them has its reverse, which suggests that messages should flow both
    /// ways but do not. Returns `None` for a graph with several edge types, in which direction has a meaning, and for a
    /// graph without edges between different nodes.
    ///
    /// ```
    /// # use edgecut_graph::{Dataset, NodeData};
    /// # let nodes = NodeData {
    /// #     name: "node".into(),
    /// #     num_nodes: 3,
    /// #     ..NodeData::default()
    /// # };
    /// let mut graph = Dataset::homogeneous("path", nodes, vec![0, 1].into(), vec![1, 2].into());
    /// assert_eq!(graph.edges_without_reverse(), Some(2));
    /// graph.to_undirected();
    /// assert_eq!(graph.edges_without_reverse(), None);
    /// ```
    pub fn edges_without_reverse(&self) -> Option<usize> {
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
        found.is_empty().then_some(reverses.len())
    }
}

//! The known edges of sources to the nodes that a rank ranks.

use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use rayon::prelude::*;

/// The known edges of an edge type, training and held-out, from listed sources to a rank's candidates. They take 8 bytes
/// each. A part stores edges with their destination, so a rank finds those of its candidates without asking others.
pub(super) struct KnownEdges {
    /// The source as a global id, and the position of the destination among the candidates, as one sortable number.
    /// Ascending and distinct.
    edges: Vec<u64>,
}

impl KnownEdges {
    /// No known edges.
    pub(super) fn none() -> Self {
        Self { edges: Vec::new() }
    }

    /// Finds the known edges of sources, which are global ids in ascending order; `None` for all sources. The candidates
    /// are those of [`candidates`].
    pub(super) fn find(node: &DistGraph, edge_type: EdgeTypeId, sources: Option<&[u32]>) -> Self {
        let part = node.part();
        let of_type = part.edges(edge_type);
        let first = part.owned(of_type.dst_type).start;
        let (sharers, mine) = node.replicas();
        let is_listed = |src: &u32| sources.is_none_or(|sources| sources.binary_search(src).is_ok());
        let position = |row: u32| {
            let row = row as usize;
            (row % sharers == mine).then_some((row / sharers) as u32)
        };
        let mut edges = Vec::new();
        for row in 0..of_type.csc.num_rows() {
            let Some(at) = position(row as u32) else { continue };
            edges.extend(of_type.csc.neighbors(row).iter().filter(|src| is_listed(src)).map(|&src| key(src, at)));
        }
        for list in [&of_type.held_out.valid, &of_type.held_out.test] {
            let pairs = list.src.iter().zip(&list.dst[..]).filter(|(src, _)| is_listed(src));
            edges.extend(pairs.filter_map(|(&src, &dst)| Some(key(src, position(dst - first)?))));
        }
        edges.par_sort_unstable();
        edges.dedup();
        Self { edges }
    }

    /// Returns the positions of the candidates to which edges of a source are known, from position `start`, ascending.
    pub(super) fn of_source(&self, source: u32, start: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.edges.partition_point(|&edge| edge < key(source, start));
        let of_source = self.edges[first..].iter().take_while(move |&&edge| (edge >> 32) as u32 == source);
        of_source.map(|&edge| edge as u32)
    }
}

fn key(source: u32, position: u32) -> u64 {
    u64::from(source) << 32 | u64::from(position)
}

/// Returns the global ids of the nodes of a type that this rank ranks, ascending. They are nodes of its own part. Ranks that
/// share a part take its nodes in turn.
pub(crate) fn candidates(node: &DistGraph, node_type: NodeTypeId) -> Vec<u32> {
    let (sharers, mine) = node.replicas();
    node.part().owned(node_type).skip(mine).step_by(sharers).collect()
}

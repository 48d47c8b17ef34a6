//! The known edges of sources to the nodes that a rank ranks.

use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Split};
use rayon::prelude::*;

/// The edges whose destinations are left out of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExcludedEdges {
    /// No edges.
    None,
    /// Training edges.
    Train,
    /// Training edges and held-out edges.
    All,
}

/// The known edges of an edge type, from listed sources to a rank's candidates. They take 8 bytes
/// each. A part stores edges with their destination, so a rank finds the edges of its candidates without asking others.
pub(super) struct KnownEdges {
    /// The source as a global id, and the position of the destination among the candidates, as one sortable number.
    /// Ascending and distinct.
    edges: Vec<u64>,
}

impl KnownEdges {
    /// Finds the excluded edges of sources, which are global ids in ascending order; `None` for all sources. The candidates
    /// come from [`candidates`].
    pub(super) fn find(
        graph: &DistGraph,
        edge_type: EdgeTypeId,
        excluded: ExcludedEdges,
        sources: Option<&[u32]>,
    ) -> Self {
        let (train, held_out) = match excluded {
            ExcludedEdges::None => (false, false),
            ExcludedEdges::Train => (true, false),
            ExcludedEdges::All => (true, true),
        };
        let lists = if held_out { &[Split::Valid, Split::Test][..] } else { &[] };
        Self::of(graph, edge_type, train, lists, sources)
    }

    /// Finds the held-out test edges of all sources.
    pub(super) fn test(graph: &DistGraph, edge_type: EdgeTypeId) -> Self {
        Self::of(graph, edge_type, false, &[Split::Test], None)
    }

    fn of(graph: &DistGraph, edge_type: EdgeTypeId, train: bool, held_out: &[Split], sources: Option<&[u32]>) -> Self {
        let part = graph.part();
        let of_type = part.edges(edge_type);
        let first = part.owned(of_type.dst_type).start;
        let (sharers, mine) = graph.replicas();
        let is_listed = |src: &u32| sources.is_none_or(|sources| sources.binary_search(src).is_ok());
        let position = |row: u32| {
            let row = row as usize;
            (row % sharers == mine).then_some((row / sharers) as u32)
        };
        let mut edges = Vec::new();
        for row in 0..if train { of_type.csc.num_rows() } else { 0 } {
            let Some(at) = position(row as u32) else { continue };
            edges.extend(of_type.csc.neighbors(row).iter().filter(|src| is_listed(src)).map(|&src| key(src, at)));
        }
        for split in held_out {
            let list = if *split == Split::Test { &of_type.held_out.test } else { &of_type.held_out.valid };
            let pairs = list.src.iter().zip(&list.dst[..]).filter(|(src, _)| is_listed(src));
            edges.extend(pairs.filter_map(|(&src, &dst)| Some(key(src, position(dst - first)?))));
        }
        edges.par_sort_unstable();
        edges.dedup();
        Self { edges }
    }

    /// Returns whether there is no edge.
    pub(super) fn is_empty(&self) -> bool {
        self.edges.is_empty()
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
pub(crate) fn candidates(graph: &DistGraph, node_type: NodeTypeId) -> Vec<u32> {
    let (sharers, mine) = graph.replicas();
    graph.part().owned(node_type).skip(mine).step_by(sharers).collect()
}

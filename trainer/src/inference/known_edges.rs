//! The known edges of sources to the nodes that a rank ranks.

use crate::error::TrainError;
use crate::gather::all_gather_records;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeList, EdgeTypeId, NodeTypeId, Split};
use rayon::prelude::*;

/// The bytes of a pair of ids.
const PAIR_BYTES: usize = 2 * size_of::<u32>();

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

/// The edges that are found.
struct Wanted<'a> {
    /// True for the training edges.
    train: bool,
    held_out: &'a [Split],
    /// See [`KnownEdges::find`].
    sources: Option<&'a [u32]>,
}

impl KnownEdges {
    /// Finds the excluded edges of sources, which are global ids in ascending order; `None` for all sources. The candidates
    /// come from [`candidates`]. Every rank must call this.
    pub(super) fn find(
        graph: &DistGraph,
        edge_type: EdgeTypeId,
        excluded: ExcludedEdges,
        sources: Option<&[u32]>,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let (train, held_out) = match excluded {
            ExcludedEdges::None => (false, &[][..]),
            ExcludedEdges::Train => (true, &[][..]),
            ExcludedEdges::All => (true, &[Split::Valid, Split::Test][..]),
        };
        Self::of(graph, edge_type, Wanted { train, held_out, sources }, world)
    }

    /// Finds the held-out edges of a split of all sources. Every rank must call this.
    pub(super) fn held_out(
        graph: &DistGraph,
        edge_type: EdgeTypeId,
        split: Split,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        Self::of(graph, edge_type, Wanted { train: false, held_out: &[split], sources: None }, world)
    }

    fn of(
        graph: &DistGraph,
        edge_type: EdgeTypeId,
        wanted: Wanted<'_>,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let Wanted { train, held_out, sources } = wanted;
        let part = graph.part();
        let of_type = part.edges(edge_type);
        let owned = part.owned(of_type.dst_type);
        let first = owned.start;
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
            let list = list_of(graph, edge_type, *split);
            let pairs = list.src.iter().zip(&list.dst[..]).filter(|(src, _)| is_listed(src));
            edges.extend(pairs.filter_map(|(&src, &dst)| Some(key(src, position(dst - first)?))));
        }
        for_each_reverse(graph, edge_type, held_out, world, |src, dst| {
            if owned.contains(&dst) && is_listed(&src) {
                edges.extend(position(dst - first).map(|at| key(src, at)));
            }
        })?;
        edges.par_sort_unstable();
        edges.dedup();
        Ok(Self { edges })
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

/// Calls `visit` with the sources and destinations of the reverses of held-out edges of all parts, in global ids, if the edges
/// of the type are undirected. Every rank must call this.
pub(crate) fn for_each_reverse(
    graph: &DistGraph,
    edge_type: EdgeTypeId,
    held_out: &[Split],
    world: &mut ProcessGroup,
    mut visit: impl FnMut(u32, u32),
) -> Result<(), TrainError> {
    if held_out.is_empty() || !graph.part().meta().is_undirected(edge_type) {
        return Ok(());
    }
    let mut reverses = Vec::new();
    // Only the first of the ranks that share a part sends its edges.
    if graph.holds_first_copy() {
        for split in held_out {
            let list = list_of(graph, edge_type, *split);
            reverses.extend(list.src.iter().zip(&list.dst[..]).flat_map(|(&src, &dst)| [dst, src]));
        }
    }
    all_gather_records(world, bytemuck::cast_slice(&reverses), PAIR_BYTES, |theirs| {
        let theirs = bytemuck::pod_collect_to_vec::<u8, u32>(theirs);
        theirs.chunks_exact(2).for_each(|pair| visit(pair[0], pair[1]));
    })?;
    Ok(())
}

/// Returns the held-out edges of a type in this rank's part, of validation or test.
fn list_of(graph: &DistGraph, edge_type: EdgeTypeId, split: Split) -> &EdgeList {
    let held_out = &graph.part().edges(edge_type).held_out;
    if split == Split::Test { &held_out.test } else { &held_out.valid }
}

/// Returns the global ids of the nodes of a type that this rank ranks, ascending. They are nodes of its own part. Ranks that
/// share a part take its nodes in turn.
pub(crate) fn candidates(graph: &DistGraph, node_type: NodeTypeId) -> Vec<u32> {
    let (sharers, mine) = graph.replicas();
    graph.part().owned(node_type).skip(mine).step_by(sharers).collect()
}

//! The original ids of the sources of a part's edges, and which of them are parallel.

use crate::cache::node_set::NodeSet;
use crate::part::local_part::LocalPart;
use edgecut_graph::{Csc, EdgeTypeId, NodeTypeId, Part};
use rayon::prelude::*;
use std::ops::Range;

/// Rows per parallel task.
const ROWS_PER_TASK: usize = 1024;

/// By edge type, the sources of the edges.
///
/// The edges of a part name their sources by global ids. Layer-neighbor sampling needs the original id of every in-neighbor
/// of a node, most of which it does not draw, so these ids are kept in the order of the edges: 4 bytes per edge, and
/// 4 more for types with parallel edges.
pub(crate) type SourceIds = Vec<EdgeSources>;

/// The sources of the edges of a type, in the order of the edges.
#[derive(Default)]
pub(crate) struct EdgeSources {
    /// The original ids of the sources. Empty for types whose global ids are original ids.
    originals: Vec<u32>,
    /// See [`Sources::copies`].
    copies: Vec<u32>,
}

/// The sources of all edges of a type, or of the edges of one node.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// The original ids of the sources.
    pub(crate) originals: &'a [u32],
    /// The number of edges before each edge that have the same source and destination. Empty without parallel edges.
    pub(crate) copies: &'a [u32],
}

impl<'a> Sources<'a> {
    /// Returns the sources of a range of edges.
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        let copies = if self.copies.is_empty() { self.copies } else { &self.copies[range.clone()] };
        Self { originals: &self.originals[range], copies }
    }

    /// Returns the number by which random numbers distinguish an edge of a node: the original id of its source, and its
    /// place among parallel edges. Each of these must be drawn as often as other edges.
    #[inline]
    pub(crate) fn number(self, at: u32) -> u64 {
        let copy = self.copies.get(at as usize).map_or(0, |&copy| u64::from(copy));
        copy << u32::BITS | u64::from(self.originals[at as usize])
    }
}

impl LocalPart {
    /// Returns the sources of the edges of a type, or `None` before they are set.
    pub(crate) fn sources_of(&self, edge_type: EdgeTypeId) -> Option<Sources<'_>> {
        let known = &self.source_ids.get()?[edge_type.index()];
        let edges = self.part.edges(edge_type);
        let has_original_order = self.part.has_original_order(edges.src_type);
        let originals = if has_original_order { edges.csc.indices() } else { &known.originals };
        Some(Sources { originals, copies: &known.copies })
    }

    /// Returns whether the sources of edges are known.
    pub(crate) fn knows_sources(&self) -> bool {
        self.source_ids.get().is_some()
    }
}

/// Finds the parallel edges of all types.
pub(crate) fn find_parallel(part: &Part) -> SourceIds {
    let copies = part.edge_type_ids().map(|edge_type| copies_of(&part.edges(edge_type).csc));
    copies.map(|copies| EdgeSources { copies, ..EdgeSources::default() }).collect()
}

/// Returns the number of edges before each edge that have the same source and destination. Empty if no edge has any.
pub(crate) fn copies_of(csc: &Csc) -> Vec<u32> {
    let rows: Vec<usize> = (0..csc.num_rows()).collect();
    let found: Vec<(usize, u32)> = rows.par_chunks(ROWS_PER_TASK).flat_map_iter(|rows| copies_in(csc, rows)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let mut copies = vec![0; csc.num_edges()];
    for (edge, copy) in found {
        copies[edge] = copy;
    }
    copies
}

/// Returns the edges of some rows that have parallel edges before them, and their numbers.
fn copies_in(csc: &Csc, rows: &[usize]) -> Vec<(usize, u32)> {
    let mut copies = Vec::new();
    let mut by_source: Vec<(u32, u32)> = Vec::new();
    for &row in rows {
        by_source.clear();
        by_source.extend(csc.neighbors(row).iter().copied().zip(0..));
        by_source.sort_unstable();
        let start = csc.indptr()[row] as usize;
        for parallel in by_source.chunk_by(|first, second| first.0 == second.0) {
            copies.extend((1..).zip(&parallel[1..]).map(|(copy, &(_, at))| (start + at as usize, copy)));
        }
    }
    copies
}

/// Returns the edge types whose sources have a type.
fn edge_types_from(part: &Part, node_type: NodeTypeId) -> impl Iterator<Item = EdgeTypeId> {
    part.edge_type_ids().filter(move |&edge_type| part.edges(edge_type).src_type == node_type)
}

/// Returns the distinct sources of all edges from nodes of a type, ascending.
pub(crate) fn distinct_sources(part: &Part, node_type: NodeTypeId) -> Vec<u32> {
    let num_nodes = part.meta().node_types[node_type.index()].book.num_nodes();
    let mut is_source = vec![0_u64; num_nodes.div_ceil(u64::BITS as usize)];
    for edge_type in edge_types_from(part, node_type) {
        for &source in part.edges(edge_type).csc.indices() {
            is_source[(source / u64::BITS) as usize] |= 1 << (source % u64::BITS);
        }
    }
    let mut sources = Vec::with_capacity(is_source.iter().map(|word| word.count_ones() as usize).sum());
    for (word, mut bits) in is_source.into_iter().enumerate() {
        while bits != 0 {
            sources.push(word as u32 * u64::BITS + bits.trailing_zeros());
            // Clears the lowest set bit.
            bits &= bits - 1;
        }
    }
    sources
}

/// Fills in the source ids of all edges from nodes of a type. `sources` are the distinct sources, and `originals` their
/// original ids.
pub(crate) fn spread(part: &Part, node_type: NodeTypeId, sources: &[u32], originals: &[u32], all: &mut SourceIds) {
    let num_nodes = part.meta().node_types[node_type.index()].book.num_nodes();
    let set = NodeSet::new(sources, num_nodes);
    for edge_type in edge_types_from(part, node_type) {
        let slots = part.edges(edge_type).csc.indices().par_iter().map(|&source| set.slot(source));
        let ids = slots.map(|slot| slot.map_or(u32::MAX, |slot| originals[slot as usize]));
        all[edge_type.index()].originals = ids.collect();
    }
}

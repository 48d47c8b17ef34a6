//! The original ids of the sources of a part's edges.

use crate::cache::node_set::NodeSet;
use crate::part::local_part::LocalPart;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part};
use rayon::prelude::*;

/// By edge type, the original id of the source of each edge. Empty for types whose global ids are original ids.
///
/// The edges of a part name their sources by global ids. Layer-neighbor sampling needs the original id of every in-neighbor
/// of a node, most of which it does not draw, so these ids are kept in the order of the edges: 4 bytes per edge.
pub(crate) type SourceIds = Vec<Vec<u32>>;

impl LocalPart {
    /// Returns the original id of the source of each edge of a type, or `None` before they are set.
    pub(crate) fn sources_of(&self, edge_type: EdgeTypeId) -> Option<&[u32]> {
        let edges = self.part.edges(edge_type);
        if self.part.has_original_order(edges.src_type) {
            return Some(edges.csc.indices());
        }
        self.source_ids.get().map(|ids| &ids[edge_type.index()][..])
    }

    /// Returns whether the sources of all edges have known original ids.
    pub(crate) fn knows_sources(&self) -> bool {
        self.part.edge_type_ids().all(|edge_type| self.sources_of(edge_type).is_some())
    }
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
pub(crate) fn spread(
    part: &Part,
    node_type: NodeTypeId,
    sources: &[u32],
    originals: &[u32],
    mut all: SourceIds,
) -> SourceIds {
    let num_nodes = part.meta().node_types[node_type.index()].book.num_nodes();
    let set = NodeSet::new(sources, num_nodes);
    for edge_type in edge_types_from(part, node_type) {
        let slots = part.edges(edge_type).csc.indices().par_iter().map(|&source| set.slot(source));
        all[edge_type.index()] = slots.map(|slot| slot.map_or(u32::MAX, |slot| originals[slot as usize])).collect();
    }
    all
}

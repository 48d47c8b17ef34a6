//! In-edges in the new numbering.

use crate::grouping::{Groups, Pairs};
use crate::measure::EdgeSlice;
use crate::renumber::Renumbering;
use edgecut_graph::EdgeData;

/// All in-edges of one edge type: rows are global ids of destinations, so that each part's rows are contiguous; values
/// are global ids of sources, in the order of the original edge list.
pub(crate) struct InEdges {
    groups: Groups,
    src_type: usize,
    dst_type: usize,
}

impl InEdges {
    pub(crate) fn new(edges: &EdgeData, types: &[Renumbering]) -> Self {
        let (src_type, dst_type) = (edges.src_type.index(), edges.dst_type.index());
        let renumbered = Renumbered { edges, src: &types[src_type].new, dst: &types[dst_type].new };
        Self { groups: Groups::new(types[dst_type].new.len(), &renumbered), src_type, dst_type }
    }

    /// The rows that `part` owns.
    pub(crate) fn of_part(&self, part: u32, types: &[Renumbering]) -> EdgeSlice<'_> {
        let rows = types[self.dst_type].range(part);
        let indptr = &self.groups.offsets[rows.start..=rows.end];
        let indices = &self.groups.values[indptr[0] as usize..indptr[indptr.len() - 1] as usize];
        EdgeSlice { src_type: self.src_type, dst_type: self.dst_type, indptr, indices }
    }
}

struct Renumbered<'a> {
    edges: &'a EdgeData,
    src: &'a [u32],
    dst: &'a [u32],
}

impl Pairs for Renumbered<'_> {
    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        for (&src, &dst) in self.edges.src.iter().zip(&self.edges.dst[..]) {
            visit(self.dst[dst as usize], self.src[src as usize]);
        }
    }
}

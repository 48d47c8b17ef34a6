//! In-edges, in the original numbering and in the new one.

use crate::grouping::{Groups, Pairs};
use crate::measure::EdgeSlice;
use crate::renumber::Renumbering;
use edgecut_graph::EdgeData;

/// All in-edges of one edge type. Rows are original ids of destinations; values are original ids of sources, in the
/// order of the original edge list.
pub(crate) struct InEdges {
    pub(crate) relation: String,
    pub(crate) src_type: usize,
    pub(crate) dst_type: usize,
    pub(crate) rows: Groups,
}

impl InEdges {
    /// Groups the edges of a type with `num_rows` destinations.
    pub(crate) fn new(edges: EdgeData, num_rows: usize) -> Self {
        let rows = Groups::new(num_rows, &edges);
        let (src_type, dst_type) = (edges.src_type.index(), edges.dst_type.index());
        Self { relation: edges.relation, src_type, dst_type, rows }
    }

    pub(crate) fn num_edges(&self) -> usize {
        self.rows.values.len()
    }

    /// The same edges in the new numbering of node types.
    pub(crate) fn renumber(&self, types: &[Renumbering]) -> RenumberedInEdges {
        let (new, original) = (&types[self.src_type].new, &types[self.dst_type].original);
        let mut ends = Vec::with_capacity(original.len() + 1);
        ends.push(0);
        let mut end = 0;
        for &id in original {
            end += self.rows.row_len(id as usize);
            ends.push(end);
        }
        let fill = |row: usize, room: &mut [u32]| {
            let sources = self.rows.row(original[row] as usize);
            room.iter_mut().zip(sources).for_each(|(global, &id)| *global = new[id as usize]);
            room.len()
        };
        let rows = Groups::from_rows(ends, fill);
        RenumberedInEdges { src_type: self.src_type, dst_type: self.dst_type, rows }
    }
}

impl Pairs for EdgeData {
    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        self.src.iter().zip(&self.dst[..]).for_each(|(&src, &dst)| visit(dst, src));
    }
}

/// All in-edges of one edge type. Rows are global ids of destinations, so that each part's rows are contiguous; values
/// are global ids of sources, in the order of the original edge list.
pub(crate) struct RenumberedInEdges {
    src_type: usize,
    dst_type: usize,
    rows: Groups,
}

impl RenumberedInEdges {
    /// The rows that `part` owns.
    pub(crate) fn of_part(&self, part: u32, types: &[Renumbering]) -> EdgeSlice<'_> {
        let rows = types[self.dst_type].range(part);
        let indptr = &self.rows.offsets[rows.start..=rows.end];
        let indices = &self.rows.values[indptr[0] as usize..indptr[indptr.len() - 1] as usize];
        EdgeSlice { src_type: self.src_type, dst_type: self.dst_type, indptr, indices }
    }
}

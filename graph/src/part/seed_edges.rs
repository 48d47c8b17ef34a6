//! The edges of a part as seeds of batches.

use super::Part;
use crate::EdgeTypeId;
use crate::dataset::{EdgeList, Split};

/// The ends of a seed edge, in global ids, and its time, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedEdgeEnds {
    /// The source.
    pub src: u32,
    /// The destination.
    pub dst: u32,
    /// The time.
    pub time: Option<i64>,
}

impl Part {
    /// Returns the number of edges of a type into the nodes of this part: the edges that carry messages for
    /// [`Split::Train`], the held-out edges for the other splits.
    pub fn num_seed_edges(&self, edge_type: EdgeTypeId, split: Split) -> usize {
        let held_out = self.held_out(edge_type, split);
        held_out.map_or_else(|| self.edges(edge_type).csc.num_edges(), |list| list.src.len())
    }

    /// Returns the edge at a position, which must be below [`Part::num_seed_edges`].
    pub fn seed_edge(&self, edge_type: EdgeTypeId, split: Split, position: usize) -> SeedEdgeEnds {
        if let Some(list) = self.held_out(edge_type, split) {
            let time = list.times.as_ref().map(|times| times[position]);
            return SeedEdgeEnds { src: list.src[position], dst: list.dst[position], time };
        }
        let edges = self.edges(edge_type);
        // The destination of an in-edge is the row whose range of in-edges contains it.
        let row = edges.csc.indptr().partition_point(|&end| end <= position as u64) - 1;
        let dst = self.owned(edges.dst_type).start + row as u32;
        let time = edges.attributes.times.as_ref().map(|times| times[position]);
        SeedEdgeEnds { src: edges.csc.indices()[position], dst, time }
    }

    fn held_out(&self, edge_type: EdgeTypeId, split: Split) -> Option<&EdgeList> {
        let held_out = &self.edges(edge_type).held_out;
        match split {
            Split::Train => None,
            Split::Valid => Some(&held_out.valid),
            Split::Test => Some(&held_out.test),
        }
    }
}

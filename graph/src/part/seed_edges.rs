//! The edges of a part as seeds of batches.

use super::Part;
use crate::EdgeTypeId;
use crate::dataset::{EdgeList, GivenNegatives, Split};
use serde::{Deserialize, Serialize};

/// The ends of a seed edge, in global ids, its time, if it has one, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedEdgeEnds {
    /// The source.
    pub src: u32,
    /// The destination.
    pub dst: u32,
    /// The time.
    pub time: Option<i64>,
    /// The position among the in-edges of the destination. `None` for a held-out edge and for a negative.
    pub position: Option<u32>,
}

/// The edges of a type that can be seeds together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeedEdgeSet {
    /// Edges of link prediction: for [`Split::Train`] all edges that carry messages, for the other splits the held-out
    /// edges.
    Links(Split),
    /// The edges of a split with labels. They carry messages.
    Labeled(Split),
    /// The given negatives of the held-out edges of a split: the negatives of each edge, edge by edge, at the time of the
    /// edge, or the pairs that all edges share, which have no time.
    Negatives(Split),
}

impl Part {
    /// Returns the number of edges of a type and a set into the nodes of this part.
    pub fn num_seed_edges(&self, edge_type: EdgeTypeId, set: SeedEdgeSet) -> usize {
        match set {
            SeedEdgeSet::Links(split) => {
                let held_out = self.held_out(edge_type, split);
                held_out.map_or_else(|| self.edges(edge_type).csc.num_edges(), |list| list.src.len())
            }
            SeedEdgeSet::Labeled(split) => self.edges(edge_type).split_index.len(split),
            SeedEdgeSet::Negatives(split) => {
                let negatives = self.held_out(edge_type, split).and_then(|list| list.negatives.as_ref());
                negatives.map_or(0, GivenNegatives::num_pairs)
            }
        }
    }

    /// Returns the edge of a set at a position, which must be below [`Part::num_seed_edges`].
    pub fn seed_edge(&self, edge_type: EdgeTypeId, set: SeedEdgeSet, position: usize) -> SeedEdgeEnds {
        let edges = self.edges(edge_type);
        let position = match (set, &edges.attributes.labels) {
            (SeedEdgeSet::Links(split), _) => {
                if let Some(list) = self.held_out(edge_type, split) {
                    let time = list.times.as_ref().map(|times| times[position]);
                    return SeedEdgeEnds { src: list.src[position], dst: list.dst[position], time, position: None };
                }
                position
            }
            (SeedEdgeSet::Labeled(split), Some(labels)) => edges.split_index.position(labels, split, position),
            (SeedEdgeSet::Negatives(split), _) => {
                if let Some(list) = self.held_out(edge_type, split)
                    && let Some(negatives) = &list.negatives
                {
                    return negative(list, negatives, position);
                }
                position
            }
            // Without labels, the set is empty, and no position is below its size.
            (SeedEdgeSet::Labeled(_), None) => position,
        };
        // The destination of an in-edge is the row whose range of in-edges contains it.
        let row = edges.csc.indptr().partition_point(|&end| end <= position as u64) - 1;
        let dst = self.owned(edges.dst_type).start + row as u32;
        let time = edges.attributes.times.as_ref().map(|times| times[position]);
        let among = position as u64 - edges.csc.indptr()[row];
        SeedEdgeEnds { src: edges.csc.indices()[position], dst, time, position: Some(among as u32) }
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

/// Returns a given negative of held-out edges.
fn negative(list: &EdgeList, negatives: &GivenNegatives, position: usize) -> SeedEdgeEnds {
    match negatives {
        GivenNegatives::OfEach { num, dst } => {
            let edge = position / num;
            let time = list.times.as_ref().map(|times| times[edge]);
            SeedEdgeEnds { src: list.src[edge], dst: dst[position], time, position: None }
        }
        GivenNegatives::Shared { src, dst } => {
            SeedEdgeEnds { src: src[position], dst: dst[position], time: None, position: None }
        }
    }
}

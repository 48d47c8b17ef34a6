//! Which edges a rank's batches are made for.

use edgecut_graph::{EdgeList, EdgeTypeId, Part, Split};
use std::ops::Range;

/// Where seed edges come from.
#[derive(Clone, Debug)]
pub enum EdgeSeeds {
    /// Of some edge types, the edges into this rank's nodes: for [`Split::Train`] those that messages flow over, for the
    /// others the held-out ones. Ranks that share a part take them in turn.
    Split(Split, Vec<EdgeTypeId>),
    /// The same list on every rank, (type, source, destination) in global ids: batch `k` is the `k`-th stretch of it, made by
    /// rank `k` modulo the world size.
    Listed(Vec<SeedEdge>),
}

/// One edge that a batch is made for, in global ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeedEdge {
    /// Its type.
    pub edge_type: EdgeTypeId,
    /// Its source.
    pub src: u32,
    /// Its destination.
    pub dst: u32,
    /// Its time, where its type has times; a held-out edge counts as later than all others.
    pub time: Option<i64>,
}

/// Seed edges, found by their position.
#[derive(Debug)]
pub(crate) enum EdgeIndex {
    /// Per edge type the positions that its edges in the part have.
    Part {
        split: Split,
        types: Vec<(EdgeTypeId, Range<usize>)>,
    },
    Listed(Vec<SeedEdge>),
}

impl EdgeIndex {
    pub(crate) fn new(part: &Part, seeds: EdgeSeeds) -> Self {
        match seeds {
            EdgeSeeds::Listed(edges) => Self::Listed(edges),
            EdgeSeeds::Split(split, edge_types) => {
                let mut end = 0;
                let range = |edge_type: EdgeTypeId| {
                    let edges = part.edges(edge_type);
                    let start = end;
                    end += held_out(part, edge_type, split).map_or(edges.csc.num_edges(), |list| list.src.len());
                    (edge_type, start..end)
                };
                Self::Part { split, types: edge_types.into_iter().map(range).collect() }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Listed(edges) => edges.len(),
            Self::Part { types, .. } => types.last().map_or(0, |(_, range)| range.end),
        }
    }

    /// The edge of a position below [`EdgeIndex::len`].
    pub(crate) fn edge(&self, part: &Part, position: usize) -> SeedEdge {
        let (split, types) = match self {
            Self::Listed(edges) => return edges[position],
            Self::Part { split, types } => (*split, types),
        };
        let (edge_type, range) = &types[types.partition_point(|(_, range)| range.end <= position)];
        let (edge_type, at) = (*edge_type, position - range.start);
        if let Some(list) = held_out(part, edge_type, split) {
            let time = part.meta().edge_types[edge_type.index()].has_times.then_some(i64::MAX);
            return SeedEdge { edge_type, src: list.src[at], dst: list.dst[at], time };
        }
        let edges = part.edges(edge_type);
        let row = edges.csc.indptr().partition_point(|&end| end <= at as u64) - 1;
        let dst = part.owned(edges.dst_type).start + row as u32;
        let time = edges.attributes.times.as_ref().map(|times| times[at]);
        SeedEdge { edge_type, src: edges.csc.indices()[at], dst, time }
    }
}

fn held_out(part: &Part, edge_type: EdgeTypeId, split: Split) -> Option<&EdgeList> {
    let held_out = &part.edges(edge_type).held_out;
    match split {
        Split::Train => None,
        Split::Valid => Some(&held_out.valid),
        Split::Test => Some(&held_out.test),
    }
}

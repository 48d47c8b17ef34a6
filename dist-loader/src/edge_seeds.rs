//! Seed edges of a rank's batches.

use edgecut_graph::{EdgeList, EdgeTypeId, Part, Split};
use std::ops::Range;

/// The source of seed edges.
#[derive(Clone, Debug)]
pub enum EdgeSeeds {
    /// The edges of some types into this rank's nodes: the edges that carry messages for [`Split::Train`], the held-out
    /// edges for the other splits. Ranks that share a part take them in turn.
    Split(Split, Vec<EdgeTypeId>),
    /// A list of edges in global ids, the same on every rank. Batch `k` is the `k`-th stretch of the list, and rank `k`
    /// modulo the world size makes it.
    Listed(Vec<SeedEdge>),
}

/// A seed edge of a batch, in global ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeedEdge {
    /// The edge type.
    pub edge_type: EdgeTypeId,
    /// The source.
    pub src: u32,
    /// The destination.
    pub dst: u32,
    /// The time, if the edge has one.
    pub time: Option<i64>,
}

/// Seed edges by position.
#[derive(Debug)]
pub(crate) enum EdgeIndex {
    /// For each edge type, the range of positions of its edges in the part.
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

    /// Returns the reason why some seed edges lack a time, if any do. It depends on the whole graph, so all ranks agree
    /// on it.
    pub(crate) fn lacks_times(&self, part: &Part) -> Option<String> {
        let (split, types) = match self {
            Self::Part { split, types } => (*split, types),
            Self::Listed(edges) => {
                let without = edges.iter().position(|edge| edge.time.is_none())?;
                return Some(format!("temporal sampling needs a time for each seed edge: edge {without} has none"));
            }
        };
        let meta = part.meta();
        let lacks = |edge_type: &EdgeTypeId| {
            let edges = &meta.edge_types[edge_type.index()];
            match split {
                Split::Train => !edges.has_times,
                Split::Valid => edges.held_out[0] > 0 && !edges.held_out_has_times,
                Split::Test => edges.held_out[1] > 0 && !edges.held_out_has_times,
            }
        };
        let edge_type = types.iter().map(|(edge_type, _)| edge_type).find(|edge_type| lacks(edge_type))?;
        let edges = &meta.edge_types[edge_type.index()];
        let name = format!("{}__{}__{}", edges.src_type, edges.relation, edges.dst_type);
        Some(match split {
            Split::Train => format!(
                "temporal sampling needs a time for each seed edge, but edge type {name} has none: predict edge types \
                 that have times"
            ),
            _ => format!(
                "temporal sampling needs a time for each seed edge, but the held-out {} edges of type {name} have \
                 none: save {0}_edge_time.npy beside {0}_edge_index.npy, or hold out the latest edges with \
                 --hold-out-edges latest:VALID,TEST, and partition again",
                split.name()
            ),
        })
    }

    /// Returns the edge at a position, which must be below [`EdgeIndex::len`].
    pub(crate) fn edge(&self, part: &Part, position: usize) -> SeedEdge {
        let (split, types) = match self {
            Self::Listed(edges) => return edges[position],
            Self::Part { split, types } => (*split, types),
        };
        let (edge_type, range) = &types[types.partition_point(|(_, range)| range.end <= position)];
        let edge_type = *edge_type;
        let at = position - range.start;
        if let Some(list) = held_out(part, edge_type, split) {
            let time = list.times.as_ref().map(|times| times[at]);
            return SeedEdge { edge_type, src: list.src[at], dst: list.dst[at], time };
        }
        let edges = part.edges(edge_type);
        // The destination of the `at`-th in-edge is the row whose range of in-edges contains it.
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

//! A ready mini-batch of edges.

use crate::batch::MiniBatch;
use edgecut_graph::EdgeTypeId;

/// Edges to be told from pairs that are none, and the neighborhood of all their ends.
///
/// Ends are given by their numbers in `graph.nodes[type]`; all of them are among its first `hop_offsets[0]` nodes, the seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkBatch {
    /// The neighborhood; its `num_seeds` is the number of edges, its labels are empty.
    pub graph: MiniBatch,
    /// The type of each edge.
    pub edge_types: Vec<EdgeTypeId>,
    /// The source of each edge.
    pub src: Vec<u32>,
    /// The destination of each edge.
    pub dst: Vec<u32>,
    /// What the edges are told from.
    pub negatives: Negatives,
}

/// Destinations that take the place of an edge's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Negatives {
    /// `num` for each edge: edge `i` has `dst[i * num..(i + 1) * num]`, of its destination's type.
    OfEach {
        /// Negatives per edge.
        num: usize,
        /// Row-major, `[num_edges, num]`.
        dst: Vec<u32>,
    },
    /// The same ones for all edges of the batch, by destination type; none where no edge of the batch ends in a type.
    Shared(Vec<Vec<u32>>),
}

impl LinkBatch {
    /// A batch without edges.
    pub fn empty(graph: MiniBatch) -> Self {
        let (edge_types, src, dst) = Default::default();
        Self { graph, edge_types, src, dst, negatives: Negatives::OfEach { num: 0, dst: Vec::new() } }
    }
}

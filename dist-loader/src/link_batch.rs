//! A ready mini-batch of edges.

use crate::batch::MiniBatch;
use crate::prefetch::bytes_held;
use crate::shared_candidates::EdgeRelations;
use edgecut_graph::EdgeTypeId;
use std::sync::Arc;

/// Edges and their negatives, and the neighborhood of all their ends.
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
    /// The negatives of the edges.
    pub negatives: Negatives,
    /// The edge types of the graph.
    pub relations: Arc<EdgeRelations>,
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
    /// The same ones for all edges of the batch, by destination type; none where no edge of the batch ends in a type. Some
    /// may be positive pairs with some edges: [`LinkBatch::shared_candidates`] finds these.
    Shared(Vec<Vec<u32>>),
}

impl LinkBatch {
    /// The bytes of memory that the arrays hold, unused capacity included.
    pub fn num_bytes(&self) -> usize {
        let negatives = match &self.negatives {
            Negatives::OfEach { dst, .. } => bytes_held(dst),
            Negatives::Shared(by_type) => bytes_held(by_type) + by_type.iter().map(bytes_held).sum::<usize>(),
        };
        let ends = bytes_held(&self.edge_types) + bytes_held(&self.src) + bytes_held(&self.dst);
        self.graph.num_bytes() + ends + negatives
    }

    /// A batch without edges.
    pub fn empty(graph: MiniBatch) -> Self {
        Self {
            graph,
            edge_types: Vec::new(),
            src: Vec::new(),
            dst: Vec::new(),
            negatives: Negatives::OfEach { num: 0, dst: Vec::new() },
            relations: Arc::default(),
        }
    }
}

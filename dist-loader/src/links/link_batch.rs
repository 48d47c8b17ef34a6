//! A mini-batch of edges with its neighborhood.

use crate::batch::mini_batch::MiniBatch;
use crate::bytes_held::bytes_held;
use crate::links::edge_relations::EdgeRelations;
use edgecut_graph::EdgeTypeId;
use std::sync::Arc;

/// Edges with their negatives, and the neighborhood of the ends of all of these.
///
/// Ends are numbers of nodes in `graph.nodes[type]`. All of them are seeds, that is, among the first `hop_offsets[0]`
/// nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkBatch {
    /// The neighborhood. Its `num_seeds` is the number of edges, and it has no labels.
    pub graph: MiniBatch,
    /// The type of each edge.
    pub edge_types: Vec<EdgeTypeId>,
    /// The source of each edge.
    pub src: Vec<u32>,
    /// The destination of each edge.
    pub dst: Vec<u32>,
    /// The weight of each edge; empty unless requested.
    pub weights: Vec<f32>,
    /// The negatives of the edges.
    pub negatives: Negatives,
    /// The number of edges that are not in the batch, because too few nodes are allowed as their negatives. See
    /// [`Exclude`](crate::Exclude).
    pub num_left_out: usize,
    /// The edge types of the graph.
    pub relations: Arc<EdgeRelations>,
}

/// Destinations that replace an edge's own destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Negatives {
    /// Separate negatives per edge: edge `i` has `dst[i * num..(i + 1) * num]`, which are nodes of its destination's
    /// type.
    OfEach {
        /// Negatives per edge.
        num: usize,
        /// Row-major, `[num_edges, num]`.
        dst: Vec<u32>,
    },
    /// Shared negatives for all edges of the batch, by destination type. Empty for types in which no edge of the batch
    /// ends. Some may form positive pairs with some edges. [`LinkBatch::shared_candidates`] finds these.
    Shared(Vec<Vec<u32>>),
}

impl LinkBatch {
    /// Returns the bytes of memory that the arrays hold, including unused capacity.
    pub fn num_bytes(&self) -> usize {
        let negatives = match &self.negatives {
            Negatives::OfEach { dst, .. } => bytes_held(dst),
            Negatives::Shared(by_type) => bytes_held(by_type) + by_type.iter().map(bytes_held).sum::<usize>(),
        };
        let ends = bytes_held(&self.edge_types) + bytes_held(&self.src) + bytes_held(&self.dst);
        let ends = ends + bytes_held(&self.weights);
        self.graph.num_bytes() + ends + negatives
    }

    /// Makes a batch without edges.
    pub fn empty(graph: MiniBatch) -> Self {
        Self { graph, ..Self::default() }
    }
}

impl Default for Negatives {
    fn default() -> Self {
        Self::OfEach { num: 0, dst: Vec::new() }
    }
}

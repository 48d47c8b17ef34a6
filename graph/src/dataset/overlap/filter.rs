//! The choice of the edges that a removal of overlaps removes.

use super::typed_edges::TypedEdges;
use crate::EdgeTypeId;
use crate::dataset::held_out_index::{Candidate, HeldOutIndex};

/// The held-out edges of a graph, beside which training edges are removed. It takes 27 to 29 bytes per held-out edge.
pub(crate) struct OverlapFilter {
    /// The held-out edges of each type.
    indices: Vec<HeldOutIndex>,
    /// The positions of the types with held-out edges that hold the reverse edges of each type.
    reverses: Vec<Vec<usize>>,
    /// True for each type among whose edges an edge and its reverse are the same.
    mirrors: Vec<bool>,
}

impl OverlapFilter {
    /// Indexes the held-out edges of all edge types of a graph.
    pub(crate) fn new(types: &[TypedEdges], undirected: bool) -> Self {
        let indices: Vec<HeldOutIndex> =
            types.iter().map(|edges| HeldOutIndex::new(&edges.held_out, edges.has_times)).collect();
        let mut reverses = Vec::with_capacity(types.len());
        let mut mirrors = Vec::with_capacity(types.len());
        for edges in types {
            let of_type =
                (0..types.len()).filter(|&other| edges.is_reverse_of(&types[other]) && !indices[other].is_empty());
            reverses.push(of_type.collect());
            // The reverse of an edge can only equal another edge of the type if both ends have the same node type.
            mirrors.push(undirected && edges.joins_one_type());
        }
        Self { indices, reverses, mirrors }
    }

    /// Returns true if edges of a type may be removed.
    pub(crate) fn concerns(&self, edge_type: EdgeTypeId) -> bool {
        !self.indices[edge_type.index()].is_empty() || !self.reverses[edge_type.index()].is_empty()
    }

    /// Returns true if a training edge is held out.
    pub(crate) fn removes(&self, edge_type: EdgeTypeId, edge: Candidate) -> bool {
        let at = edge_type.index();
        let own = &self.indices[at];
        !own.is_empty() && (own.contains(edge) || self.mirrors[at] && own.contains(edge.reversed()))
            || self.reverses[at].iter().any(|&other| self.indices[other].contains(edge.reversed()))
    }

    /// Returns true if a validation edge is also a test edge.
    pub(crate) fn is_test_edge(&self, edge_type: EdgeTypeId, edge: Candidate) -> bool {
        let own = &self.indices[edge_type.index()];
        own.is_test_edge(edge) || self.mirrors[edge_type.index()] && own.is_test_edge(edge.reversed())
    }
}

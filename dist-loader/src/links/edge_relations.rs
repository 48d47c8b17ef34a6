//! The ends and the reverses of edge types.

use crate::error::LoaderError;
use crate::seeds::edge_seeds::SeedEdge;
use edgecut_dist_sampler::ExcludedEdge;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part};

/// The node types of each edge type's ends, and the edge types that contain the reverses of its edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeRelations {
    /// The source type and the destination type of each edge type.
    pub ends: Vec<(NodeTypeId, NodeTypeId)>,
    /// By edge type, the types that may contain the reverse of an edge. A type that connects a node type with itself is
    /// among its own reverses.
    pub reverses: Vec<Vec<EdgeTypeId>>,
}

impl EdgeRelations {
    /// Finds the reverses of each edge type: types that their names say to be reverses, pairs that were declared when the graph
    /// was partitioned, and the pairs in `given`.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a pair of types that cannot be each other's reverse.
    pub fn new(part: &Part, given: &[(EdgeTypeId, EdgeTypeId)]) -> Result<Self, LoaderError> {
        let types = &part.meta().edge_types;
        for (one, other) in given {
            let one = types[one.index()].names();
            let other = types[other.index()].names();
            if !one.is_opposite_of(&other) {
                let what = format!(
                    "edge types {} and {} are not each other's reverse: the source type of each must be the destination \
                     type of the other",
                    one.relation, other.relation
                );
                return Err(LoaderError::Config { what });
            }
        }
        let declared = [given, &part.meta().declared_reverses()].concat();
        let mut ends = Vec::with_capacity(types.len());
        let mut reverses = Vec::with_capacity(types.len());
        for edge_type in part.edge_type_ids() {
            ends.push((part.edges(edge_type).src_type, part.edges(edge_type).dst_type));
            let names = types[edge_type.index()].names();
            let mut of_type = Vec::new();
            for other in part.edge_type_ids() {
                let to = types[other.index()].names();
                let is_own = edge_type == other && names.src == names.dst;
                let is_declared = declared.contains(&(edge_type, other)) || declared.contains(&(other, edge_type));
                if is_own || is_declared || names.is_reverse_of(&to, &[]) {
                    of_type.push(other);
                }
            }
            reverses.push(of_type);
        }
        Ok(Self { ends, reverses })
    }

    /// Returns the edges that carry no messages in a batch of `edges`, by edge type: the edges and their possible
    /// reverses. In disjoint sampling, the neighborhood of an edge lacks this edge only.
    pub(crate) fn excluded(&self, edges: &[SeedEdge], disjoint: bool) -> Vec<Vec<ExcludedEdge>> {
        let mut excluded = vec![Vec::new(); self.reverses.len()];
        for (number, edge) in edges.iter().enumerate() {
            let batch = disjoint.then_some(number as u32);
            self.exclude(edge.edge_type, ExcludedEdge { src: edge.src, dst: edge.dst, batch }, &mut excluded);
        }
        excluded
    }

    /// Adds an edge of a type and its possible reverses to excluded edges.
    pub(crate) fn exclude(&self, edge_type: EdgeTypeId, edge: ExcludedEdge, excluded: &mut [Vec<ExcludedEdge>]) {
        excluded[edge_type.index()].push(edge);
        for &reverse in &self.reverses[edge_type.index()] {
            excluded[reverse.index()].push(ExcludedEdge { src: edge.dst, dst: edge.src, batch: edge.batch });
        }
    }
}

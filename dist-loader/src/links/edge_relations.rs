//! The ends and the reverses of edge types.

use crate::error::LoaderError;
use crate::seeds::edge_seeds::SeedEdge;
use edgecut_dist_sampler::ExcludedEdge;
use edgecut_graph::{EdgeTypeId, Meta, NodeTypeId, Part};

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
        let meta = part.meta();
        if let Some(&(one, other)) = given.iter().find(|pair| !are_opposite(meta, **pair)) {
            let name = |e: EdgeTypeId| &meta.edge_types[e.index()].relation;
            let what = format!(
                "edge types {} and {} are not each other's reverse: the source type of each must be the destination \
                 type of the other",
                name(one),
                name(other)
            );
            return Err(LoaderError::Config { what });
        }
        let ends = part.edge_type_ids().map(|e| (part.edges(e).src_type, part.edges(e).dst_type)).collect();
        let declared = [given, &meta.declared_reverses()].concat();
        Ok(Self { ends, reverses: reverse_types(meta, &declared) })
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

/// Returns whether each edge type ends in the node type in which the other starts.
fn are_opposite(meta: &Meta, (one, other): (EdgeTypeId, EdgeTypeId)) -> bool {
    let one = &meta.edge_types[one.index()];
    let other = &meta.edge_types[other.index()];
    (&one.src_type, &one.dst_type) == (&other.dst_type, &other.src_type)
}

/// Returns, for each edge type, the edge types that may contain the reverses of its edges.
fn reverse_types(meta: &Meta, given: &[(EdgeTypeId, EdgeTypeId)]) -> Vec<Vec<EdgeTypeId>> {
    let types = &meta.edge_types;
    let is_reverse = |a: usize, b: usize| {
        let from = &types[a];
        let to = &types[b];
        let ends = (&from.src_type, &from.dst_type) == (&to.dst_type, &to.src_type);
        let is_rev = |one: &str, other: &str| one.strip_prefix("rev_") == Some(other);
        let named = is_rev(&from.relation, &to.relation) || is_rev(&to.relation, &from.relation);
        let given = given.iter().any(|&(x, y)| [(x.index(), y.index()), (y.index(), x.index())].contains(&(a, b)));
        ends && (a == b || named || given)
    };
    let reverses_of = |a: usize| (0..types.len()).filter(|&b| is_reverse(a, b)).map(|b| EdgeTypeId(b as u16)).collect();
    (0..types.len()).map(reverses_of).collect()
}

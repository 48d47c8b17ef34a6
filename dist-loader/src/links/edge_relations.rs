//! The ends and the reverses of edge types.

use edgecut_graph::{EdgeTypeId, NodeTypeId};

/// The node types of each edge type's ends, and the edge types that contain the reverses of its edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeRelations {
    /// The source type and the destination type of each edge type.
    pub ends: Vec<(NodeTypeId, NodeTypeId)>,
    /// By edge type, the types that may contain the reverse of an edge. A type that connects a node type with itself is
    /// among its own reverses.
    pub reverses: Vec<Vec<EdgeTypeId>>,
}

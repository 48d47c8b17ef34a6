//! A whole graph in memory, with original ids.

use super::{EdgeData, NodeData};
use crate::memory::Buffer;
use crate::{EdgeTypeId, EdgeTypeNames, NodeTypeId};

/// A graph as read from files or generated: node types and edge types, with original ids `0..num_nodes` per node type.
///
/// Self loops, duplicate edges, isolated nodes, missing features and missing labels are all allowed. Self loops and
/// duplicates are kept as separate edges.
///
/// ```
/// use edgecut_graph::{Dataset, NodeData};
/// let nodes = NodeData { name: "node".into(), num_nodes: 3, ..NodeData::default() };
/// let path = Dataset::homogeneous("path", nodes, vec![0, 1].into(), vec![1, 2].into());
/// path.validate()?;
/// assert_eq!(path.num_edges(), 2);
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The name under which the parts are stored.
    pub name: String,
    /// The node types, at least one.
    pub node_types: Vec<NodeData>,
    /// The edge types.
    pub edge_types: Vec<EdgeData>,
}

impl Dataset {
    /// Creates a homogeneous graph, with one node type and one edge type.
    pub fn homogeneous(name: &str, nodes: NodeData, src: Buffer<u32>, dst: Buffer<u32>) -> Self {
        let edges = EdgeData::new(NodeTypeId(0), crate::DEFAULT_RELATION, NodeTypeId(0), src, dst);
        Self { name: name.into(), node_types: vec![nodes], edge_types: vec![edges] }
    }

    /// Returns the nodes of one type.
    pub fn nodes(&self, node_type: NodeTypeId) -> &NodeData {
        &self.node_types[node_type.index()]
    }

    /// Returns the edges of one type.
    pub fn edges(&self, edge_type: EdgeTypeId) -> &EdgeData {
        &self.edge_types[edge_type.index()]
    }

    /// Returns the number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(|e| e.src.len()).sum()
    }

    /// Returns the ids of all edge types, in order.
    pub fn edge_type_ids(&self) -> Vec<EdgeTypeId> {
        (0..self.edge_types.len() as u16).map(EdgeTypeId).collect()
    }

    /// Returns the name of an edge type for error messages, such as `paper__cites__paper`.
    pub(crate) fn edge_type_name(&self, edges: &EdgeData) -> String {
        self.edge_type_names(edges).full_name()
    }

    /// Returns the names of an edge type.
    pub(crate) fn edge_type_names<'a>(&'a self, edges: &'a EdgeData) -> EdgeTypeNames<'a> {
        let name = |t: NodeTypeId| self.node_types.get(t.index()).map_or("?", |nodes| &nodes.name);
        EdgeTypeNames { src: name(edges.src_type), relation: &edges.relation, dst: name(edges.dst_type) }
    }
}

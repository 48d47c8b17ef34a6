//! What a model has to know of a graph.

use edgecut_graph::{Meta, NodeTypeId};
use serde::{Deserialize, Serialize};

use super::model_error::ModelError;

/// The node types and edge types of a graph. Batches and models of one graph have equal ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSchema {
    /// Node types, in the order of their ids.
    pub node_types: Vec<NodeTypeSchema>,
    /// Edge types, in the order of their ids.
    pub edge_types: Vec<EdgeTypeSchema>,
}

/// One node type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTypeSchema {
    /// Its name.
    pub name: String,
    /// Columns of its features; 0 if it has none, so that each node has a learned embedding in their place.
    pub feature_dim: usize,
}

/// One edge type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeTypeSchema {
    /// The type of the sources.
    pub src: NodeTypeId,
    /// The relation's name.
    pub relation: String,
    /// The type of the destinations.
    pub dst: NodeTypeId,
}

impl GraphSchema {
    /// The types of a partitioned graph.
    ///
    /// # Errors
    /// [`ModelError::Schema`] if an edge type joins a node type that is not there.
    pub fn new(meta: &Meta) -> Result<Self, ModelError> {
        let id = |name: &str| {
            let found = meta.node_types.iter().position(|nodes| nodes.name == name);
            let found = found.ok_or_else(|| ModelError::Schema { what: format!("there is no node type {name}") });
            found.map(|position| NodeTypeId(position as u16))
        };
        let node_type = |nodes: &edgecut_graph::NodeTypeMeta| NodeTypeSchema {
            name: nodes.name.clone(),
            feature_dim: nodes.feature_dim,
        };
        let edge_type = |edges: &edgecut_graph::EdgeTypeMeta| {
            let (src, dst) = (id(&edges.src_type)?, id(&edges.dst_type)?);
            Ok(EdgeTypeSchema { src, relation: edges.relation.clone(), dst })
        };
        Ok(Self {
            node_types: meta.node_types.iter().map(node_type).collect(),
            edge_types: meta.edge_types.iter().map(edge_type).collect::<Result<_, ModelError>>()?,
        })
    }

    /// A graph of one node type and one edge type.
    pub fn homogeneous(feature_dim: usize) -> Self {
        let edges = EdgeTypeSchema { src: NodeTypeId(0), relation: "edge".into(), dst: NodeTypeId(0) };
        Self { node_types: vec![NodeTypeSchema { name: "node".into(), feature_dim }], edge_types: vec![edges] }
    }

    /// Whether there are one node type and one edge type.
    pub fn is_homogeneous(&self) -> bool {
        (self.node_types.len(), self.edge_types.len()) == (1, 1)
    }

    /// Source and destination of each edge type, as positions among the node types.
    pub fn edge_ends(&self) -> Vec<(usize, usize)> {
        self.edge_types.iter().map(|edges| (edges.src.index(), edges.dst.index())).collect()
    }

    /// The names of the node types without features.
    pub fn embedded_types(&self) -> Vec<&str> {
        self.node_types.iter().filter(|nodes| nodes.feature_dim == 0).map(|nodes| nodes.name.as_str()).collect()
    }

    /// Where another graph's types differ, if they do. Of a homogeneous graph names do not matter.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let shape = |schema: &Self| {
            let names = !schema.is_homogeneous();
            let nodes = schema.node_types.iter().map(|nodes| match names {
                true => format!("node type {} of {} features", nodes.name, nodes.feature_dim),
                false => format!("nodes of {} features", nodes.feature_dim),
            });
            let edges = schema.edge_types.iter().filter(|_| names).map(|edges| {
                let name = |id: NodeTypeId| schema.node_types.get(id.index()).map_or("?", |nodes| nodes.name.as_str());
                format!("edge type {}__{}__{}", name(edges.src), edges.relation, name(edges.dst))
            });
            nodes.chain(edges).collect::<Vec<_>>()
        };
        let (mine, theirs) = (shape(self), shape(other));
        let position = (0..mine.len().max(theirs.len())).find(|&i| mine.get(i) != theirs.get(i))?;
        let describe = |list: &[String]| list.get(position).cloned().unwrap_or_else(|| "nothing".into());
        Some(format!("{} instead of {}", describe(&theirs), describe(&mine)))
    }

    /// Checks that there are types, and that edge types join those that are there.
    ///
    /// # Errors
    /// [`ModelError::Schema`].
    pub fn validate(&self) -> Result<(), ModelError> {
        let fail = |what: String| Err(ModelError::Schema { what });
        if self.node_types.is_empty() || self.edge_types.is_empty() {
            return fail("it needs a node type and an edge type".into());
        }
        let count = self.node_types.len();
        match self.edge_types.iter().find(|edges| edges.src.index() >= count || edges.dst.index() >= count) {
            Some(edges) => fail(format!("edge type {} joins node types beyond the {count} there are", edges.relation)),
            None => Ok(()),
        }
    }
}

//! The schema of a graph: its node types and edge types, as a model knows them.

use edgecut_dist_sampler::{DistGraph, DistNeighborSampler, EdgeFields, SampleError, SamplerConfig};
use edgecut_graph::{Meta, NodeTypeId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::model_error::ModelError;
use edgecut_gnn::nn::{ConvKind, EdgeFeatureUse, EdgeShape};

/// The node types and edge types of a graph. A batch and a model of the same graph have equal schemas.
///
/// ```
/// use edgecut_graph::NodeTypeId;
/// use edgecut_trainer::models::{EdgeTypeSchema, GraphSchema, NodeTypeSchema};
/// let node_type = |name: &str, feature_dim| NodeTypeSchema { name: name.into(), feature_dim };
/// let schema = GraphSchema {
///     node_types: vec![node_type("author", 0), node_type("paper", 128)],
///     edge_types: vec![EdgeTypeSchema::new(NodeTypeId(0), "writes", NodeTypeId(1))],
/// };
/// assert!(schema.validate().is_ok());
/// assert_eq!(schema.edge_ends(), [(0, 1)]);
/// assert_eq!(schema.embedded_types(), ["author"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSchema {
    /// Node types, in the order of their ids.
    pub node_types: Vec<NodeTypeSchema>,
    /// Edge types, in the order of their ids.
    pub edge_types: Vec<EdgeTypeSchema>,
}

/// A node type of a [`GraphSchema`].
///
/// ```
/// use edgecut_trainer::models::{GraphSchema, NodeTypeSchema};
/// // Without features, each node has a learned embedding.
/// let nodes = NodeTypeSchema { name: "user".into(), feature_dim: 0 };
/// let schema = GraphSchema { node_types: vec![nodes], ..GraphSchema::homogeneous(0) };
/// assert_eq!(schema.embedded_types(), ["user"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTypeSchema {
    /// Name of the node type.
    pub name: String,
    /// Columns of its features. 0 if it has no features; each node then has a learned embedding.
    pub feature_dim: usize,
}

/// An edge type of a [`GraphSchema`].
///
/// ```
/// use edgecut_graph::NodeTypeId;
/// use edgecut_trainer::models::{EdgeTypeSchema, GraphSchema};
/// // The source is a node type that does not exist.
/// let edges = EdgeTypeSchema::new(NodeTypeId(1), "writes", NodeTypeId(0));
/// let schema = GraphSchema { edge_types: vec![edges], ..GraphSchema::homogeneous(8) };
/// assert!(schema.validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeTypeSchema {
    /// Node type of the sources.
    pub src: NodeTypeId,
    /// Name of the relation.
    pub relation: String,
    /// Node type of the destinations.
    pub dst: NodeTypeId,
    /// Columns of the features of edges that the model reads; 0 if it reads none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub edge_dim: usize,
}

impl EdgeTypeSchema {
    /// Makes an edge type of whose features the model reads none.
    pub fn new(src: NodeTypeId, relation: impl Into<String>, dst: NodeTypeId) -> Self {
        Self { src, relation: relation.into(), dst, edge_dim: 0 }
    }
}

fn is_zero(columns: &usize) -> bool {
    *columns == 0
}

impl GraphSchema {
    /// Reads the schema of a partitioned graph, without the features of edges.
    ///
    /// # Errors
    /// [`ModelError::Schema`] if an edge type names a node type that does not exist.
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
            let src = id(&edges.src_type)?;
            let dst = id(&edges.dst_type)?;
            Ok(EdgeTypeSchema::new(src, &edges.relation, dst))
        };
        Ok(Self {
            node_types: meta.node_types.iter().map(node_type).collect(),
            edge_types: meta.edge_types.iter().map(edge_type).collect::<Result<_, ModelError>>()?,
        })
    }

    /// Adds the features of edges that a convolution reads.
    ///
    /// # Errors
    /// [`ModelError::Settings`] for a convolution that needs features, if an edge type has none.
    pub fn with_edge_features(mut self, kind: ConvKind, meta: &Meta) -> Result<Self, ModelError> {
        let dims: Vec<usize> = meta.edge_types.iter().map(|edges| edges.feature_dim).collect();
        self.set_edge_features(kind, &dims)?;
        Ok(self)
    }

    /// Sets the features of edges that a convolution reads. `dims` has the columns of each edge type.
    pub(crate) fn set_edge_features(&mut self, kind: ConvKind, dims: &[usize]) -> Result<(), ModelError> {
        let of_kind = kind.edge_features();
        for (edges, &dim) in self.edge_types.iter_mut().zip(dims) {
            if of_kind == EdgeFeatureUse::Required && dim == 0 {
                let what = format!(
                    "{} reads features of edges, but edges of type {} have none: store some, or choose another model",
                    kind.model_name(),
                    edges.relation
                );
                return Err(ModelError::Settings { what });
            }
            edges.edge_dim = if of_kind == EdgeFeatureUse::Ignored { 0 } else { dim };
        }
        Ok(())
    }

    /// Reads the schema of a partitioned graph with the features of edges if `model` reads some. `model` is the schema of a
    /// model.
    ///
    /// # Errors
    /// The errors of [`GraphSchema::new`].
    pub fn read_by(model: &Self, meta: &Meta) -> Result<Self, ModelError> {
        let mut schema = Self::new(meta)?;
        if model.has_edge_features() {
            for (edges, of_type) in schema.edge_types.iter_mut().zip(&meta.edge_types) {
                edges.edge_dim = of_type.feature_dim;
            }
        }
        Ok(schema)
    }

    /// Returns whether a model of this schema reads features of edges.
    pub fn has_edge_features(&self) -> bool {
        self.edge_types.iter().any(|edges| edges.edge_dim > 0)
    }

    /// Makes a sampler whose batches have the features of edges that a model of this schema reads.
    pub(crate) fn sampler(
        &self,
        graph: &Arc<DistGraph>,
        config: SamplerConfig,
    ) -> Result<Arc<DistNeighborSampler>, SampleError> {
        let config = config.with_edge_attributes(self.edge_fields());
        Ok(Arc::new(DistNeighborSampler::new(Arc::clone(graph), config)?))
    }

    /// Returns the attributes of edges that batches for a model of this schema need.
    pub fn edge_fields(&self) -> EdgeFields {
        EdgeFields { features: self.has_edge_features(), ..EdgeFields::default() }
    }

    /// Makes the schema of a graph with one node type and one edge type.
    ///
    /// ```
    /// use edgecut_trainer::models::GraphSchema;
    /// assert!(GraphSchema::homogeneous(128).is_homogeneous());
    /// ```
    pub fn homogeneous(feature_dim: usize) -> Self {
        let edges = EdgeTypeSchema::new(NodeTypeId(0), "edge", NodeTypeId(0));
        Self { node_types: vec![NodeTypeSchema { name: "node".into(), feature_dim }], edge_types: vec![edges] }
    }

    /// Returns whether there is exactly one node type and one edge type.
    pub fn is_homogeneous(&self) -> bool {
        (self.node_types.len(), self.edge_types.len()) == (1, 1)
    }

    /// Returns the source and destination node type of each edge type, as positions in `node_types`.
    pub fn edge_ends(&self) -> Vec<(usize, usize)> {
        self.edge_types.iter().map(|edges| (edges.src.index(), edges.dst.index())).collect()
    }

    /// Returns the ends of each edge type, and the width of its features.
    pub fn edge_shapes(&self) -> Vec<EdgeShape> {
        let shape = |edges: &EdgeTypeSchema| EdgeShape {
            src: edges.src.index(),
            dst: edges.dst.index(),
            edge_channels: edges.edge_dim,
        };
        self.edge_types.iter().map(shape).collect()
    }

    /// Returns the names of the node types without features, which have learned embeddings.
    pub fn embedded_types(&self) -> Vec<&str> {
        self.node_types.iter().filter(|nodes| nodes.feature_dim == 0).map(|nodes| nodes.name.as_str()).collect()
    }

    /// Describes the first difference to the schema of another graph, or returns `None` if a model of one graph fits
    /// the other. Names do not matter if both graphs are homogeneous.
    ///
    /// ```
    /// use edgecut_trainer::models::GraphSchema;
    /// let schema = GraphSchema::homogeneous(128);
    /// assert_eq!(schema.difference(&schema), None);
    /// let difference = schema.difference(&GraphSchema::homogeneous(64));
    /// assert_eq!(difference.as_deref(), Some("nodes with 64 features instead of nodes with 128 features"));
    /// ```
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let shape = |schema: &Self| {
            let names = !schema.is_homogeneous();
            let nodes = schema.node_types.iter().map(|nodes| {
                if names {
                    format!("node type {} with {} features", nodes.name, nodes.feature_dim)
                } else {
                    format!("nodes with {} features", nodes.feature_dim)
                }
            });
            let edges = schema.edge_types.iter().filter(|edges| names || edges.edge_dim > 0).map(|edges| {
                let name = |id: NodeTypeId| schema.node_types.get(id.index()).map_or("?", |nodes| nodes.name.as_str());
                let features =
                    if edges.edge_dim > 0 { format!(" with {} features", edges.edge_dim) } else { String::new() };
                if names {
                    format!("edge type {}__{}__{}{features}", name(edges.src), edges.relation, name(edges.dst))
                } else {
                    format!("edges{features}")
                }
            });
            nodes.chain(edges).collect::<Vec<_>>()
        };
        let mine = shape(self);
        let theirs = shape(other);
        let position = (0..mine.len().max(theirs.len())).find(|&i| mine.get(i) != theirs.get(i))?;
        let describe = |list: &[String]| list.get(position).cloned().unwrap_or_else(|| "nothing".into());
        Some(format!("{} instead of {}", describe(&theirs), describe(&mine)))
    }

    /// Checks that there are node types and edge types, and that edge types join existing node types.
    ///
    /// # Errors
    /// [`ModelError::Schema`] if not.
    ///
    /// ```
    /// use edgecut_trainer::models::GraphSchema;
    /// let schema = GraphSchema::homogeneous(128);
    /// assert!(schema.validate().is_ok());
    /// assert!(GraphSchema { node_types: Vec::new(), ..schema }.validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<(), ModelError> {
        let fail = |what: String| Err(ModelError::Schema { what });
        if self.node_types.is_empty() || self.edge_types.is_empty() {
            return fail("at least one node type and one edge type are needed".into());
        }
        let count = self.node_types.len();
        match self.edge_types.iter().find(|edges| edges.src.index() >= count || edges.dst.index() >= count) {
            Some(edges) => {
                fail(format!("edge type {} joins a node type that does not exist, there are {count}", edges.relation))
            }
            None => Ok(()),
        }
    }
}

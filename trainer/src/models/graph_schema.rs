//! The schema of a graph: its node types and edge types, as a model knows them.

use edgecut_dist_sampler::{DistGraph, DistNeighborSampler, EdgeFields, SampleError, SamplerConfig, TimeAttr};
use edgecut_graph::{Meta, NodeTypeId};
use edgecut_settings::suggestion;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::node_embedding::{EmbeddingMode, NodeEmbedding};
use crate::error::{ModelError, TrainError};
use edgecut_gnn::nn::{ConvKind, EdgeFeatureUse, EdgeShape, EdgeWeighting};

/// The node types and edge types of a graph. A batch and a model of the same graph have equal schemas.
///
/// ```
/// use edgecut_graph::NodeTypeId;
/// use edgecut_trainer::models::{EdgeTypeSchema, GraphSchema, NodeTypeSchema};
/// let schema = GraphSchema {
///     node_types: vec![NodeTypeSchema::new("author", 0), NodeTypeSchema::new("paper", 128)],
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTypeSchema {
    /// Name of the node type.
    pub name: String,
    /// Columns of its features. 0 if it has no features; each node then has a learned embedding.
    pub feature_dim: usize,
    /// Values of the learned embedding that each node has in addition to its features. 0 without. The embedding of a node type
    /// without features has as many values as the hidden layers if this is 0; otherwise an encoder reads it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub embedding_dim: usize,
    /// The combination of this embedding with the features.
    #[serde(default, skip_serializing_if = "EmbeddingMode::is_default")]
    pub embedding_mode: EmbeddingMode,
}

impl NodeTypeSchema {
    /// Makes a node type with features. With 0 columns, it has embeddings as wide as the hidden layers.
    pub fn new(name: impl Into<String>, feature_dim: usize) -> Self {
        Self { name: name.into(), feature_dim, embedding_dim: 0, embedding_mode: EmbeddingMode::default() }
    }

    /// Returns the number of values that an input of the model has per node: features, then the embedding beside them. 0 if a
    /// node has neither.
    pub fn input_width(&self) -> usize {
        self.feature_dim.saturating_add(self.embedding_dim)
    }

    /// Returns the number of values that the encoder reads per node; 0 if it has none.
    pub fn encoded_width(&self) -> usize {
        match self.embedding_mode {
            EmbeddingMode::Concatenate => self.input_width(),
            EmbeddingMode::Add => self.embedding_dim,
        }
    }

    /// Returns whether the embedding is added to the features, which a dense layer maps to its width.
    pub fn adds_embedding(&self) -> bool {
        self.embedding_mode == EmbeddingMode::Add
    }

    /// Returns the number of values of a node's learned embedding in a model with this width; 0 without embeddings.
    pub fn embedding_width(&self, hidden_channels: usize) -> usize {
        match (self.embedding_dim, self.feature_dim) {
            (0, 0) => hidden_channels,
            (dim, _) => dim,
        }
    }
}

/// An edge type of a [`GraphSchema`].
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
    /// Columns of the encoding of the time between an edge and its seed, which follow the features; 0 if the model does not
    /// read times.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub time_dim: usize,
    /// True if messages are multiplied by the weights of edges.
    #[serde(default, skip_serializing_if = "is_false")]
    pub weighted: bool,
}

impl EdgeTypeSchema {
    /// Makes an edge type of whose features, times and weights the model reads none.
    pub fn new(src: NodeTypeId, relation: impl Into<String>, dst: NodeTypeId) -> Self {
        Self { src, relation: relation.into(), dst, edge_dim: 0, time_dim: 0, weighted: false }
    }

    /// Returns the number of values that a convolution reads per edge: features and the encoding of the time.
    pub fn encoded_width(&self) -> usize {
        self.edge_dim.saturating_add(self.time_dim)
    }

    /// Returns whether the model reads features, times or weights of edges.
    fn has_values(&self) -> bool {
        self.encoded_width() > 0 || self.weighted
    }
}

fn is_false(value: &bool) -> bool {
    !value
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
        let node_type = |nodes: &edgecut_graph::NodeTypeMeta| NodeTypeSchema::new(&nodes.name, nodes.feature_dim);
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

    /// Adds learned embeddings of nodes. An embedding without a number of values has `hidden_channels` of them.
    ///
    /// # Errors
    /// [`ModelError::Schema`] for a node type that does not exist, is named twice, or has no features to add an embedding to.
    pub fn with_embeddings(mut self, embeddings: &[NodeEmbedding], hidden_channels: usize) -> Result<Self, ModelError> {
        let mut found: Vec<NodeEmbedding> = Vec::with_capacity(embeddings.len());
        for embedding in embeddings {
            let of_type = embedding.among(|name| self.node_types.iter().any(|nodes| nodes.name == name));
            found.push(of_type.map_err(|what| ModelError::Schema { what })?);
        }
        for (at, embedding) in found.iter().enumerate() {
            let name = &embedding.node_type;
            if found[..at].iter().any(|before| before.node_type == *name) {
                return Err(ModelError::Schema { what: format!("`node_embeddings` names node type {name} twice") });
            }
            let all = self.node_types.iter().map(|nodes| nodes.name.as_str()).collect::<Vec<_>>();
            let hint = suggestion(name, all.iter().copied());
            let all = all.join(", ");
            let Some(nodes) = self.node_types.iter_mut().find(|nodes| nodes.name == *name) else {
                let what = format!(
                    "`node_embeddings` names node type {name}, which does not exist{hint}: choose one of {all}"
                );
                return Err(ModelError::Schema { what });
            };
            if embedding.mode == EmbeddingMode::Add && nodes.feature_dim == 0 {
                let what = format!(
                    "`node_embeddings` adds embeddings to the features of node type {name}, which has none: leave `:add` out"
                );
                return Err(ModelError::Schema { what });
            }
            nodes.embedding_mode = embedding.mode;
            nodes.embedding_dim = match embedding.dim {
                Some(dim) => dim,
                // A type without features has such an embedding in any case.
                None if nodes.feature_dim == 0 => 0,
                None => hidden_channels,
            };
        }
        Ok(self)
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
            if of_kind == EdgeFeatureUse::Required && dim == 0 && edges.time_dim == 0 {
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

    /// Adds the weights of edges, by which messages are multiplied. The edges of types without weights have weight 1.
    ///
    /// # Errors
    /// [`ModelError::Settings`] for a convolution that does not multiply messages, or if no edge type has weights.
    pub fn with_edge_weights(mut self, kind: ConvKind, meta: &Meta) -> Result<Self, ModelError> {
        if kind.edge_weighting() == EdgeWeighting::None {
            let what = format!(
                "messages of {} are not multiplied by weights of edges (`edge_weights`): choose sage or graphconv with the \
                 aggregation mean or sum, gcn or rgcn",
                kind.model_name()
            );
            return Err(ModelError::Settings { what });
        }
        for (edges, of_type) in self.edge_types.iter_mut().zip(&meta.edge_types) {
            edges.weighted = of_type.has_weights;
        }
        if self.has_edge_weights() {
            return Ok(self);
        }
        let what = format!(
            "the edges of dataset {} have no weights (`edge_weights`): partition it with weights of edges",
            meta.dataset
        );
        Err(ModelError::Settings { what })
    }

    /// Adds an encoding of `dim` columns of the time between an edge and its seed, for the edge types that have times.
    ///
    /// # Errors
    /// [`ModelError::Settings`] for a convolution that reads no features of edges, or if no edge type has times.
    pub fn with_edge_times(mut self, kind: ConvKind, dim: usize, meta: &Meta) -> Result<Self, ModelError> {
        if kind.edge_features() == EdgeFeatureUse::Ignored {
            let what = format!(
                "{} reads no features of edges, to which the encoding of times belongs (`time_encoding`): choose another \
                 model",
                kind.model_name()
            );
            return Err(ModelError::Settings { what });
        }
        for (edges, of_type) in self.edge_types.iter_mut().zip(&meta.edge_types) {
            edges.time_dim = if of_type.has_times { dim } else { 0 };
        }
        if self.time_dim() > 0 {
            return Ok(self);
        }
        let what = format!(
            "the edges of dataset {} have no times (`time_encoding`): partition it with times of edges",
            meta.dataset
        );
        Err(ModelError::Settings { what })
    }

    /// Reads the schema of a partitioned graph with the features, weights and times of edges if `model` reads some, and with
    /// the learned embeddings of `model`, which is the schema of a model.
    ///
    /// # Errors
    /// The errors of [`GraphSchema::new`].
    pub fn read_by(model: &Self, meta: &Meta) -> Result<Self, ModelError> {
        let mut schema = Self::new(meta)?;
        for (edges, of_type) in schema.edge_types.iter_mut().zip(&meta.edge_types) {
            edges.edge_dim = if model.has_edge_features() { of_type.feature_dim } else { 0 };
            edges.time_dim = if of_type.has_times { model.time_dim() } else { 0 };
            edges.weighted = model.has_edge_weights() && of_type.has_weights;
        }
        let is_homogeneous = schema.is_homogeneous() && model.is_homogeneous();
        for nodes in &mut schema.node_types {
            let of_model = model.node_types.iter().find(|other| is_homogeneous || other.name == nodes.name);
            if let Some(of_model) = of_model {
                nodes.embedding_dim = of_model.embedding_dim;
                nodes.embedding_mode = of_model.embedding_mode;
            }
        }
        Ok(schema)
    }

    /// Returns whether a model of this schema reads features of edges.
    pub fn has_edge_features(&self) -> bool {
        self.edge_types.iter().any(|edges| edges.edge_dim > 0)
    }

    /// Returns whether a model of this schema multiplies messages by weights of edges.
    pub fn has_edge_weights(&self) -> bool {
        self.edge_types.iter().any(|edges| edges.weighted)
    }

    /// Returns the columns of the encoding of times that a model of this schema reads; 0 if it reads no times.
    pub fn time_dim(&self) -> usize {
        self.edge_types.iter().map(|edges| edges.time_dim).max().unwrap_or(0)
    }

    /// Makes a sampler whose batches have the values of edges that a model of this schema reads.
    ///
    /// # Errors
    /// [`SampleError::Layout`] for a model that reads times if neighbors are not drawn by the times of edges: it would read
    /// edges that are later than their seeds. The errors of [`DistNeighborSampler::new`].
    pub(crate) fn sampler(
        &self,
        graph: &Arc<DistGraph>,
        config: SamplerConfig,
    ) -> Result<Arc<DistNeighborSampler>, SampleError> {
        if self.time_dim() > 0 && config.temporal.is_none_or(|temporal| temporal.attr != TimeAttr::EdgeTime) {
            let what = "the model reads the time between each edge and its seed (`time_encoding`), so neighbors must be drawn \
                        by the times of edges (`temporal` edge_time), and layers cannot be computed for all nodes at once"
                .into();
            return Err(SampleError::Layout { what });
        }
        let config = config.with_edge_attributes(self.edge_fields());
        Ok(Arc::new(DistNeighborSampler::new(Arc::clone(graph), config)?))
    }

    /// Returns the attributes of edges that batches for a model of this schema need.
    pub fn edge_fields(&self) -> EdgeFields {
        EdgeFields {
            features: self.has_edge_features(),
            weights: self.has_edge_weights(),
            times: self.time_dim() > 0,
            ..EdgeFields::default()
        }
    }

    /// Makes the schema of a graph with one node type and one edge type.
    pub fn homogeneous(feature_dim: usize) -> Self {
        let edges = EdgeTypeSchema::new(NodeTypeId(0), "edge", NodeTypeId(0));
        Self { node_types: vec![NodeTypeSchema::new("node", feature_dim)], edge_types: vec![edges] }
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
            edge_channels: edges.encoded_width(),
        };
        self.edge_types.iter().map(shape).collect()
    }

    /// Returns the names of the node types with learned embeddings: the types without features, and others that have both.
    pub fn embedded_types(&self) -> Vec<&str> {
        self.embedding_widths(1).into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the names of the node types with learned embeddings, and the number of values of each in a model of this
    /// width.
    pub fn embedding_widths(&self, hidden_channels: usize) -> Vec<(&str, usize)> {
        let widths = self.node_types.iter().map(|nodes| (nodes.name.as_str(), nodes.embedding_width(hidden_channels)));
        widths.filter(|(_, width)| *width > 0).collect()
    }

    /// Returns the embeddings that were given to node types.
    pub fn node_embeddings(&self) -> Vec<NodeEmbedding> {
        let mut embeddings = Vec::new();
        for nodes in self.node_types.iter().filter(|nodes| nodes.embedding_dim > 0) {
            let dim = Some(nodes.embedding_dim);
            embeddings.push(NodeEmbedding { node_type: nodes.name.clone(), dim, mode: nodes.embedding_mode });
        }
        embeddings
    }

    /// Describes the first difference to the schema of another graph, or returns `None` if a model of one graph fits
    /// the other. Names do not matter if both graphs are homogeneous.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let shape = |schema: &Self| {
            let names = !schema.is_homogeneous();
            let nodes = schema.node_types.iter().map(|nodes| {
                let embedding = match nodes.embedding_dim {
                    0 => String::new(),
                    dim if nodes.adds_embedding() => format!(" and added embeddings of {dim} values"),
                    dim => format!(" and embeddings of {dim} values"),
                };
                if names {
                    format!("node type {} with {} features{embedding}", nodes.name, nodes.feature_dim)
                } else {
                    format!("nodes with {} features{embedding}", nodes.feature_dim)
                }
            });
            let edges = schema.edge_types.iter().filter(|edges| names || edges.has_values()).map(|edges| {
                let name = |id: NodeTypeId| schema.node_types.get(id.index()).map_or("?", |nodes| nodes.name.as_str());
                let mut features = String::new();
                if edges.edge_dim > 0 {
                    features += &format!(" with {} features", edges.edge_dim);
                }
                if edges.time_dim > 0 {
                    features += &format!(" with times in {} columns", edges.time_dim);
                }
                if edges.weighted {
                    features += " with weights";
                }
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

    /// Checks that a model of this schema fits another graph.
    ///
    /// # Errors
    /// [`TrainError::Config`] with the first difference, and the remedy if the edges lack values that the model reads.
    pub(crate) fn check_graph(&self, graph: &Self) -> Result<(), TrainError> {
        let Some(difference) = self.difference(graph) else { return Ok(()) };
        let remedy = match self.missing_values(graph) {
            Some(remedy) => format!(": {remedy}"),
            None => String::new(),
        };
        let what = format!("the model was trained for another graph: this graph has {difference}{remedy}");
        Err(TrainError::Config { what })
    }

    /// Returns the remedy for edges that lack values that a model of this schema reads.
    fn missing_values(&self, graph: &Self) -> Option<&'static str> {
        for (of_model, of_graph) in self.edge_types.iter().zip(&graph.edge_types) {
            if of_model.weighted && !of_graph.weighted {
                return Some(
                    "store the weights of its edges and partition it again, or train a model that reads none (without \
                     `edge_weights`)",
                );
            }
            if of_model.edge_dim > 0 && of_graph.edge_dim == 0 {
                return Some(
                    "store the features of its edges and partition it again, or train a model that reads none \
                     (`no_edge_features`)",
                );
            }
            if of_model.time_dim > 0 && of_graph.time_dim == 0 {
                return Some(
                    "store the times of its edges and partition it again, or train a model that reads none (without \
                     `time_encoding`)",
                );
            }
        }
        None
    }

    /// Checks that there are node types and edge types, that edge types join existing node types, and that nodes with added
    /// embeddings have features.
    ///
    /// # Errors
    /// [`ModelError::Schema`] if not.
    pub fn validate(&self) -> Result<(), ModelError> {
        let fail = |what: String| Err(ModelError::Schema { what });
        if self.node_types.is_empty() || self.edge_types.is_empty() {
            return fail("at least one node type and one edge type are needed".into());
        }
        let time_dim = self.time_dim();
        if self.edge_types.iter().any(|edges| edges.time_dim != 0 && edges.time_dim != time_dim) {
            return fail("the encodings of times of all edge types must have the same number of columns".into());
        }
        for nodes in self.node_types.iter().filter(|nodes| nodes.adds_embedding()) {
            if nodes.feature_dim == 0 || nodes.embedding_dim == 0 {
                return fail(format!("node type {} has no features or no embedding, which are added", nodes.name));
            }
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

//! The errors of a model's settings and input.

use thiserror::Error;

/// An error of a model's settings, or of a batch that does not match a model.
#[derive(Debug, Error, PartialEq)]
pub enum ModelError {
    /// A setting of 0 that must be at least 1.
    #[error("model setting {setting} is 0, it must be at least 1")]
    Zero {
        /// Name of the setting.
        setting: &'static str,
    },
    /// A dropout probability outside `[0, 1)`.
    #[error("model setting {setting} is {value}, it must be at least 0 and below 1")]
    Probability {
        /// Name of the setting.
        setting: &'static str,
        /// Value of the setting.
        value: f64,
    },
    /// More parameters than memory can address.
    #[error("model settings: the parameters do not fit in memory, use smaller sizes")]
    TooLarge,
    /// A block that reads another number of nodes than the features or the block before supply.
    #[error("block {block} reads {num_src} nodes, but the features or the block before it have {given}")]
    BlocksDoNotChain {
        /// Position of the block. 0 is the block of the first layer.
        block: usize,
        /// Rows that the block reads.
        num_src: usize,
        /// Rows that the features or the block before supply.
        given: usize,
    },
    /// A number of blocks that differs from the number of layers.
    #[error("a batch of {blocks} blocks for a model of {layers} layers, expected one block per layer")]
    LayerCount {
        /// Blocks of the batch.
        blocks: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Features whose width differs from the input width of the model.
    #[error("features have {given} columns, the model reads {expected}")]
    FeatureWidth {
        /// Columns of the features.
        given: usize,
        /// Input columns of the model.
        expected: usize,
    },
    /// Features of edges whose number of rows is not the number of edges.
    #[error("{given} rows of features for {expected} edges of type {relation}")]
    EdgeFeatures {
        /// Relation of the edge type.
        relation: String,
        /// Rows of the features.
        given: usize,
        /// Edges of the batch.
        expected: usize,
    },
    /// An invalid schema of a graph.
    #[error("schema of the graph: {what}")]
    Schema {
        /// Fault of the schema.
        what: String,
    },
    /// Settings that contradict each other.
    #[error("model settings: {what}")]
    Settings {
        /// The fault, and a way to correct it.
        what: String,
    },
    /// A batch of a graph with another schema than the model's.
    #[error("the batch is of another graph than the model: {what}")]
    ForeignSchema {
        /// First difference of the schemas.
        what: String,
    },
    /// A batch of a heterogeneous graph for a model of homogeneous graphs.
    #[error(
        "a batch of {node_types} node types and {edge_types} edge types for a model of homogeneous graphs: use a \
         relational model"
    )]
    Heterogeneous {
        /// Node types of the batch.
        node_types: usize,
        /// Edge types of the batch.
        edge_types: usize,
    },
    /// A number of entries that differs from the number of types.
    #[error("a batch with {given} {what} types for a graph with {expected}")]
    TypeCount {
        /// "node" or "edge".
        what: &'static str,
        /// Number of entries of the batch.
        given: usize,
        /// Number of types of the graph.
        expected: usize,
    },
    /// A node type that does not exist.
    #[error("node type number {node_type} does not exist, there are {types} node types")]
    NoSuchNodeType {
        /// Requested node type.
        node_type: usize,
        /// Number of node types.
        types: usize,
    },
    /// Prefix lengths that decrease or have the wrong number.
    #[error(
        "node type {node_type}: prefix lengths must not decrease, and there must be one more than the {layers} layers"
    )]
    Prefixes {
        /// Name of the node type.
        node_type: String,
        /// Layers of the batch.
        layers: usize,
    },
    /// A number of rows that differs from the number of nodes.
    #[error("node type {node_type}: {given} rows of features or embeddings for {expected} nodes")]
    FeatureRows {
        /// Name of the node type.
        node_type: String,
        /// Number of given rows.
        given: usize,
        /// Nodes of the type.
        expected: usize,
    },
    /// Features or embeddings that are missing or have another width than the model reads.
    #[error("node type {node_type}: {given} columns of features or embeddings, the model reads {expected}")]
    NodeWidth {
        /// Name of the node type.
        node_type: String,
        /// Number of given columns; 0 if there are no features.
        given: usize,
        /// Columns that the model reads.
        expected: usize,
    },
    /// A block whose size differs from the prefixes of its node types.
    #[error(
        "edge type {relation}, layer {layer}: a block of {given:?} destinations and sources, expected {expected:?}"
    )]
    BlockSize {
        /// Name of the relation.
        relation: String,
        /// Layer, counted from 0.
        layer: usize,
        /// Destinations and sources of the block.
        given: [usize; 2],
        /// Destinations and sources by the prefixes of the node types.
        expected: [usize; 2],
    },
    /// A batch of whole graphs whose arrays have different numbers of nodes.
    #[error(
        "batch of graphs: {} rows of features, {} destinations, {} sources and {} pooled rows, but all four numbers \
         must be equal",
        given[0], given[1], given[2], given[3]
    )]
    Graphs {
        /// Rows of features, destinations and sources of the edges, and pooled rows.
        given: [usize; 4],
    },
    /// A batch without normalisation for a GCN.
    #[error("a GCN needs the normalisation of the batch, but this batch was made without it")]
    MissingNorm,
    /// A normalisation of another batch.
    #[error("the GCN normalisation was made for a batch of another size")]
    ForeignNorm,
}

/// The most layers of a model.
const MAX_LAYERS: usize = 1024;

impl ModelError {
    /// Checks that a model does not have more layers than any graph needs.
    pub(crate) fn check_num_layers(num_layers: usize) -> Result<(), Self> {
        if num_layers <= MAX_LAYERS {
            return Ok(());
        }
        Err(Self::Settings { what: format!("num_layers is {num_layers}, it must be at most {MAX_LAYERS}") })
    }

    /// Checks that `value` is a valid dropout probability.
    pub(crate) fn check_probability(setting: &'static str, value: f64) -> Result<(), Self> {
        if (0.0..1.0).contains(&value) { Ok(()) } else { Err(Self::Probability { setting, value }) }
    }
}

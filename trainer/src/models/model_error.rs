//! What can be wrong with a model's settings or input.

use thiserror::Error;

/// Settings that make no model, or a batch that does not fit one.
#[derive(Debug, Error, PartialEq)]
pub enum ModelError {
    /// A number of settings that has to be at least 1.
    #[error("model setting {setting} is 0, it has to be at least 1")]
    Zero {
        /// Name of the setting.
        setting: &'static str,
    },
    /// A dropout that is no probability below 1.
    #[error("model setting {setting} is {value}, it has to be at least 0 and below 1")]
    Probability {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: f64,
    },
    /// More parameters than memory can address.
    #[error("model settings ask for more parameters than fit in memory")]
    TooLarge,
    /// Blocks that do not follow on each other.
    #[error("block {block} reads {num_src} nodes, but {given} come in")]
    BlocksDoNotChain {
        /// Position of the block, 0 is the first layer's.
        block: usize,
        /// Rows it reads.
        num_src: usize,
        /// Rows that the features, or the block before, supply.
        given: usize,
    },
    /// Not one block per layer.
    #[error("a batch of {blocks} blocks for a model of {layers} layers")]
    LayerCount {
        /// Blocks of the batch.
        blocks: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Features of another width.
    #[error("features have {given} columns, the model reads {expected}")]
    FeatureWidth {
        /// Columns of the features.
        given: usize,
        /// The model's `in_channels`.
        expected: usize,
    },
    /// Types that make no graph.
    #[error("types of a graph: {what}")]
    Schema {
        /// What is wrong.
        what: String,
    },
    /// Settings that contradict each other.
    #[error("model settings: {what}")]
    Settings {
        /// What is wrong, and what to do.
        what: String,
    },
    /// A batch of other types than the model was made for.
    #[error("the batch is of another graph than the model: {what}")]
    ForeignSchema {
        /// Where they differ.
        what: String,
    },
    /// A batch of several types for a model of one.
    #[error(
        "a batch of {node_types} node types and {edge_types} edge types for a model of homogeneous graphs: take a \
         relational one"
    )]
    Heterogeneous {
        /// Node types of the batch.
        node_types: usize,
        /// Its edge types.
        edge_types: usize,
    },
    /// Not one entry per type.
    #[error("{given} {what} types in a batch of a graph that has {expected}")]
    TypeCount {
        /// "node" or "edge".
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many the graph has.
        expected: usize,
    },
    /// A node type that is not there.
    #[error("node type {node_type} of a batch that has {types}")]
    NoSuchNodeType {
        /// The type that was asked for.
        node_type: usize,
        /// How many there are.
        types: usize,
    },
    /// Prefix lengths that are none.
    #[error("node type {node_type}: prefix lengths have to ascend and be one more than the {layers} layers")]
    Prefixes {
        /// The node type's name.
        node_type: String,
        /// Layers of the batch.
        layers: usize,
    },
    /// Not a row per node.
    #[error("node type {node_type}: {given} rows of features or embeddings for {expected} nodes")]
    FeatureRows {
        /// The node type's name.
        node_type: String,
        /// Rows given.
        given: usize,
        /// Nodes of the type.
        expected: usize,
    },
    /// Rows of another width, or none at all.
    #[error("node type {node_type}: {given} columns of features or embeddings, the model reads {expected}")]
    NodeWidth {
        /// The node type's name.
        node_type: String,
        /// Columns given.
        given: usize,
        /// Columns that the model reads.
        expected: usize,
    },
    /// A block of another size than its ends' prefixes.
    #[error(
        "edge type {relation}, layer {layer}: a block of {given:?} destinations and sources, expected {expected:?}"
    )]
    BlockSize {
        /// The relation's name.
        relation: String,
        /// The layer, counted from 0.
        layer: usize,
        /// Destinations and sources of the block.
        given: [usize; 2],
        /// Those that the nodes' prefixes ask for.
        expected: [usize; 2],
    },
    /// Graphs whose arrays disagree.
    #[error("graphs side by side: {} rows of features, {} destinations, {} sources and {} pooled rows have to be as many", given[0], given[1], given[2], given[3])]
    Graphs {
        /// Rows of features, destinations and sources of the edges, pooled rows.
        given: [usize; 4],
    },
    /// A GCN's batch without normalisation.
    #[error("a GCN needs the batch's normalisation, and this batch came without it")]
    MissingNorm,
    /// A normalisation of another batch.
    #[error("the normalisation was made for a batch of another size")]
    ForeignNorm,
}

impl ModelError {
    /// Fails unless `value` can be the probability of a dropout.
    pub(super) fn check_probability(setting: &'static str, value: f64) -> Result<(), Self> {
        if (0.0..1.0).contains(&value) { Ok(()) } else { Err(Self::Probability { setting, value }) }
    }
}

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
    /// A batch that does not match the model, or whose parts do not match each other.
    #[error("{what}")]
    Batch {
        /// The mismatch.
        what: String,
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
    /// A node type that does not exist.
    #[error("node type number {node_type} does not exist, there are {types} node types")]
    NoSuchNodeType {
        /// Requested node type.
        node_type: usize,
        /// Number of node types.
        types: usize,
    },
}

/// The most layers of a model.
const MAX_LAYERS: usize = 1024;

impl ModelError {
    /// Returns the error of a batch that does not match.
    pub(crate) fn batch(what: impl Into<String>) -> Self {
        Self::Batch { what: what.into() }
    }

    /// Returns the error of a number of blocks that differs from the number of layers.
    pub(crate) fn layer_count(blocks: usize, layers: usize) -> Self {
        Self::batch(format!("a batch of {blocks} blocks for a model of {layers} layers, expected one block per layer"))
    }

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

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
    /// A GCN's batch without normalisation.
    #[error("a GCN needs the batch's normalisation, and this batch came without it")]
    MissingNorm,
    /// A normalisation of another batch.
    #[error("the normalisation was made for a batch of another size")]
    ForeignNorm,
}

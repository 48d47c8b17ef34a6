//! The errors of model files.

use std::io;
use std::path::PathBuf;

use safetensors::{Dtype, SafeTensorError};
use thiserror::Error;

use super::ModelError;
use edgecut_cluster::ClusterError;

/// An error of reading or writing a model file.
#[derive(Debug, Error)]
pub enum ModelFileError {
    /// The file cannot be read.
    #[error("read model {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("write model {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a safetensors file, or is damaged.
    #[error("model {path}: it is not a valid safetensors file, such as `save_model` writes")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SafeTensorError,
    },
    /// The file is a safetensors file, but not a model of this program.
    #[error("model {path}: it is not a model of this version: {}", why_foreign(.key, .found.as_deref(), .expected))]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The key of the entry.
        key: &'static str,
        /// The value of the entry, if it exists.
        found: Option<String>,
        /// The expected value.
        expected: &'static str,
    },
    /// The configuration in the metadata cannot be parsed.
    #[error("model {path}: metadata config is not a valid model configuration")]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The configuration in the metadata is invalid.
    #[error("model {path}: invalid configuration")]
    Model {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ModelError,
    },
    /// The configuration to save does not describe the model to save.
    #[error("write model {path}: the model has {held} parameters, its configuration describes {expected}")]
    ForeignConfig {
        /// The file.
        path: PathBuf,
        /// Parameters of the model.
        held: usize,
        /// Parameters by the configuration.
        expected: usize,
    },
    /// The file has another number of parameters than its configuration.
    #[error("model {path}: the file has {given} parameters, its configuration describes {expected}")]
    ParameterCount {
        /// The file.
        path: PathBuf,
        /// Parameters in the file.
        given: usize,
        /// Parameters by the configuration.
        expected: usize,
    },
    /// A tensor is missing.
    #[error("model {path}: tensor {tensor} is missing")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// The file has a tensor that the model does not have.
    #[error("model {path}: tensor {tensor} does not belong to this model")]
    UnexpectedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor has another element type than `F32`.
    #[error("model {path}: tensor {tensor} has type {found:?}, expected F32")]
    TensorType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The element type in the file.
        found: Dtype,
    },
    /// A tensor has another shape than the configuration describes.
    #[error("model {path}: tensor {tensor} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape by the configuration.
        expected: Vec<usize>,
    },
    /// A file with embeddings contradicts the model file or the graph.
    #[error("model {path}: {what}")]
    Shard {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The graph is not like the one that the model was trained on.
    #[error("model {path}: {what}")]
    OtherData {
        /// The file.
        path: PathBuf,
        /// The difference, and its remedy.
        what: String,
    },
    /// Files with embeddings are missing on this node.
    #[error(
        "model {path}: {rows} embeddings of node type {node_type} that this process needs may be in files that are \
         missing on this node ({}): copy them from the nodes that saved the model, or load it with the same nodes, \
         processes and parts",
        files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    MissingShards {
        /// The model file.
        path: PathBuf,
        /// The node type.
        node_type: String,
        /// Number of rows that were not found.
        rows: usize,
        /// The missing files.
        files: Vec<PathBuf>,
    },
    /// A collective failed while the ranks saved the model.
    #[error("save model {path} together with the other ranks")]
    Job {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<ClusterError>,
    },
    /// A value is not finite.
    #[error("model {path}: tensor {tensor} holds {value} at element {position}")]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The row-major position of the value.
        position: usize,
        /// The value.
        value: f32,
    },
}

/// Describes an entry of the metadata that has another value than models of this version have.
fn why_foreign(key: &str, found: Option<&str>, expected: &str) -> String {
    match found {
        Some(found) => format!("its metadata {key} is {found}, expected {expected}"),
        None => format!("its metadata has no {key}, expected {expected}"),
    }
}

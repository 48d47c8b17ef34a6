//! What can be wrong with a model file.

use std::io;
use std::path::PathBuf;

use safetensors::{Dtype, SafeTensorError};
use thiserror::Error;

use crate::models::ModelError;
use edgecut_cluster::ClusterError;

/// A model file that cannot be written or is not one.
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
    /// Not safetensors, or damaged.
    #[error("model {path}: no valid safetensors file")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SafeTensorError,
    },
    /// Safetensors, but not from here.
    #[error("model {path}: metadata {key} is {found:?}, expected {expected:?}")]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The entry.
        key: &'static str,
        /// What it says, if it is there.
        found: Option<String>,
        /// What it should say.
        expected: &'static str,
    },
    /// The settings in the file are no settings.
    #[error("model {path}: metadata config is no model configuration")]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The settings in the file make no model.
    #[error("model {path}: configuration")]
    Model {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ModelError,
    },
    /// The settings given for a model are not its own.
    #[error("write model {path}: it has {held} parameters, its configuration asks for {expected:?}")]
    ForeignConfig {
        /// The file.
        path: PathBuf,
        /// Parameters of the model.
        held: usize,
        /// Parameters by the configuration.
        expected: Option<usize>,
    },
    /// The file's settings ask for another amount of data than the file has.
    #[error("model {path}: {given} parameters, its configuration asks for {expected}")]
    ParameterCount {
        /// The file.
        path: PathBuf,
        /// Parameters in the file.
        given: usize,
        /// Parameters by the configuration.
        expected: usize,
    },
    /// A parameter is not there.
    #[error("model {path}: tensor {tensor} is missing")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor that the model does not have.
    #[error("model {path}: tensor {tensor} is none of this model's")]
    UnexpectedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor of another type.
    #[error("model {path}: tensor {tensor} has type {found:?}, expected F32")]
    TensorType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: Dtype,
    },
    /// A tensor of another shape.
    #[error("model {path}: tensor {tensor} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape by the configuration.
        expected: Vec<usize>,
    },
    /// A file with embeddings is not what the model file says.
    #[error("model {path}: {what}")]
    Shard {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Files with embeddings are not on this node.
    #[error(
        "model {path}: {rows} embeddings of node type {node_type} that this process needs may be in files that are missing on \
         this node ({}): copy them from the nodes that saved the model, or load it with the same nodes, processes and parts",
        files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    MissingShards {
        /// The model file.
        path: PathBuf,
        /// The node type.
        node_type: String,
        /// Rows that were not found.
        rows: usize,
        /// The files.
        files: Vec<PathBuf>,
    },
    /// The ranks could not save the model together.
    #[error("save model {path} with the other ranks")]
    Job {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<ClusterError>,
    },
    /// A value that is not finite.
    #[error("model {path}: tensor {tensor} holds {value} at element {position}")]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The element, row-major.
        position: usize,
        /// Its value.
        value: f32,
    },
}

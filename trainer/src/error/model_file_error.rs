//! The errors of model files.

use std::io;
use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;
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
    /// The content of a file is damaged, is not of this version, or contradicts the model or the graph.
    #[error("model {path}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault, and its remedy.
        what: String,
    },
}

impl ModelFileError {
    // These add the file to an error.

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path) -> impl Fn(SafeTensorError) -> Self {
        move |source| Self::Format { path: path.to_owned(), source }
    }

    pub(crate) fn config(path: &Path) -> impl Fn(serde_json::Error) -> Self {
        move |source| Self::Config { path: path.to_owned(), source }
    }

    pub(crate) fn model(path: &Path) -> impl Fn(ModelError) -> Self {
        move |source| Self::Model { path: path.to_owned(), source }
    }

    /// Returns the error of a file's content.
    pub fn content(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Content { path: path.into(), what: what.into() }
    }

    pub(crate) fn missing_tensor(path: &Path, tensor: &str) -> Self {
        Self::content(path, format!("tensor {tensor} is missing"))
    }

    pub(crate) fn unexpected_tensor(path: &Path, tensor: &str) -> Self {
        Self::content(path, format!("tensor {tensor} does not belong to this model"))
    }
}

//! Errors in graphs and their files.

use crate::memory::OutOfRange;
use std::path::PathBuf;
use thiserror::Error;

/// An error in a dataset or a part. It names the file or dataset and the problem.
#[derive(Debug, Error)]
pub enum GraphError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A scratch file could not be written or read.
    #[error("`scratch_dir` {}: {source}: choose a folder on a disk with more space, or without errors", dir.display())]
    Scratch {
        /// The folder of scratch files.
        dir: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The limit of memory does not suffice, or does not allow an operation.
    #[error("`memory_limit`: {why}")]
    MemoryLimit {
        /// The reason, and where possible the remedy.
        why: String,
    },
    /// The content of a file violates its format.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem, and where possible the remedy.
        why: String,
    },
    /// A description that is not valid JSON.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The content of a file is inconsistent.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file or its folder.
        path: PathBuf,
        /// The inconsistency.
        source: Box<GraphError>,
    },
    /// A `.npy` file without a valid header.
    #[error("{}: it is not a .npy file, or its header is damaged ({source})", path.display())]
    NpyHeader {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: std::io::Error,
    },
    /// A gzip file that cannot be decompressed.
    #[error("{}: the gzip file is corrupt ({source})", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The error of the decompressor.
        source: std::io::Error,
    },
    /// Range bounds that do not form a partition book.
    #[error("partition book: {why}")]
    Book {
        /// The violated invariant.
        why: String,
    },
    /// Arrays that do not form a valid CSC structure.
    #[error("in-edges: {why}")]
    Csc {
        /// The violated invariant.
        why: String,
    },
    /// A dataset with inconsistent contents.
    #[error("dataset {dataset}: {why}")]
    Dataset {
        /// The dataset's name.
        dataset: String,
        /// The inconsistency.
        why: String,
    },
    /// Features of a node type that the requested stored type cannot represent.
    #[error("node type {node_type}: {source}")]
    OutOfRange {
        /// The name of the node type.
        node_type: String,
        /// The value, its row and its column.
        source: OutOfRange,
    },
    /// Stored types for node types that do not exist or have no features.
    #[error("{why}")]
    FeatureDtypes {
        /// The reason.
        why: String,
    },
}

impl GraphError {
    /// Creates an I/O error at `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// Creates an error of the JSON in `path`.
    pub(crate) fn json(path: impl Into<PathBuf>, source: serde_json::Error) -> Self {
        Self::Json { path: path.into(), source }
    }

    /// Adds the path of the file to an inconsistency of its content.
    pub(crate) fn in_file(path: impl Into<PathBuf>, source: Self) -> Self {
        Self::InFile { path: path.into(), source: Box::new(source) }
    }

    /// Creates a format error in `path`.
    pub fn format(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Format { path: path.into(), why: why.into() }
    }
}

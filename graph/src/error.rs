//! What can be wrong with a graph or its files.

use std::path::PathBuf;
use thiserror::Error;

/// An error in a dataset or a part, naming the file and what is wrong with it.
#[derive(Debug, Error)]
pub enum GraphError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file's content is not what its format says.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Range bounds that are no partition.
    #[error("partition book: {why}")]
    Book {
        /// The invariant that fails.
        why: String,
    },
    /// Arrays that are no CSC.
    #[error("in-edges: {why}")]
    Csc {
        /// The invariant that fails.
        why: String,
    },
    /// A dataset that contradicts itself.
    #[error("dataset {dataset}: {why}")]
    Dataset {
        /// The dataset's name.
        dataset: String,
        /// What is wrong.
        why: String,
    },
}

impl GraphError {
    /// An I/O error at `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// A format error in `path`.
    pub fn format(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Format { path: path.into(), why: why.into() }
    }
}

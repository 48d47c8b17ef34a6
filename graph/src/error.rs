//! Errors in graphs and their files.

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
    /// The content of a file violates its format.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem, and where possible the remedy.
        why: String,
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
}

impl GraphError {
    /// Creates an I/O error at `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// Creates a format error in `path`.
    pub fn format(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Format { path: path.into(), why: why.into() }
    }
}

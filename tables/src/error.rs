//! Errors in configurations and tables.

use edgecut_graph::GraphError;
use std::path::PathBuf;
use thiserror::Error;

/// An error in a configuration, a table or the graph that they describe.
#[derive(Debug, Error)]
pub enum TableError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A problem of a whole file.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, and where possible the remedy.
        why: String,
    },
    /// A row that cannot be used.
    #[error(
        "{}: row {row}: {why} (rows are counted from 1, without a header). Correct the row, or drop such rows with \
         `on_bad_rows=drop`",
        path.display()
    )]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, counted from 1, without a header.
        row: u64,
        /// The problem.
        why: String,
    },
    /// A file that the CSV or Parquet reader rejects.
    #[error("{}: {source}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The error of the reader.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The graph of the tables is inconsistent.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl TableError {
    /// Creates an I/O error at `path`.
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// Creates an error of the file `path`.
    pub(crate) fn file(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::File { path: path.into(), why: why.into() }
    }

    /// Creates an error that the reader of the file `path` returned.
    pub(crate) fn table(path: impl Into<PathBuf>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Table { path: path.into(), source: source.into() }
    }
}

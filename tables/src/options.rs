//! The options for reading tables.

use crate::Transforms;
use edgecut_graph::Workspace;
use edgecut_settings::words;
use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

/// The options for reading tables.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// The seed of random splits and held-out edges.
    pub seed: u64,
    /// The treatment of rows that cannot be used.
    pub on_bad_rows: OnBadRows,
    /// The treatment of features and labels that are not supported.
    pub unsupported: Unsupported,
    /// The transforms to apply instead of fitting new ones.
    pub transforms: Option<Transforms>,
    /// True to leave the features of nodes to [`build_part_features`](crate::build_part_features).
    pub defers_features: bool,
    /// The place for arrays with a row per node or edge. Its observer is told about the tables that are read.
    pub space: Workspace,
    /// The access to tables in object stores, if the program has it.
    pub remote: Option<Arc<dyn RemoteTables>>,
}

/// The access to tables that are not files of this machine.
pub trait RemoteTables: Debug + Send + Sync {
    /// Returns the path, folder or pattern of the local copy of a table, or `None` if `files` names files of this machine.
    ///
    /// # Errors
    /// Files that cannot be fetched. The error names them.
    fn local_copy(&self, files: &str) -> Result<Option<String>, Box<dyn Error + Send + Sync>>;
}

/// The treatment of rows that cannot be used: rows with values that are not finite numbers, without an id or with one
/// that an earlier row has, and edges to nodes that do not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadRows {
    /// Reading fails at the first such row.
    #[default]
    Error,
    /// Such rows are left out and counted. Of several rows with the same id, the first stays.
    Drop,
}

/// The treatment of features and labels of GraphStorm that are not supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsupported {
    /// Reading fails.
    #[default]
    Error,
    /// They are left out, with a warning.
    Skip,
}

words!(OnBadRows, "treatment of bad rows", Error = "error", Drop = "drop");
words!(Unsupported, "treatment of unsupported keys", Error = "error", Skip = "skip");

//! The names of the files and folders of `.npy` arrays.

use crate::GraphError;
use std::path::PathBuf;

/// The folders that contain one folder per node type and per edge type.
pub(in crate::readers) const NODES_FOLDER: &str = "nodes";
pub(in crate::readers) const EDGES_FOLDER: &str = "edges";

/// The file that identifies a folder of `.npy` arrays.
pub(in crate::readers) const EDGE_INDEX_FILE: &str = "edge_index.npy";
/// The accepted names of the file of validation edges. The exporter writes the first one.
pub(super) const VALID_EDGE_FILES: [&str; 2] = ["valid_edge_index.npy", "val_edge_index.npy"];
pub(super) const TEST_EDGE_FILE: &str = "test_edge_index.npy";
/// The accepted names of the file of validation edges' times. The exporter writes the first one.
pub(super) const VALID_TIME_FILES: [&str; 2] = ["valid_edge_time.npy", "val_edge_time.npy"];
pub(super) const TEST_TIME_FILE: &str = "test_edge_time.npy";

/// Returns the only existing file among alternatives with the same meaning, if any. Fails if several exist.
pub(super) fn only_file(paths: impl Iterator<Item = PathBuf>) -> Result<Option<PathBuf>, GraphError> {
    let mut found = paths.filter(|path| path.exists());
    let first = found.next();
    if let (Some(one), Some(other)) = (&first, found.next()) {
        let why = format!("{} exists as well; keep one of them", other.display());
        return Err(GraphError::format(one, why));
    }
    Ok(first)
}

//! The names of the files and folders of `.npy` arrays.

use crate::GraphError;
use edgecut_settings::near_name;
use std::path::{Path, PathBuf};

/// The folders that contain one folder per node type and per edge type.
pub(in crate::readers) const NODES_FOLDER: &str = "nodes";
pub(in crate::readers) const EDGES_FOLDER: &str = "edges";

/// The file that identifies a folder of `.npy` arrays.
pub(in crate::readers) const EDGE_INDEX_FILE: &str = "edge_index.npy";
/// The accepted names of the file of validation edges. The exporter writes the first one.
pub(super) const VALID_EDGE_FILES: [&str; 2] = ["valid_edge_index.npy", "val_edge_index.npy"];
/// The file of numbers to predict.
pub(super) const TARGETS_FILE: &str = "targets.npy";
/// The file of the classes of edges.
pub(super) const EDGE_LABELS_FILE: &str = "edge_label.npy";
/// The file of numbers to predict for edges.
pub(super) const EDGE_TARGETS_FILE: &str = "edge_target.npy";
pub(super) const TEST_EDGE_FILE: &str = "test_edge_index.npy";
/// The accepted names of the file of validation edges' times. The exporter writes the first one.
pub(super) const VALID_TIME_FILES: [&str; 2] = ["valid_edge_time.npy", "val_edge_time.npy"];
pub(super) const TEST_TIME_FILE: &str = "test_edge_time.npy";

/// The accepted names of the file of validation edges' own negatives. The exporter writes the first one.
pub(super) const VALID_NEGATIVE_FILES: [&str; 2] = ["valid_neg.npy", "val_neg.npy"];
pub(super) const TEST_NEGATIVE_FILE: &str = "test_neg.npy";
/// The accepted names of the file of negative pairs that all validation edges share. The exporter writes the first one.
pub(super) const VALID_SHARED_FILES: [&str; 2] = ["valid_edge_neg.npy", "val_edge_neg.npy"];
pub(super) const TEST_SHARED_FILE: &str = "test_edge_neg.npy";

/// The names of arrays that have a row per node, or list nodes, without `.npy`.
const NODE_ARRAYS: [&str; 13] = [
    "x",
    "y",
    "targets",
    "node_time",
    "num_nodes",
    "train_idx",
    "valid_idx",
    "val_idx",
    "test_idx",
    "train_mask",
    "valid_mask",
    "val_mask",
    "test_mask",
];
/// The names of arrays of edges.
const EDGE_ARRAYS: [&str; 26] = [
    "edge_index",
    "edge_attr",
    "edge_weight",
    "edge_time",
    "edge_label",
    "edge_target",
    "edge_train_idx",
    "edge_valid_idx",
    "edge_val_idx",
    "edge_test_idx",
    "edge_train_mask",
    "edge_valid_mask",
    "edge_val_mask",
    "edge_test_mask",
    "valid_edge_index",
    "val_edge_index",
    "test_edge_index",
    "valid_edge_time",
    "val_edge_time",
    "test_edge_time",
    "valid_neg",
    "val_neg",
    "test_neg",
    "valid_edge_neg",
    "val_edge_neg",
    "test_edge_neg",
];

/// Returns the `.npy` files in `folder` with other names than those of arrays of nodes and of edges, sorted.
pub(in crate::readers) fn stray_arrays(
    folder: &Path,
    of_nodes: bool,
    of_edges: bool,
) -> Result<Vec<PathBuf>, GraphError> {
    let is_known = |stem: &str| (of_nodes && NODE_ARRAYS.contains(&stem)) || (of_edges && EDGE_ARRAYS.contains(&stem));
    let entries = std::fs::read_dir(folder).map_err(|error| GraphError::io(folder, error))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_stray = |path: &PathBuf| {
        let stem = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".npy"));
        stem.is_some_and(|stem| !is_known(stem))
    };
    let mut strays: Vec<PathBuf> = paths.filter(is_stray).collect();
    strays.sort();
    Ok(strays)
}

/// Names that other programs give to arrays, each with the name here.
const OTHER_NAMES: [(&str, &str); 16] = [
    ("feat", "x"),
    ("feats", "x"),
    ("feature", "x"),
    ("features", "x"),
    ("node_feat", "x"),
    ("node_features", "x"),
    ("label", "y"),
    ("labels", "y"),
    ("node_label", "y"),
    ("time", "node_time"),
    ("times", "node_time"),
    ("edges", "edge_index"),
    ("edge_feat", "edge_attr"),
    ("edge_features", "edge_attr"),
    ("weights", "edge_weight"),
    ("edge_times", "edge_time"),
];

/// Returns the name of the array that a file is probably meant to be, without `.npy`.
pub(in crate::readers) fn near_array(path: &Path) -> Option<&'static str> {
    let stem = path.file_stem()?.to_str()?;
    let other = OTHER_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(stem)).map(|(_, known)| *known);
    other.or_else(|| near_name(stem, NODE_ARRAYS.into_iter().chain(EDGE_ARRAYS)))
}

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

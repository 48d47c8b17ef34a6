//! The names of the folders of a partitioned graph.

use super::EdgeTypeMeta;
use crate::DiskPartId;

/// Returns the folder of a part, relative to `META.json`.
pub fn part_dir(part: DiskPartId) -> String {
    format!("part_{part}")
}

/// Returns the folder of a node type, relative to its part.
pub fn node_dir(node_type: &str) -> String {
    format!("nodes/{node_type}")
}

/// Returns the folder of a label after the first one of its node type, relative to its part.
pub fn label_dir(node_type: &str, label: &str) -> String {
    format!("{}/labels/{label}", node_dir(node_type))
}

/// Returns the path of a file of a node type in a part, in the form of [`Meta::files`](crate::Meta::files).
pub fn node_file(part: DiskPartId, node_type: &str, file: &str) -> String {
    format!("{}/{}/{file}", part_dir(part), node_dir(node_type))
}

/// Returns the folder of an edge type, relative to its part.
pub fn edge_dir(edge_type: &EdgeTypeMeta) -> String {
    edge_dir_name(&edge_type.src_type, &edge_type.relation, &edge_type.dst_type)
}

/// Returns the folder of the edge type with these names, relative to its part.
pub(crate) fn edge_dir_name(src_type: &str, relation: &str, dst_type: &str) -> String {
    format!("edges/{src_type}__{relation}__{dst_type}")
}

/// Returns true if `name` can be the name of a folder: not empty, not hidden, and without separators and control
/// characters.
pub fn is_folder_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

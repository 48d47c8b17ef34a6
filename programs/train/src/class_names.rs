//! The names of classes, which the tables of a graph have.

use anyhow::Context;
use edgecut_graph::{EdgeTypeId, Meta, NodeTypeId, TRANSFORMS_FILE};
use serde_json::Value;
use std::path::Path;

/// Returns the names of the classes of nodes, if the parts at `root` come from tables that name them.
pub(crate) fn of_nodes(root: Option<&Path>, meta: &Meta, node_type: NodeTypeId) -> anyhow::Result<Option<Vec<String>>> {
    read(root, meta, "node_types", &meta.node_types[node_type.index()].name)
}

/// Returns the names of the classes of edges.
pub(crate) fn of_edges(root: Option<&Path>, meta: &Meta, edge_type: EdgeTypeId) -> anyhow::Result<Option<Vec<String>>> {
    let edges = &meta.edge_types[edge_type.index()];
    let name = edges.full_name();
    read(root, meta, "edge_types", &name)
}

fn read(root: Option<&Path>, meta: &Meta, kind: &str, name: &str) -> anyhow::Result<Option<Vec<String>>> {
    let Some(root) = root.filter(|_| meta.has_transforms) else { return Ok(None) };
    let path = root.join(TRANSFORMS_FILE);
    // Only one machine needs the file, for names in its outputs.
    if !path.exists() {
        return Ok(None);
    }
    let file = meta.open_file(root, TRANSFORMS_FILE)?;
    let transforms: Value = serde_json::from_reader(file).with_context(|| format!("read {}", path.display()))?;
    let classes = &transforms[kind][name]["classes"];
    serde_json::from_value(classes.clone()).with_context(|| format!("read {}", path.display()))
}

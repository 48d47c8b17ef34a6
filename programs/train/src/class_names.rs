//! The names of classes, which the tables of a graph have.

use anyhow::Context;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{EdgeTypeId, GraphDataset, Meta, NodeTypeId, TRANSFORMS_FILE};
use serde_json::Value;
use std::path::Path;

/// Returns the names of the classes of nodes, if the parts at `root` come from tables that name them.
pub(crate) fn of_nodes(root: Option<&Path>, meta: &Meta, node_type: NodeTypeId) -> anyhow::Result<Option<Vec<String>>> {
    of_label(root, meta, node_type, meta.node_types[node_type.index()].label_name.as_deref())
}

/// Returns the names of the classes of a label of nodes, which may be one of several.
pub(crate) fn of_label(
    root: Option<&Path>,
    meta: &Meta,
    node_type: NodeTypeId,
    label: Option<&str>,
) -> anyhow::Result<Option<Vec<String>>> {
    Names { kind: "node_types", name: &meta.node_types[node_type.index()].name, label }.read(root, meta)
}

/// Returns the names of the classes of edges.
pub(crate) fn of_edges(root: Option<&Path>, meta: &Meta, edge_type: EdgeTypeId) -> anyhow::Result<Option<Vec<String>>> {
    let edges = &meta.edge_types[edge_type.index()];
    let name = edges.full_name();
    Names { kind: "edge_types", name: &name, label: None }.read(root, meta)
}

/// Returns the labels of the classes of whole graphs in their files, unless they are the numbers of the classes.
pub(crate) fn of_graphs(graphs: &GraphDataset) -> Option<Vec<String>> {
    let is_numbered = (0..).zip(graphs.classes()).all(|(class, &label)| class == label);
    (!is_numbered).then(|| graphs.classes().iter().map(ToString::to_string).collect())
}

/// Returns the names that rank 0 reads, so that all ranks mean the same classes and no other machine needs the file. Every rank
/// must call this.
///
/// # Errors
/// The error of `read` on rank 0, and a failure of the job.
pub(crate) fn of_first_rank(
    world: &mut ProcessGroup,
    read: impl FnOnce() -> anyhow::Result<Option<Vec<String>>>,
) -> anyhow::Result<Option<Vec<String>>> {
    let names = if world.rank() == 0 { read()? } else { None };
    let mut text = serde_json::to_vec(&names).context("write the names of classes as JSON")?;
    world.broadcast_bytes(&mut text, 0)?;
    serde_json::from_slice(&text).context("read the names of classes of rank 0")
}

/// The entry of `transforms.json` with the names of the classes of a type.
struct Names<'a> {
    kind: &'a str,
    name: &'a str,
    /// The label of the type, if it has several.
    label: Option<&'a str>,
}

impl Names<'_> {
    fn read(&self, root: Option<&Path>, meta: &Meta) -> anyhow::Result<Option<Vec<String>>> {
        let Some(root) = root.filter(|_| meta.has_transforms) else { return Ok(None) };
        let path = root.join(TRANSFORMS_FILE);
        // Trainings do without names.
        if !path.exists() {
            return Ok(None);
        }
        let file = meta.open_file(root, TRANSFORMS_FILE)?;
        let transforms: Value = serde_json::from_reader(file).with_context(|| format!("read {}", path.display()))?;
        let of_type = &transforms[self.kind][self.name];
        // The first label is the label of the type itself.
        let of_label = self.label.and_then(|label| of_type["labels"].get(label)).unwrap_or(of_type);
        let classes = &of_label["classes"];
        serde_json::from_value(classes.clone()).with_context(|| format!("read {}", path.display()))
    }
}

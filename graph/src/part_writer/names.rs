//! Checks of type names, which become folder names.

use crate::NodeTypeId;
use crate::dataset::{Dataset, NodeData};
use crate::part::{edge_dir_name, is_folder_name};
use std::collections::BTreeSet;

/// Checks that every type has a valid and distinct folder name.
///
/// # Errors
/// Names the type whose name cannot be a folder name or is not distinct.
pub fn check_names(dataset: &Dataset) -> Result<(), String> {
    let mut taken = BTreeSet::new();
    for nodes in &dataset.node_types {
        if !is_folder_name(&nodes.name) {
            return Err(format!("the node type's name {:?} cannot be a folder name", nodes.name));
        }
        if !taken.insert(&nodes.name) {
            return Err(format!("two node types have the name {}", nodes.name));
        }
        if !nodes.more_labels.is_empty() {
            check_labels(nodes)?;
        }
    }
    let mut taken = BTreeSet::new();
    for edges in &dataset.edge_types {
        if !is_folder_name(&edges.relation) {
            return Err(format!("the relation's name {:?} cannot be a folder name", edges.relation));
        }
        let known = |t: NodeTypeId| t.index() < dataset.node_types.len();
        if known(edges.src_type) && known(edges.dst_type) {
            let src_type = dataset.nodes(edges.src_type);
            let dst_type = dataset.nodes(edges.dst_type);
            let dir = edge_dir_name(&src_type.name, &edges.relation, &dst_type.name);
            if taken.contains(&dir) {
                return Err(format!("two edge types have the folder {dir}"));
            }
            taken.insert(dir);
        }
    }
    Ok(())
}

/// Checks the names of several labels by the rule of [`Meta::read`](crate::Meta::read), so that no parts are written that cannot be
/// opened.
fn check_labels(nodes: &NodeData) -> Result<(), String> {
    let mut taken = BTreeSet::new();
    let first = nodes.label_name.as_deref().unwrap_or_default();
    for name in std::iter::once(first).chain(nodes.more_labels.iter().map(|label| label.name.as_str())) {
        if !is_folder_name(name) {
            let why = "cannot be a folder name: give its column another name";
            return Err(format!("node type {}: the name of its label {name:?} {why}", nodes.name));
        }
        if !taken.insert(name) {
            return Err(format!("node type {} has two labels with the name {name}", nodes.name));
        }
    }
    Ok(())
}

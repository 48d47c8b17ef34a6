//! Checks of type names, which become folder names.

use crate::NodeTypeId;
use crate::dataset::Dataset;
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
        let mut labels = BTreeSet::from([nodes.label_name.as_deref().unwrap_or_default()]);
        for label in &nodes.more_labels {
            if !is_folder_name(&label.name) {
                let why = "cannot be a folder name: give its column another name";
                return Err(format!("node type {}: the name of its label {:?} {why}", nodes.name, label.name));
            }
            if !labels.insert(&label.name) {
                return Err(format!("node type {} has two labels with the name {}", nodes.name, label.name));
            }
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

//! The check of assignments of nodes to parts.

use crate::dataset::NodeData;

/// Checks that an assignment gives every node a part below `num_parts`.
///
/// # Errors
/// Describes the mismatch.
pub fn check_assignment(assignment: &[Vec<u32>], node_types: &[NodeData], num_parts: u32) -> Result<(), String> {
    if assignment.len() != node_types.len() {
        return Err(format!("{} node types, but the dataset has {}", assignment.len(), node_types.len()));
    }
    for (parts, nodes) in assignment.iter().zip(node_types) {
        if parts.len() != nodes.num_nodes {
            return Err(format!("{} nodes of type {}, expected {}", parts.len(), nodes.name, nodes.num_nodes));
        }
        if let Some(node) = parts.iter().position(|&part| part >= num_parts) {
            return Err(format!(
                "node {node} of type {} is assigned to part {}, outside 0..{num_parts}",
                nodes.name, parts[node]
            ));
        }
    }
    Ok(())
}

//! The check of assignments of nodes to parts.

use crate::dataset::NodeData;

/// Checks that an assignment gives every node a part below `num_parts`.
///
/// ```
/// use edgecut_graph::part_writer::check_assignment;
/// use edgecut_graph::readers::{FakeOptions, fake};
/// let graph = fake(&FakeOptions { avg_num_nodes: 4, ..FakeOptions::default() })?;
/// assert!(check_assignment(&[vec![0, 1, 1, 0]], &graph.node_types, 2).is_ok());
/// assert!(check_assignment(&[vec![0, 1, 2, 0]], &graph.node_types, 2).is_err());
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
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

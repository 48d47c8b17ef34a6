//! Datasets with edges grouped by destination.

use super::InEdges;
use crate::GraphError;
use crate::dataset::{Dataset, EdgeData, NodeData};
use crate::memory::Workspace;

/// A validated dataset with the in-edges of every destination in place of edge lists. This halves the memory, and both
/// the symmetric graph and the parts are built from it.
pub struct Grouped {
    /// The name of the dataset.
    pub name: String,
    /// The node types.
    pub node_types: Vec<NodeData>,
    /// The edge types.
    pub edge_types: Vec<InEdges>,
    /// The place for arrays that are made from the edges.
    pub space: Workspace,
}

impl Grouped {
    /// Groups the edges of a dataset that has passed [`Dataset::validate`] or [`Dataset::validate_structure`]. Each
    /// edge list is dropped once it is grouped, which frees its memory unless the caller holds another copy.
    ///
    /// # Errors
    /// [`GraphError::Scratch`], for a `space` of scratch files.
    pub fn new_in(space: &Workspace, dataset: Dataset) -> Result<Self, GraphError> {
        let Dataset { name, node_types, edge_types } = dataset;
        let group = |edges: EdgeData| {
            let num_rows = node_types[edges.dst_type.index()].num_nodes;
            InEdges::new_in(space, edges, num_rows)
        };
        let edge_types = edge_types.into_iter().map(group).collect::<Result<_, _>>()?;
        Ok(Self { name, node_types, edge_types, space: space.clone() })
    }

    /// Returns the number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(InEdges::num_edges).sum()
    }
}

//! Datasets with edges grouped by destination.

use super::InEdges;
use crate::dataset::{Dataset, EdgeData, NodeData};

/// A validated dataset with the in-edges of every destination in place of edge lists. This halves the memory, and both
/// the symmetric graph and the parts are built from it.
///
/// ```
/// use edgecut_graph::part_writer::Grouped;
/// use edgecut_graph::readers::{FakeOptions, fake};
/// let graph = fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() })?;
/// let num_edges = graph.num_edges();
/// let grouped = Grouped::new(graph);
/// assert_eq!(grouped.num_edges(), num_edges);
/// assert_eq!(grouped.edge_types[0].rows.num_rows(), 100);
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
pub struct Grouped {
    /// The name of the dataset.
    pub name: String,
    /// The node types.
    pub node_types: Vec<NodeData>,
    /// The edge types.
    pub edge_types: Vec<InEdges>,
}

impl Grouped {
    /// Groups the edges of a dataset that has passed [`Dataset::validate`] or [`Dataset::validate_structure`]. Each
    /// edge list is dropped once it is grouped, which frees its memory unless the caller holds another copy.
    pub fn new(dataset: Dataset) -> Self {
        let Dataset { name, node_types, edge_types } = dataset;
        let group = |edges: EdgeData| {
            let num_rows = node_types[edges.dst_type.index()].num_nodes;
            InEdges::new(edges, num_rows)
        };
        let edge_types = edge_types.into_iter().map(group).collect();
        Self { name, node_types, edge_types }
    }

    /// Returns the number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(InEdges::num_edges).sum()
    }
}

//! A dataset whose edges are grouped by destination.

use super::InEdges;
use crate::{Dataset, EdgeData, NodeData};

/// A dataset that is known to be good. In place of edge lists it has the in-edges of every destination: half the
/// memory, and what both the symmetric graph and the parts are made of.
pub struct Grouped {
    /// The dataset's name.
    pub name: String,
    /// Node types.
    pub node_types: Vec<NodeData>,
    /// Edge types.
    pub edge_types: Vec<InEdges>,
}

impl Grouped {
    /// Groups the edges of a dataset that [`Dataset::validate`] or [`Dataset::validate_structure`] has found to be good. Each edge list is let go of when it is grouped, which
    /// frees its memory unless the caller holds another copy.
    pub fn new(dataset: Dataset) -> Self {
        let Dataset { name, node_types, edge_types } = dataset;
        let group = |edges: EdgeData| {
            let num_rows = node_types[edges.dst_type.index()].num_nodes;
            InEdges::new(edges, num_rows)
        };
        let edge_types = edge_types.into_iter().map(group).collect();
        Self { name, node_types, edge_types }
    }

    /// The number of edges over all types.
    pub fn num_edges(&self) -> usize {
        self.edge_types.iter().map(InEdges::num_edges).sum()
    }
}

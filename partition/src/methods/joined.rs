//! One numbering over the nodes of all types.

use crate::PartitionError;
use edgecut_graph::NodeData;
use edgecut_graph::part_writer::Grouped;

/// Joined ids: the nodes of all types numbered end to end, in the order of their types.
#[derive(Debug)]
pub(crate) struct JoinedIds {
    /// The joined id of each type's first node, followed by the number of all nodes.
    starts: Vec<usize>,
}

impl JoinedIds {
    /// Numbers the nodes of `node_types`.
    /// # Errors
    /// Returns [`PartitionError::TooManyNodes`] if joined ids do not fit `u32`.
    pub(crate) fn new(node_types: &[NodeData]) -> Result<Self, PartitionError> {
        let mut starts = vec![0];
        for t in node_types {
            starts.push(starts[starts.len() - 1] + t.num_nodes);
        }
        let num_nodes = starts[starts.len() - 1];
        if num_nodes > u32::MAX as usize {
            return Err(PartitionError::TooManyNodes { num_nodes });
        }
        Ok(Self { starts })
    }

    /// Returns the number of nodes over all types.
    pub(crate) fn num_nodes(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the joined id of a type's first node.
    pub(crate) fn start(&self, node_type: usize) -> usize {
        self.starts[node_type]
    }

    /// Returns the end of each type's range of joined ids.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.starts[1..]
    }

    /// Returns the type of the node with this joined id.
    pub(crate) fn type_of(&self, node: usize) -> usize {
        self.ends().partition_point(|&end| end <= node)
    }

    /// Cuts an array over joined ids into one array per type.
    pub(crate) fn split<T: Copy>(&self, values: &[T]) -> Vec<Vec<T>> {
        self.starts.windows(2).map(|w| values[w[0]..w[1]].to_vec()).collect()
    }

    /// Returns the number of in-edges of each node, over all edge types, by joined id.
    pub(crate) fn in_degrees(&self, graph: &Grouped) -> Vec<u64> {
        let mut degrees = vec![0; self.num_nodes()];
        for edges in &graph.edge_types {
            let of_type = &mut degrees[self.start(edges.dst_type)..self.ends()[edges.dst_type]];
            of_type.iter_mut().enumerate().for_each(|(row, degree)| *degree += edges.rows.row_len(row));
        }
        degrees
    }
}

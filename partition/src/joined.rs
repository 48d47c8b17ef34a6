//! One graph over all node types.

use crate::PartitionError;
use crate::grouping::{Groups, Pairs};
use edgecut_graph::Dataset;

/// Joined ids: the nodes of all types numbered end to end, in the order of their types.
#[derive(Debug)]
pub(crate) struct JoinedIds {
    starts: Vec<usize>,
}

impl JoinedIds {
    /// # Errors
    /// [`PartitionError::TooManyNodes`] if joined ids do not fit `u32`.
    pub(crate) fn new(dataset: &Dataset) -> Result<Self, PartitionError> {
        let mut starts = vec![0];
        for t in &dataset.node_types {
            starts.push(starts[starts.len() - 1] + t.num_nodes);
        }
        let num_nodes = starts[starts.len() - 1];
        if num_nodes > u32::MAX as usize {
            return Err(PartitionError::TooManyNodes { num_nodes });
        }
        Ok(Self { starts })
    }

    /// Nodes over all types.
    pub(crate) fn num_nodes(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// The joined id of a type's first node.
    pub(crate) fn start(&self, node_type: usize) -> usize {
        self.starts[node_type]
    }

    /// The end of each type's range.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.starts[1..]
    }

    /// Cuts an array over joined ids into one per type.
    pub(crate) fn split<T: Copy>(&self, values: &[T]) -> Vec<Vec<T>> {
        self.starts.windows(2).map(|w| values[w[0]..w[1]].to_vec()).collect()
    }

    /// The neighbors of each node: both directions of every edge, sorted, without duplicates and self loops.
    pub(crate) fn symmetric(&self, dataset: &Dataset) -> Groups {
        let mut graph = Groups::new(self.num_nodes(), &BothDirections { ids: self, dataset });
        graph.sort_and_dedup_rows();
        graph
    }

    /// The number of in-edges of each node.
    pub(crate) fn in_degrees(&self, dataset: &Dataset) -> Vec<u64> {
        let mut degrees = vec![0; self.num_nodes()];
        for edges in &dataset.edge_types {
            let start = self.start(edges.dst_type.index());
            edges.dst.iter().for_each(|&node| degrees[start + node as usize] += 1);
        }
        degrees
    }
}

struct BothDirections<'a> {
    ids: &'a JoinedIds,
    dataset: &'a Dataset,
}

impl Pairs for BothDirections<'_> {
    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        for edges in &self.dataset.edge_types {
            let src_start = self.ids.start(edges.src_type.index()) as u32;
            let dst_start = self.ids.start(edges.dst_type.index()) as u32;
            for (&src, &dst) in edges.src.iter().zip(&edges.dst[..]) {
                let (a, b) = (src_start + src, dst_start + dst);
                if a != b {
                    visit(a, b);
                    visit(b, a);
                }
            }
        }
    }
}

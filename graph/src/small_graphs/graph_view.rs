//! One graph of a set.

/// One graph of the set.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'a> {
    /// The first node, in the numbering of the whole set.
    pub first_node: usize,
    /// The offsets of the in-edges of each node in the edges of the whole set, `[num_nodes + 1]`.
    pub indptr: &'a [u64],
    /// The sources of the edges, grouped by destination and numbered within the graph.
    pub indices: &'a [u32],
}

impl GraphView<'_> {
    /// Returns the number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Returns the sources of a node's in-edges, in the order of the input.
    ///
    /// # Panics
    /// If the node is out of range.
    pub fn neighbors(&self, node: usize) -> &[u32] {
        let first = self.indptr[0];
        &self.indices[(self.indptr[node] - first) as usize..(self.indptr[node + 1] - first) as usize]
    }
}

//! The edges of a whole batch.

use thiserror::Error;

/// The in-edges of all nodes that a batch expanded, as one CSR in batch numbering: row = destination, column = source.
/// A heterogeneous batch has one graph per edge type.
///
/// Invariants, checked by [`BatchGraph::new`]:
/// - `indptr` has `num_rows + 1` entries, starts at 0, never decreases and ends at `indices.len()`;
/// - every entry of `indices` is below `num_nodes`.
///
/// Rows are nodes of the destination's type; `num_nodes` counts the nodes of the source's type. If both types are the
/// same, row `r` belongs to node `r`. Operations that read a destination's own row need this, and check that there are
/// enough nodes. Layers work on prefixes of the graph, see [`Block`](super::Block).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchGraph {
    indptr: Vec<u32>,
    indices: Vec<u32>,
    num_nodes: usize,
    #[cfg(feature = "cuda")]
    on_device: super::cube::DeviceCopy<edgecut_gpu::kernels::DeviceEdges>,
}

impl BatchGraph {
    /// Checks and takes the CSR of a batch.
    ///
    /// # Shapes
    /// - `indptr`: `[num_rows + 1]`
    /// - `indices`: `[num_edges]`, the sources of row `r` at `indptr[r]..indptr[r + 1]`
    ///
    /// # Errors
    /// [`BlockError`] if an invariant of the type does not hold.
    ///
    /// ```
    /// use edgecut_gnn::ops::BatchGraph;
    /// // Node 0 has the neighbors 1 and 2, node 1 has the neighbor 2.
    /// let graph = BatchGraph::new(vec![0, 2, 3], vec![1, 2, 2], 3)?;
    /// assert_eq!((graph.num_rows(), graph.num_edges()), (2, 3));
    /// assert!(BatchGraph::new(vec![0, 2, 3], vec![1, 2, 7], 3).is_err());
    /// # Ok::<(), edgecut_gnn::ops::BlockError>(())
    /// ```
    pub fn new(indptr: Vec<u32>, indices: Vec<u32>, num_nodes: usize) -> Result<Self, BlockError> {
        if num_nodes > u32::MAX as usize || indices.len() >= u32::MAX as usize {
            return Err(BlockError::TooLarge { num_nodes, num_edges: indices.len() });
        }
        let (Some(&first), Some(&last)) = (indptr.first(), indptr.last()) else {
            return Err(BlockError::EmptyIndptr);
        };
        if first != 0 || last as usize != indices.len() {
            return Err(BlockError::IndptrEnds { first, last, num_edges: indices.len() });
        }
        if let Some(row) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(BlockError::IndptrDecreases { row });
        }
        if let Some(edge) = position_at_least(&indices, num_nodes) {
            return Err(BlockError::SourceOutOfRange { edge, source_node: indices[edge], num_src: num_nodes });
        }
        Ok(Self {
            indptr,
            indices,
            num_nodes,
            #[cfg(feature = "cuda")]
            on_device: Default::default(),
        })
    }

    /// Returns the number of rows, including those without edges.
    pub fn num_rows(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Returns the number of nodes of the source's type in the batch, including those without a row.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// Returns the number of edges.
    pub fn num_edges(&self) -> usize {
        self.indices.len()
    }

    /// Returns the CSR offsets of the rows' edges, `[num_rows + 1]`.
    pub fn indptr(&self) -> &[u32] {
        &self.indptr
    }

    /// Returns the edges on the device. The first call copies them there. A process uses one device.
    #[cfg(feature = "cuda")]
    pub(super) fn on_device<R: cubecl::Runtime>(&self, device: &R::Device) -> &edgecut_gpu::kernels::DeviceEdges {
        self.on_device.get(|| edgecut_gpu::kernels::DeviceEdges::new::<R>(device, &self.indptr, &self.indices, None))
    }

    /// Returns the source of each edge, row after row, `[num_edges]`.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

/// Returns the position of the first edge whose source is at least `limit`.
pub(super) fn position_at_least(indices: &[u32], limit: usize) -> Option<usize> {
    // The maximum is a vectorised scan. The search for the position only runs on the error path.
    let max = indices.iter().copied().fold(0, u32::max);
    if indices.is_empty() || (max as usize) < limit {
        return None;
    }
    indices.iter().position(|&source| source as usize >= limit)
}

/// An error of the arrays of a batch, or of the prefix of a layer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// `indptr` has no entry.
    #[error("batch graph: indptr is empty, expected one entry more than there are rows")]
    EmptyIndptr,
    /// `indptr` does not span the edges.
    #[error("batch graph: indptr goes from {first} to {last}, expected 0 to {num_edges} (the number of edges)")]
    IndptrEnds {
        /// First entry.
        first: u32,
        /// Last entry.
        last: u32,
        /// Number of edges.
        num_edges: usize,
    },
    /// `indptr` decreases.
    #[error("batch graph: indptr decreases after row {row}")]
    IndptrDecreases {
        /// The row whose end lies before its start.
        row: usize,
    },
    /// Self loops of a graph with more rows than nodes.
    #[error(
        "self-loop weights for {num_rows} rows but {num_nodes} source nodes: an edge type between two node types has \
         no self loops, pass none"
    )]
    MoreRowsThanNodes {
        /// Number of rows.
        num_rows: usize,
        /// Number of nodes.
        num_nodes: usize,
    },
    /// An edge from a node that is not in the batch or the block.
    #[error("edge {edge} comes from node {source_node}, but there are only {num_src} source nodes")]
    SourceOutOfRange {
        /// Position of the edge.
        edge: usize,
        /// Its source.
        source_node: u32,
        /// Number of source nodes.
        num_src: usize,
    },
    /// More nodes or edges than 32 bits can number.
    #[error(
        "batch graph of {num_nodes} nodes and {num_edges} edges: a batch numbers both with 32 bits, use smaller batches"
    )]
    TooLarge {
        /// Number of nodes.
        num_nodes: usize,
        /// Number of edges.
        num_edges: usize,
    },
    /// A block that is not a prefix of its graph.
    #[error(
        "block of {num_dst} destinations and {num_src} sources on a batch of {num_rows} rows and {num_nodes} nodes: \
         needs destinations <= rows and sources <= nodes"
    )]
    NotAPrefix {
        /// Requested destinations.
        num_dst: usize,
        /// Requested sources.
        num_src: usize,
        /// Rows of the graph.
        num_rows: usize,
        /// Nodes of the graph.
        num_nodes: usize,
    },
    /// Too few prefix lengths.
    #[error("layers of a batch: {given} prefix lengths, at least 2 are needed (seeds, and nodes after the first hop)")]
    TooFewPrefixes {
        /// Number of given prefix lengths.
        given: usize,
    },
    /// Different numbers of prefix lengths for the two ends of an edge type.
    #[error("layers of a batch: {dst} prefix lengths of destinations but {src} of sources, expected as many of both")]
    PrefixCounts {
        /// Prefix lengths of the destinations.
        dst: usize,
        /// Prefix lengths of the sources.
        src: usize,
    },
    /// A wrong number of edge or self-loop weights.
    #[error("{given} {what} weights, expected {expected}")]
    WeightCount {
        /// "edge" or "self-loop".
        what: &'static str,
        /// Number of given weights.
        given: usize,
        /// Number of edges or rows.
        expected: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_each_broken_invariant() {
        let new = BatchGraph::new;
        assert_eq!(new(vec![], vec![], 0), Err(BlockError::EmptyIndptr));
        assert_eq!(new(vec![1, 1], vec![0], 1), Err(BlockError::IndptrEnds { first: 1, last: 1, num_edges: 1 }));
        assert_eq!(new(vec![0, 2], vec![0], 1), Err(BlockError::IndptrEnds { first: 0, last: 2, num_edges: 1 }));
        assert_eq!(new(vec![0, 2, 1, 2], vec![0, 0], 3), Err(BlockError::IndptrDecreases { row: 1 }));
        let out_of_range = BlockError::SourceOutOfRange { edge: 1, source_node: 2, num_src: 2 };
        assert_eq!(new(vec![0, 2], vec![1, 2], 2), Err(out_of_range));
        assert!(new(vec![0], vec![], 0).is_ok());
        assert!(new(vec![0, 0], vec![], 5).is_ok());
        assert!(new(vec![0, 1, 2], vec![0, 0], 1).is_ok(), "two destinations and one source of another node type");
    }
}

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
        let num_edges = indices.len();
        if num_nodes > u32::MAX as usize || num_edges >= u32::MAX as usize {
            return Err(BlockError(format!(
                "batch graph of {num_nodes} nodes and {num_edges} edges: a batch numbers both with 32 bits, use smaller \
                 batches"
            )));
        }
        let (Some(&first), Some(&last)) = (indptr.first(), indptr.last()) else {
            let what = "batch graph: indptr is empty, expected one entry more than there are rows";
            return Err(BlockError(what.into()));
        };
        if first != 0 || last as usize != num_edges {
            return Err(BlockError(format!(
                "batch graph: indptr goes from {first} to {last}, expected 0 to {num_edges} (the number of edges)"
            )));
        }
        if let Some(row) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(BlockError(format!("batch graph: indptr decreases after row {row}")));
        }
        if let Some(edge) = position_at_least(&indices, num_nodes) {
            return Err(BlockError::no_source(edge, indices[edge], num_nodes));
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

/// An error of the arrays of a batch, or of the prefix of a layer: the fault.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BlockError(pub(super) String);

impl BlockError {
    /// Returns the error of an edge from a node that is not in the batch or the block.
    pub(super) fn no_source(edge: usize, source: u32, num_src: usize) -> Self {
        Self(format!("edge {edge} comes from node {source}, but there are only {num_src} source nodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_each_broken_invariant() {
        let new = BatchGraph::new;
        let is_refused = |indptr: &[u32], indices: &[u32], num_nodes, what: &str| {
            new(indptr.to_vec(), indices.to_vec(), num_nodes).is_err_and(|error| error.0.contains(what))
        };
        assert!(is_refused(&[], &[], 0, "indptr is empty"));
        assert!(is_refused(&[1, 1], &[0], 1, "indptr goes from 1 to 1, expected 0 to 1"));
        assert!(is_refused(&[0, 2], &[0], 1, "indptr goes from 0 to 2, expected 0 to 1"));
        assert!(is_refused(&[0, 2, 1, 2], &[0, 0], 3, "indptr decreases after row 1"));
        assert!(is_refused(&[0, 2], &[1, 2], 2, "edge 1 comes from node 2, but there are only 2 source nodes"));
        assert!(new(vec![0], vec![], 0).is_ok());
        assert!(new(vec![0, 0], vec![], 5).is_ok());
        assert!(new(vec![0, 1, 2], vec![0, 0], 1).is_ok(), "two destinations and one source of another node type");
    }
}

//! The edges of a block grouped by source, for the backward pass.

/// The edges of a block sorted by source. The edges of a source keep their edge order, so their destinations ascend.
///
/// It is built per block instead of once per batch: blocks shrink geometrically from layer to layer, and the widest
/// block, which reads the input features, usually needs no backward pass.
#[derive(Debug)]
pub(super) struct TransposedBlock {
    /// The offsets of the sources' edges, `[num_src + 1]`.
    pub(super) indptr: Vec<u32>,
    /// The destination of each edge.
    pub(super) rows: Vec<u32>,
    /// The position of each edge in the block's own order.
    pub(super) edges: Vec<u32>,
}

impl TransposedBlock {
    /// Transposes a CSR of `num_src` sources by a counting sort.
    ///
    /// The sort takes linear time and is stable, so that sums over a source's edges always have the same order.
    pub(super) fn new(indptr: &[u32], indices: &[u32], num_src: usize) -> Self {
        let mut starts = vec![0u32; num_src + 1];
        for &source in indices {
            starts[source as usize + 1] += 1;
        }
        for source in 0..num_src {
            starts[source + 1] += starts[source];
        }
        // `next[source]` is the slot of the source's next edge.
        let mut next = starts.clone();
        let mut rows = vec![0u32; indices.len()];
        let mut edges = vec![0u32; indices.len()];
        for row in 0..indptr.len() - 1 {
            for edge in indptr[row]..indptr[row + 1] {
                let slot = &mut next[indices[edge as usize] as usize];
                rows[*slot as usize] = row as u32;
                edges[*slot as usize] = edge;
                *slot += 1;
            }
        }
        Self { indptr: starts, rows, edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_with_duplicates_and_self_loops() {
        let transposed = TransposedBlock::new(&[0, 3, 3, 5], &[2, 0, 2, 1, 2], 4);
        assert_eq!(transposed.indptr, [0, 1, 2, 5, 5]);
        assert_eq!(transposed.rows, [0, 2, 0, 0, 2]);
        assert_eq!(transposed.edges, [1, 3, 0, 2, 4]);
    }
}

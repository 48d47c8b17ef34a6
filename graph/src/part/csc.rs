//! In-edges grouped by destination.

use crate::GraphError;
use crate::memory::Buffer;

/// The in-neighbors of a set of destination nodes, as compressed sparse columns.
///
/// The neighbors of row `r` are `indices[indptr[r]..indptr[r + 1]]`, in the order of the original edge list.
/// Invariants: `indptr` has `num_rows + 1` entries, starts at 0, never decreases, and ends at `indices.len()`;
/// every index is below the number of source nodes.
#[derive(Clone, Debug)]
pub struct Csc {
    indptr: Buffer<u64>,
    indices: Buffer<u32>,
}

impl Csc {
    /// Checks the invariants and creates a `Csc`.
    ///
    /// # Errors
    /// Returns [`GraphError::Csc`] with the violated invariant and its row or edge.
    pub fn new(indptr: Buffer<u64>, indices: Buffer<u32>, num_sources: usize) -> Result<Self, GraphError> {
        let fail = |why: String| Err(GraphError::Csc { why });
        if indptr.first() != Some(&0) {
            return fail("indptr does not start at 0".into());
        }
        if let Some(row) = indptr.windows(2).position(|w| w[0] > w[1]) {
            return fail(format!("indptr decreases after row {row}"));
        }
        let end = indptr[indptr.len() - 1];
        if end != indices.len() as u64 {
            return fail(format!("indptr ends at {end}, but there are {} indices", indices.len()));
        }
        if let Some(edge) = indices.iter().position(|&i| i as usize >= num_sources) {
            return fail(format!("edge {edge} comes from node {}, past the last of {num_sources}", indices[edge]));
        }
        Ok(Self { indptr, indices })
    }

    /// Copies the arrays into the memory of this process if they are mapped.
    pub(crate) fn into_memory(self) -> Self {
        Self { indptr: self.indptr.into_memory(), indices: self.indices.into_memory() }
    }

    pub(super) fn release_pages(&self) {
        self.indptr.release_pages();
        self.indices.release_pages();
    }

    /// Returns true if any of the arrays is in a mapped file, so that reading it may wait for the disk.
    pub fn is_mapped(&self) -> bool {
        self.indptr.is_mapped() || self.indices.is_mapped()
    }

    /// Returns the number of destination rows.
    pub fn num_rows(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Returns the number of edges.
    pub fn num_edges(&self) -> usize {
        self.indices.len()
    }

    /// Returns the in-degree of `row`.
    pub fn degree(&self, row: usize) -> usize {
        (self.indptr[row + 1] - self.indptr[row]) as usize
    }

    /// Returns the in-neighbors of `row`, in the order of the original edge list.
    pub fn neighbors(&self, row: usize) -> &[u32] {
        &self.indices[self.indptr[row] as usize..self.indptr[row + 1] as usize]
    }

    /// Returns the `num_rows + 1` offsets into [`Csc::indices`].
    pub fn indptr(&self) -> &[u64] {
        &self.indptr
    }

    /// Returns the in-neighbors of all rows, end to end.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    fn csc(indptr: &[u64], indices: &[u32], sources: usize) -> Result<Csc, GraphError> {
        Csc::new(indptr.to_vec().into(), indices.to_vec().into(), sources)
    }

    #[test]
    fn rows_hold_their_neighbors_in_order() {
        let csc = csc(&[0, 2, 2, 3], &[1, 0, 2], 3).unwrap();
        assert_eq!(csc.neighbors(0), [1, 0]);
        assert_eq!((csc.degree(1), csc.degree(2)), (0, 1));
    }

    #[test]
    fn rejects_each_broken_invariant() {
        for (indptr, indices, why) in [
            (&[][..], &[][..], "start at 0"),
            (&[1, 2][..], &[0, 0][..], "start at 0"),
            (&[0, 2, 1][..], &[0][..], "decreases"),
            (&[0, 2][..], &[0][..], "ends at 2"),
            (&[0, 1][..], &[3][..], "past the last"),
        ] {
            assert_has(csc(indptr, indices, 3).unwrap_err().to_string(), &[why]);
        }
    }
}

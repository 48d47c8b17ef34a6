//! The owners of nodes.

use crate::{DiskPartId, GlobalNodeId, GraphError, PartitionId};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The owner of every node of one node type, in `N + 1` numbers for `N` parts.
///
/// Part `p` owns the global ids `starts[p]..starts[p + 1]`. Invariants: there is at least one part, `starts[0] == 0`,
/// the starts never decrease, and the last entry, which is the number of nodes, is at most `u32::MAX`.
///
/// The owner of a node is found by a binary search in these numbers, and its row in the part by a subtraction. No
/// process holds a map of the whole graph.
///
/// ```
/// use edgecut_graph::{GlobalNodeId, PartitionBook, PartitionId};
/// let book = PartitionBook::new(vec![0, 3, 3, 10])?;
/// assert_eq!(book.owner(GlobalNodeId(2)), PartitionId(0));
/// assert_eq!(book.owner(GlobalNodeId(3)), PartitionId(2)); // part 1 is empty
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct PartitionBook {
    starts: Vec<u32>,
}

impl PartitionBook {
    /// Creates a book from the `N + 1` range bounds.
    ///
    /// # Errors
    /// Returns [`GraphError::Book`] if an invariant of the type is violated.
    pub fn new(starts: Vec<u64>) -> Result<Self, GraphError> {
        let fail = |why: &str| Err(GraphError::Book { why: why.into() });
        if starts.len() < 2 {
            return fail("it has no part");
        }
        if starts[0] != 0 {
            return fail("the first range does not start at 0");
        }
        if starts.windows(2).any(|w| w[0] > w[1]) {
            return fail("a range ends before it starts");
        }
        if starts[starts.len() - 1] > u64::from(u32::MAX) {
            return fail("a node type has more than 2^32 - 1 nodes");
        }
        Ok(Self { starts: starts.into_iter().map(|s| s as u32).collect() })
    }

    /// Returns the number of parts.
    pub fn num_parts(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of nodes over all parts.
    pub fn num_nodes(&self) -> usize {
        self.starts[self.starts.len() - 1] as usize
    }

    /// Returns the global ids that `part` owns.
    pub fn range(&self, part: PartitionId) -> Range<u32> {
        self.starts[part.index()]..self.starts[part.index() + 1]
    }

    /// Returns the owner of `node` by binary search. An id past the last range maps to the last part, so check
    /// untrusted ids with [`PartitionBook::contains`] first.
    pub fn owner(&self, node: GlobalNodeId) -> PartitionId {
        // The first start is 0 and the last is the number of nodes, so only the bounds between parts are searched.
        let after = self.starts[1..self.starts.len() - 1].partition_point(|&start| start <= node.0);
        PartitionId(after as u32)
    }

    /// Returns true if `node` is a valid id.
    pub fn contains(&self, node: GlobalNodeId) -> bool {
        (node.0 as usize) < self.num_nodes()
    }

    /// Returns this book as that of parts on disk. The caller knows that its parts are no groups.
    pub(super) fn on_disk(&self) -> DiskBook<'_> {
        DiskBook { book: self }
    }
}

/// The nodes of each part on disk, of one node type. [`Meta::book_on_disk`](crate::Meta::book_on_disk) returns it.
#[derive(Clone, Copy, Debug)]
pub struct DiskBook<'a> {
    book: &'a PartitionBook,
}

impl DiskBook<'_> {
    /// Returns the global ids of the nodes of `part`.
    pub fn range(self, part: DiskPartId) -> Range<u32> {
        self.book.range(PartitionId(part.0))
    }

    /// Returns the part on disk that has `node`, as [`PartitionBook::owner`] does.
    pub fn owner(self, node: GlobalNodeId) -> DiskPartId {
        DiskPartId(self.book.owner(node).0)
    }
}

impl TryFrom<Vec<u64>> for PartitionBook {
    type Error = GraphError;
    fn try_from(starts: Vec<u64>) -> Result<Self, GraphError> {
        Self::new(starts)
    }
}

impl From<PartitionBook> for Vec<u64> {
    fn from(book: PartitionBook) -> Self {
        book.starts.into_iter().map(u64::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_every_node_is_the_part_whose_range_holds_it() {
        let book = PartitionBook::new(vec![0, 0, 4, 4, 9, 9]).unwrap();
        for node in 0..9 {
            let part = book.owner(GlobalNodeId(node));
            assert!(book.range(part).contains(&node), "node {node} in part {part}");
        }
    }

    #[test]
    fn rejects_ranges_that_are_no_partition() {
        for starts in [vec![], vec![0], vec![1, 4], vec![0, 5, 4], vec![0, 1 << 33]] {
            assert!(PartitionBook::new(starts.clone()).is_err(), "{starts:?}");
        }
    }
}

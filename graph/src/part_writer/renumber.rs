//! New node ids: the nodes of each part are contiguous, in ascending order of their original ids.

use crate::part::PartitionBook;
use crate::{GlobalNodeId, GraphError, PartitionId};
use std::ops::Range;

/// The rows of each split of a node type, for each part.
pub(super) type SplitRows = [Vec<Vec<u32>>; 3];

/// The new numbering of the nodes of one type.
///
/// Invariants: `original[new[id]] == id` for every original id, and `original` ascends within each range of the book.
#[derive(Debug)]
pub(crate) struct Renumbering {
    /// The range of global ids of each part.
    pub(crate) book: PartitionBook,
    /// The global id of each original id.
    pub(crate) new: Vec<u32>,
    /// The original id of each global id.
    pub(crate) original: Vec<u32>,
}

impl Renumbering {
    /// Renumbers every node type. The assignment must be valid.
    pub(crate) fn of_types(assignment: &[Vec<u32>], num_parts: u32) -> Result<Vec<Self>, GraphError> {
        assignment.iter().map(|parts| Self::new(parts, num_parts)).collect()
    }

    fn new(parts: &[u32], num_parts: u32) -> Result<Self, GraphError> {
        let mut starts = vec![0_u64; num_parts as usize + 1];
        parts.iter().for_each(|&part| starts[part as usize + 1] += 1);
        for part in 0..num_parts as usize {
            starts[part + 1] += starts[part];
        }
        let mut next = starts.clone();
        let mut new = vec![0; parts.len()];
        let mut original = vec![0; parts.len()];
        // Visiting original ids in ascending order keeps them ascending within each part.
        for (id, &part) in parts.iter().enumerate() {
            let global = next[part as usize];
            next[part as usize] += 1;
            new[id] = global as u32;
            original[global as usize] = id as u32;
        }
        Ok(Self { book: PartitionBook::new(starts)?, new, original })
    }

    /// Splits ascending original ids by part and converts them to rows, which ascend as well.
    pub(crate) fn rows_by_part(&self, ids: &[u32]) -> Vec<Vec<u32>> {
        let mut rows = vec![Vec::new(); self.book.num_parts()];
        for &id in ids {
            let global = self.new[id as usize];
            let part = self.book.owner(GlobalNodeId(global));
            rows[part.index()].push(global - self.book.range(part).start);
        }
        rows
    }

    /// Returns the global ids of a part as indices.
    pub(crate) fn range(&self, part: u32) -> Range<usize> {
        let range = self.book.range(PartitionId(part));
        range.start as usize..range.end as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_contiguous_and_ascend_in_original_ids() {
        let numbering = Renumbering::new(&[2, 0, 2, 0, 0], 4).unwrap();
        assert_eq!(numbering.original, [1, 3, 4, 0, 2]);
        assert_eq!(numbering.new, [3, 0, 4, 1, 2]);
        assert_eq!((numbering.range(0), numbering.range(1), numbering.range(3)), (0..3, 3..3, 5..5));
        assert_eq!(numbering.rows_by_part(&[0, 2, 4]), [vec![2], vec![], vec![0, 1], vec![]]);
    }
}

//! The rows of a type that are used.

use std::ops::Range;

/// The rows that are left out, over all pieces of a table.
#[derive(Default)]
pub(super) struct Dropped {
    /// The rows, ascending.
    rows: Vec<u64>,
}

impl Dropped {
    /// Adds rows in any order.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = u64>) {
        self.rows.extend(rows);
        self.rows.sort_unstable();
        self.rows.dedup();
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns the rows of `range` that are used, counted from its start.
    pub(super) fn kept(&self, range: Range<u64>) -> impl Iterator<Item = usize> {
        let first = self.rows.partition_point(|&row| row < range.start);
        let mut dropped = self.rows[first..].iter().copied().peekable();
        let start = range.start;
        range.filter(move |row| dropped.next_if_eq(row).is_none()).map(move |row| (row - start) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_rows_are_left_out_of_every_range() {
        let mut dropped = Dropped::default();
        dropped.extend([7, 2, 7]);
        dropped.extend([3]);
        assert_eq!(dropped.len(), 3);
        assert_eq!(dropped.kept(0..5).collect::<Vec<_>>(), [0, 1, 4]);
        assert_eq!(dropped.kept(3..9).collect::<Vec<_>>(), [1, 2, 3, 5]);
        assert_eq!(dropped.kept(8..9).collect::<Vec<_>>(), [0]);
    }
}

//! The rows of a type that are used.

use edgecut_graph::RowNumber;
use std::ops::Range;

/// The rows that are left out, over all pieces of a table.
#[derive(Clone, Default)]
pub(super) struct Dropped {
    /// The rows, ascending.
    rows: Vec<u64>,
    /// The only rows that are used, ascending, if these are those of a part.
    only: Option<Vec<u64>>,
}

impl Dropped {
    /// Adds rows in any order.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = u64>) {
        self.rows.extend(rows);
        self.rows.sort_unstable();
        self.rows.dedup();
    }

    /// Also leaves out all rows but those of some nodes or edges, which are given by their ascending numbers among the other
    /// rows.
    pub(super) fn with_only<T: RowNumber>(self, numbers: impl IntoIterator<Item = T>) -> Self {
        let mut before = 0;
        let mut only = Vec::new();
        for number in numbers {
            let number: u64 = number.into();
            while self.rows.get(before).is_some_and(|&dropped| dropped <= number + before as u64) {
                before += 1;
            }
            only.push(number + before as u64);
        }
        Self { only: Some(only), ..self }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns true if a row is used.
    pub(super) fn uses(&self, row: u64) -> bool {
        match &self.only {
            Some(only) => only.binary_search(&row).is_ok(),
            None => self.rows.binary_search(&row).is_err(),
        }
    }

    /// Returns the rows of `range` that are left out because they are bad, counted from its start.
    pub(super) fn left_out(&self, range: Range<u64>) -> impl Iterator<Item = usize> {
        let within =
            self.rows.partition_point(|&row| row < range.start)..self.rows.partition_point(|&row| row < range.end);
        self.rows[within].iter().map(move |row| (row - range.start) as usize)
    }

    /// Returns the rows of `range` that are used, counted from its start.
    pub(super) fn kept(&self, range: Range<u64>) -> impl Iterator<Item = usize> {
        let first = self.rows.partition_point(|&row| row < range.start);
        let mut dropped = self.rows[first..].iter().copied().peekable();
        let start = range.start;
        let chosen = self.only.as_ref().map(|only| {
            let within = only.partition_point(|&row| row < range.start)..only.partition_point(|&row| row < range.end);
            only[within].iter().copied()
        });
        let others = if chosen.is_some() { 0..0 } else { range };
        let others = others.filter(move |row| dropped.next_if_eq(row).is_none());
        chosen.into_iter().flatten().chain(others).map(move |row| (row - start) as usize)
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
        assert_eq!(dropped.left_out(3..8).collect::<Vec<_>>(), [0, 4]);
        // The rows 0, 1, 4, 5, 6, 8 and 9 are the nodes 0 to 6.
        let part = dropped.with_only([1_u32, 2, 5]);
        assert_eq!(part.kept(0..5).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(part.kept(5..10).collect::<Vec<_>>(), [3]);
        assert_eq!((0..10).filter(|&row| part.uses(row)).collect::<Vec<_>>(), [1, 4, 8]);
    }
}

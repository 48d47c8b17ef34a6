//! The positions of rows in a list, for lists that are searched for many rows that they do not have.

use crate::numbering::node_table::NodeTable;

/// The bits of the filter per row. At most one of 16 rows that are not in the list passes.
const BITS_PER_ROW: usize = 16;
/// 2^64 divided by the golden ratio, as in [`NodeTable`].
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The position of each row of a list.
///
/// A filter of 2 to 4 bytes per row answers most searches for rows that are not in the list. It stays in the first-level
/// cache, and its branch is predicted, which a search in the table is not.
pub(crate) struct RowIndex {
    /// One bit per value of the hash, set if a row of the list has the value.
    filter: Vec<u64>,
    table: NodeTable,
}

impl RowIndex {
    /// Indexes a list. Of a row that is there twice, the first position is kept.
    pub(crate) fn new(rows: &[u32]) -> Self {
        let num_words = (rows.len() * BITS_PER_ROW).div_ceil(u64::BITS as usize).next_power_of_two();
        let mut filter = vec![0; num_words];
        let mut table = NodeTable::with_room_for(rows.len());
        for (&row, position) in rows.iter().zip(0..) {
            table.get_or_insert(row, position);
            let (word, bit) = place(row, num_words);
            filter[word] |= bit;
        }
        Self { filter, table }
    }

    /// Returns the position of `row`, if it is in the list.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<u32> {
        if self.may_have(row) { self.table.get(row) } else { None }
    }

    /// Returns true if the list has `row`, and for few other rows.
    #[inline]
    fn may_have(&self, row: u32) -> bool {
        let (word, bit) = place(row, self.filter.len());
        self.filter[word] & bit != 0
    }
}

/// Returns the word of a filter that has the bit of `row`, and the bit. The number of words is a power of two.
#[inline]
fn place(row: u32, num_words: usize) -> (usize, u64) {
    let num_bits = num_words * u64::BITS as usize;
    let hash = u64::from(row).wrapping_mul(MULTIPLIER) >> (u64::BITS - num_bits.trailing_zeros());
    (hash as usize / u64::BITS as usize, 1 << (hash % u64::from(u64::BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_are_found_and_other_rows_are_not(
            rows in prop::collection::vec(any::<u32>(), 0..2000),
            others in prop::collection::vec(any::<u32>(), 0..200),
            bound in prop::sample::select(vec![1_u32, 70, 5000, u32::MAX]),
        ) {
            let rows: Vec<u32> = rows.into_iter().map(|row| row % bound).collect();
            let index = RowIndex::new(&rows);
            for row in rows.iter().copied().chain(others).chain([0, u32::MAX]) {
                let expected = rows.iter().position(|&other| other == row);
                prop_assert_eq!(index.get(row), expected.map(|at| at as u32));
            }
        }
    }

    #[test]
    fn few_other_rows_pass_the_filter() {
        for num_rows in [1, 63, 1000, 100_000] {
            let rows: Vec<u32> = (0..num_rows).map(|row| row * 3).collect();
            let index = RowIndex::new(&rows);
            let passed = (0..10_000).filter(|other| index.may_have(other * 3 + 1)).count();
            assert!(passed <= 10_000 / 8, "{passed} beside {num_rows} rows");
        }
    }
}

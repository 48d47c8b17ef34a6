//! Values by row: the one structure that in-edges and the symmetric graph are made of.

use rayon::prelude::*;
use std::ops::Range;

/// Pairs of a row and a value. They can be gone through several times, always in the same order.
pub trait Pairs: Sync {
    /// An id, or where ids do not suffice, a position among edges.
    type Value: Copy + Default + Send + Sync;

    /// Shows every pair to `visit`.
    fn for_each(&self, visit: impl FnMut(u32, Self::Value));
}

impl Pairs for Vec<(u32, u32)> {
    type Value = u32;

    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        self.iter().for_each(|&(row, value)| visit(row, value));
    }
}

/// Values by row.
///
/// Invariants: `offsets` has `num_rows + 1` entries, starts at 0, never decreases and ends at `values.len()`; the
/// values of row `r` are `values[offsets[r]..offsets[r + 1]]`.
#[derive(Debug, Default)]
pub struct Groups<V = u32> {
    /// Where each row begins, and the end of the last one.
    pub offsets: Vec<u64>,
    /// The values of all rows, one after the other.
    pub values: Vec<V>,
}

/// Every worker goes through all pairs, so that more than this many would only compete for memory.
const MAX_WORKERS: usize = 16;
/// Rows that are written as one task.
const ROWS_PER_TASK: usize = 4096;

impl<V: Copy + Default + Send + Sync> Groups<V> {
    /// A stable counting sort of `pairs` by row. Each worker owns a range of rows and passes over all pairs: pairs are
    /// read in order, writes stay in the worker's range, and no temporary copy of them is made.
    pub fn new(num_rows: usize, pairs: &impl Pairs<Value = V>) -> Self {
        let workers = rayon::current_num_threads().clamp(1, MAX_WORKERS);
        let mut offsets = vec![0_u64; num_rows + 1];
        let rows_per_worker = num_rows.div_ceil(workers).max(1);
        offsets[1..].par_chunks_mut(rows_per_worker).enumerate().for_each(|(worker, counts)| {
            let first = (worker * rows_per_worker) as u32;
            pairs.for_each(|row, _| {
                if let Some(count) = counts.get_mut(row.wrapping_sub(first) as usize) {
                    *count += 1;
                }
            });
        });
        for row in 0..num_rows {
            offsets[row + 1] += offsets[row];
        }
        let mut values = vec![V::default(); offsets[num_rows] as usize];
        split_by_weight(&offsets, &mut values, workers).into_par_iter().for_each(|(first, offsets, values)| {
            let base = offsets[0];
            let mut next: Vec<u64> = offsets[..offsets.len() - 1].iter().map(|offset| offset - base).collect();
            pairs.for_each(|row, value| {
                if let Some(next) = next.get_mut(row.wrapping_sub(first) as usize) {
                    values[*next as usize] = value;
                    *next += 1;
                }
            });
        });
        Self { offsets, values }
    }

    /// Rows that `fill` writes, in parallel. Row `r` gets room for `bounds[r + 1] - bounds[r]` values, zeros at first;
    /// `fill(r, room)` returns how many it has used, from the start.
    pub fn from_rows(bounds: Vec<u64>, fill: impl Fn(usize, &mut [V]) -> usize + Sync) -> Self {
        let num_rows = bounds.len() - 1;
        let mut values = vec![V::default(); bounds[num_rows] as usize];
        let tasks = split_by_weight(&bounds, &mut values, num_rows.div_ceil(ROWS_PER_TASK).max(1));
        let used: Vec<(Vec<u64>, usize)> = tasks
            .into_par_iter()
            .map(|(first, bounds, values)| {
                let mut kept = 0;
                let mut lengths = Vec::with_capacity(bounds.len() - 1);
                for (row, ends) in bounds.windows(2).enumerate() {
                    let (start, end) = ((ends[0] - bounds[0]) as usize, (ends[1] - bounds[0]) as usize);
                    let length = fill(first as usize + row, &mut values[start..end]);
                    if kept < start {
                        values.copy_within(start..start + length, kept);
                    }
                    kept += length;
                    lengths.push(length as u64);
                }
                (lengths, values.len())
            })
            .collect();
        let mut groups = Self { offsets: bounds, values };
        groups.close_gaps(used);
        groups
    }

    /// Moves the values of tasks together: (lengths of its rows, room it had) of each.
    fn close_gaps(&mut self, tasks: Vec<(Vec<u64>, usize)>) {
        let (mut row, mut read, mut written) = (0, 0, 0);
        for (lengths, room) in tasks {
            let start = written;
            for length in lengths {
                written += length as usize;
                row += 1;
                self.offsets[row] = written as u64;
            }
            if start < read {
                self.values.copy_within(read..read + (written - start), start);
            }
            read += room;
        }
        if written < self.values.len() {
            self.values.truncate(written);
            self.values.shrink_to_fit();
        }
    }

    /// The number of rows.
    pub fn num_rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The values of a row.
    pub fn row(&self, row: usize) -> &[V] {
        &self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The number of values in a row.
    pub fn row_len(&self, row: usize) -> u64 {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// Splits the rows into ranges with about as many values each, one per thread.
    pub fn row_ranges(&self) -> Vec<Range<usize>> {
        let shares = rayon::current_num_threads().clamp(1, MAX_WORKERS);
        row_ranges(&self.offsets, shares)
    }
}

/// Splits the rows into at most `shares` ranges with about as many values each.
fn row_ranges(offsets: &[u64], shares: usize) -> Vec<Range<usize>> {
    let num_rows = offsets.len() - 1;
    let total = offsets[num_rows];
    let mut ranges = Vec::with_capacity(shares);
    let mut first = 0;
    for share in 1..=shares {
        let goal = (u128::from(total) * share as u128 / shares as u128) as u64;
        let end = if share == shares { num_rows } else { offsets.partition_point(|&o| o < goal).min(num_rows) };
        if end > first {
            ranges.push(first..end);
            first = end;
        }
    }
    ranges
}

/// The ranges of [`row_ranges`] with what lies in them: (first row, its offsets and the end, its values).
fn split_by_weight<'a, V>(
    offsets: &'a [u64],
    mut values: &'a mut [V],
    shares: usize,
) -> Vec<(u32, &'a [u64], &'a mut [V])> {
    let cut = |range: Range<usize>| {
        let (head, tail) =
            std::mem::take(&mut values).split_at_mut((offsets[range.end] - offsets[range.start]) as usize);
        values = tail;
        (range.start as u32, &offsets[range.start..=range.end], head)
    };
    row_ranges(offsets, shares).into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn rows_hold_their_values_in_order(
            pairs in prop::collection::vec((0..40_u32, 0..20_u32), 0..300),
            threads in 1..5_usize,
        ) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let groups = pool.install(|| Groups::new(40, &pairs));
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            pairs.iter().for_each(|&(row, value)| expected.entry(row).or_default().push(value));
            for row in 0..40 {
                prop_assert_eq!(groups.row(row), expected.get(&(row as u32)).map_or(&[][..], |v| &v[..]));
            }
        }
    }

    #[test]
    fn rows_that_use_less_than_their_room_are_moved_together_over_several_tasks() {
        // Row r has room for r % 4 values, and uses one less if it is odd.
        let num_rows = 30_000_u64;
        let mut bounds = vec![0];
        (0..num_rows).for_each(|row| bounds.push(bounds[row as usize] + row % 4));
        let groups = Groups::from_rows(bounds, |row, room| {
            room.fill(row as u32);
            room.len() - row % 2
        });
        assert!((0..num_rows as usize).all(|r| groups.row(r) == vec![r as u32; r % 4 - r % 2]));
        assert_eq!((groups.num_rows(), groups.values.len()), (30_000, 30_000));
    }

    #[test]
    fn no_rows_and_no_pairs_are_fine() {
        let groups = Groups::new(0, &Vec::new());
        assert_eq!((groups.num_rows(), groups.values.len()), (0, 0));
        let groups: Groups = Groups::from_rows(vec![0], |_, _| unreachable!("there is no row"));
        assert_eq!((groups.num_rows(), groups.values.len()), (0, 0));
    }
}

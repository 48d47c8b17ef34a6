//! Grouping pairs by row: the one sort that both the symmetric graph and the in-edges need.

use rayon::prelude::*;

/// Pairs of a row and a value. They can be gone through several times, always in the same order.
pub(crate) trait Pairs: Sync {
    /// Shows every pair to `visit`.
    fn for_each(&self, visit: impl FnMut(u32, u32));
}

/// Values by row.
///
/// Invariants: `offsets` has `num_rows + 1` entries, starts at 0, never decreases and ends at `values.len()`; the
/// values of row `r` are `values[offsets[r]..offsets[r + 1]]`.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) offsets: Vec<u64>,
    pub(crate) values: Vec<u32>,
}

/// Every worker goes through all pairs, so that more than this many would only compete for memory.
const MAX_WORKERS: usize = 16;
/// Rows that are sorted as one task.
const ROWS_PER_TASK: usize = 4096;

impl Groups {
    /// A stable counting sort of `pairs` by row. Each worker owns a range of rows and passes over all pairs: pairs are
    /// read in order, writes stay in the worker's range, and no temporary copy of them is made.
    pub(crate) fn new(num_rows: usize, pairs: &impl Pairs) -> Self {
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
        let mut values = vec![0; offsets[num_rows] as usize];
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

    pub(crate) fn num_rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    pub(crate) fn row(&self, row: usize) -> &[u32] {
        &self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// Sorts each row and drops repeated values, in place.
    pub(crate) fn sort_and_dedup_rows(&mut self) {
        let tasks = self.num_rows().div_ceil(ROWS_PER_TASK).max(1);
        let ranges = split_by_weight(&self.offsets, &mut self.values, tasks);
        let sorted: Vec<(Vec<u32>, usize)> = ranges
            .into_par_iter()
            .map(|(_, offsets, values)| {
                let mut kept = 0;
                let mut lengths = Vec::with_capacity(offsets.len() - 1);
                for bounds in offsets.windows(2) {
                    let (start, end) = ((bounds[0] - offsets[0]) as usize, (bounds[1] - offsets[0]) as usize);
                    values[start..end].sort_unstable();
                    let row_start = kept;
                    for at in start..end {
                        if kept == row_start || values[kept - 1] != values[at] {
                            values[kept] = values[at];
                            kept += 1;
                        }
                    }
                    lengths.push((kept - row_start) as u32);
                }
                (lengths, values.len())
            })
            .collect();
        let (mut row, mut read, mut written) = (0, 0, 0);
        for (lengths, held) in sorted {
            let start = written;
            for length in lengths {
                written += length as usize;
                row += 1;
                self.offsets[row] = written as u64;
            }
            self.values.copy_within(read..read + (written - start), start);
            read += held;
        }
        self.values.truncate(written);
        self.values.shrink_to_fit();
    }
}

/// Splits the rows into at most `shares` ranges with about as many values each: (first row, its offsets and the end,
/// its values).
fn split_by_weight<'a>(
    offsets: &'a [u64],
    mut values: &'a mut [u32],
    shares: usize,
) -> Vec<(u32, &'a [u64], &'a mut [u32])> {
    let num_rows = offsets.len() - 1;
    let total = offsets[num_rows];
    let mut ranges = Vec::with_capacity(shares);
    let mut first = 0;
    for share in 1..=shares {
        let goal = (u128::from(total) * share as u128 / shares as u128) as u64;
        let end = if share == shares { num_rows } else { offsets.partition_point(|&o| o < goal).min(num_rows) };
        if end <= first {
            continue;
        }
        let (head, tail) = values.split_at_mut((offsets[end] - offsets[first]) as usize);
        values = tail;
        ranges.push((first as u32, &offsets[first..=end], head));
        first = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    impl Pairs for Vec<(u32, u32)> {
        fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
            self.iter().for_each(|&(row, value)| visit(row, value));
        }
    }

    proptest! {
        #[test]
        fn rows_hold_their_values_in_order_and_then_as_sets(
            pairs in prop::collection::vec((0..40_u32, 0..20_u32), 0..300),
            threads in 1..5_usize,
        ) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut groups = pool.install(|| Groups::new(40, &pairs));
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            pairs.iter().for_each(|&(row, value)| expected.entry(row).or_default().push(value));
            for row in 0..40 {
                prop_assert_eq!(groups.row(row), expected.get(&(row as u32)).map_or(&[][..], |v| &v[..]));
            }
            pool.install(|| groups.sort_and_dedup_rows());
            for row in 0..40 {
                let set: BTreeSet<u32> = expected.remove(&(row as u32)).unwrap_or_default().into_iter().collect();
                prop_assert_eq!(groups.row(row), set.into_iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn many_rows_are_compacted_over_several_tasks() {
        let pairs: Vec<(u32, u32)> = (0..30_000_u32).flat_map(|r| [(r, r + 1), (r, r), (r, r + 1)]).collect();
        let mut groups = Groups::new(30_000, &pairs);
        groups.sort_and_dedup_rows();
        assert!((0..30_000).all(|r| groups.row(r) == [r as u32, r as u32 + 1]));
        assert_eq!(groups.values.len(), 60_000);
    }

    #[test]
    fn no_rows_and_no_pairs_are_fine() {
        let mut groups = Groups::new(0, &Vec::new());
        groups.sort_and_dedup_rows();
        assert_eq!((groups.num_rows(), groups.values.len()), (0, 0));
    }
}

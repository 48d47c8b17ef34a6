//! Values grouped by row, the structure behind in-edges and the symmetric graph.

use super::external;
use crate::memory::{Buffer, Workspace};
use crate::{GraphError, parallel};
use bytemuck::Pod;
use std::ops::Range;

/// A sequence of (row, value) pairs that can be visited several times, always in the same order.
pub trait Pairs: Sync {
    /// The type of values: ids, or positions among edges if ids do not suffice.
    type Value: Pod + Default + Send + Sync;

    /// Calls `visit` for every pair.
    fn for_each(&self, visit: impl FnMut(u32, Self::Value));
}

impl Pairs for Vec<(u32, u32)> {
    type Value = u32;

    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        self.iter().for_each(|&(row, value)| visit(row, value));
    }
}

/// Values grouped by row.
///
/// Invariants: `offsets` has `num_rows + 1` entries, starts at 0, never decreases and ends at `values.len()`. The
/// values of row `r` are `values[offsets[r]..offsets[r + 1]]`.
#[derive(Debug, Default)]
pub struct Groups<V: Pod = u32> {
    /// The start of each row, followed by the end of the last row.
    pub offsets: Buffer<u64>,
    /// The values of all rows, end to end.
    pub values: Buffer<V>,
}

/// The maximum number of workers. Every worker visits all pairs, so more workers would only compete for memory
/// bandwidth.
const MAX_WORKERS: usize = 16;
/// The number of rows that one task writes.
const ROWS_PER_TASK: usize = 4096;

impl<V: Pod + Default + Send + Sync> Groups<V> {
    /// Groups `pairs` by row with a stable counting sort. Each worker owns a range of rows and visits all pairs. So
    /// pairs are read in order, writes stay in the worker's range, and no temporary copy of the pairs is needed.
    pub fn new(num_rows: usize, pairs: &impl Pairs<Value = V>) -> Self {
        let offsets = row_offsets(num_rows, pairs);
        let workers = num_workers();
        let mut values = vec![V::default(); offsets[num_rows] as usize];
        parallel::consume(split_by_weight(&offsets, &mut values, workers), &|rows| {
            let base = rows.offsets[0];
            // The position in `values` of the next value of each row.
            let mut next: Vec<u64> =
                rows.offsets[..rows.offsets.len() - 1].iter().map(|offset| offset - base).collect();
            pairs.for_each(|row, value| {
                if let Some(next) = next.get_mut(row.wrapping_sub(rows.first) as usize) {
                    rows.values[*next as usize] = value;
                    *next += 1;
                }
            });
        });
        Self { offsets: offsets.into(), values: values.into() }
    }

    /// Like [`Groups::new`], with the arrays in `space`. With scratch files, the pairs are distributed to buckets of rows
    /// in a file, and each bucket is sorted in memory. This takes 8 bytes per row and the working memory of `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub fn new_in(space: &Workspace, num_rows: usize, pairs: &impl Pairs<Value = V>) -> Result<Self, GraphError> {
        match space.get() {
            None => Ok(Self::new(num_rows, pairs)),
            Some(scratch) => external::group(scratch, num_rows, pairs),
        }
    }

    /// Like [`Groups::from_rows`], with the arrays in `space`. `room` is the number of values that a row has room for.
    ///
    /// # Errors
    /// [`GraphError::Scratch`], and [`GraphError::MemoryLimit`] for a row that the working memory has no room for.
    pub fn from_rows_in(
        space: &Workspace,
        num_rows: usize,
        room: impl Fn(usize) -> u64,
        fill: impl Fn(usize, &mut [V]) -> usize + Sync,
    ) -> Result<Self, GraphError> {
        match space.get() {
            None => {
                let mut bounds = Vec::with_capacity(num_rows + 1);
                bounds.push(0);
                (0..num_rows).for_each(|row| bounds.push(bounds[row] + room(row)));
                Ok(Self::from_rows(bounds, fill))
            }
            Some(scratch) => external::fill_rows(scratch, num_rows, room, fill),
        }
    }

    /// Builds rows that `fill` writes in parallel. Row `r` gets zeroed room for `bounds[r + 1] - bounds[r]` values.
    /// `fill(r, room)` returns the number of values that it wrote at the start of the room.
    pub fn from_rows(bounds: Vec<u64>, fill: impl Fn(usize, &mut [V]) -> usize + Sync) -> Self {
        let num_rows = bounds.len() - 1;
        let mut values = vec![V::default(); bounds[num_rows] as usize];
        let tasks = split_by_weight(&bounds, &mut values, num_rows.div_ceil(ROWS_PER_TASK).max(1));
        let mut tasks: Vec<FilledRows<V>> =
            tasks.into_iter().map(|rows| FilledRows { rows, lengths: Vec::new() }).collect();
        parallel::for_each_chunk(&mut tasks, 1, &|_, task| task[0].fill(&fill));
        let used = tasks.into_iter().map(FilledRows::used).collect();
        let mut offsets = bounds;
        close_gaps(&mut offsets, &mut values, used);
        Self { offsets: offsets.into(), values: values.into() }
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the values of a row.
    pub fn row(&self, row: usize) -> &[V] {
        &self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// Returns the number of values in a row.
    pub fn row_len(&self, row: usize) -> u64 {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// Splits the rows into one range per thread with about the same number of values each. Ranges of mapped rows have at
    /// most about `most_values` values, so that values of all ranges at work fit into memory.
    pub fn row_ranges(&self, most_values: usize) -> Vec<Range<usize>> {
        let threads = num_workers();
        let needed = if self.values.is_mapped() { self.values.len().div_ceil(most_values.max(1)) } else { 0 };
        row_ranges(&self.offsets, threads.max(needed))
    }
}

/// Returns the number of workers that visit all pairs at the same time.
pub(super) fn num_workers() -> usize {
    rayon::current_num_threads().clamp(1, MAX_WORKERS)
}

/// Returns the start of each row of the grouped pairs, followed by the end of the last row.
pub(super) fn row_offsets<V: Pod>(num_rows: usize, pairs: &impl Pairs<Value = V>) -> Vec<u64> {
    let mut offsets = vec![0_u64; num_rows + 1];
    let rows_per_worker = num_rows.div_ceil(num_workers()).max(1);
    parallel::for_each_chunk(&mut offsets[1..], rows_per_worker, &|first, counts| {
        pairs.for_each(|row, _| {
            // A row before `first` wraps around to a large index, so that `get_mut` rejects rows on both sides of the
            // range.
            if let Some(count) = counts.get_mut(row.wrapping_sub(first as u32) as usize) {
                *count += 1;
            }
        });
    });
    for row in 0..num_rows {
        offsets[row + 1] += offsets[row];
    }
    offsets
}

/// Moves the values of all tasks together.
fn close_gaps<V: Copy>(offsets: &mut [u64], values: &mut Vec<V>, tasks: Vec<UsedRoom>) {
    let mut row = 0;
    let mut read = 0;
    let mut written = 0;
    for UsedRoom { lengths, room } in tasks {
        let start = written;
        for length in lengths {
            written += length as usize;
            row += 1;
            offsets[row] = written as u64;
        }
        if start < read {
            values.copy_within(read..read + (written - start), start);
        }
        read += room;
    }
    if written < values.len() {
        values.truncate(written);
        values.shrink_to_fit();
    }
}

/// Splits the rows into at most `shares` ranges with about the same number of values each.
fn row_ranges(offsets: &[u64], shares: usize) -> Vec<Range<usize>> {
    let num_rows = offsets.len() - 1;
    let total = offsets[num_rows];
    let mut ranges = Vec::with_capacity(shares);
    let mut first = 0;
    for share in 1..=shares {
        // `total * share` may exceed 64 bits.
        let goal = (u128::from(total) * share as u128 / shares as u128) as u64;
        let end = if share == shares { num_rows } else { offsets.partition_point(|&o| o < goal).min(num_rows) };
        if end > first {
            ranges.push(first..end);
            first = end;
        }
    }
    ranges
}

/// A range of rows with their contents.
struct RowRange<'a, V> {
    /// The first row.
    first: u32,
    /// The start of each row, followed by the end of the last one.
    offsets: &'a [u64],
    /// The values of all rows, end to end.
    values: &'a mut [V],
}

/// Returns the ranges of [`row_ranges`] with their contents.
fn split_by_weight<'a, V>(offsets: &'a [u64], mut values: &'a mut [V], shares: usize) -> Vec<RowRange<'a, V>> {
    let cut = |range: Range<usize>| {
        let num_values = (offsets[range.end] - offsets[range.start]) as usize;
        let (head, tail) = std::mem::take(&mut values).split_at_mut(num_values);
        values = tail;
        RowRange { first: range.start as u32, offsets: &offsets[range.start..=range.end], values: head }
    };
    row_ranges(offsets, shares).into_iter().map(cut).collect()
}

/// The rows that one task fills.
struct FilledRows<'a, V> {
    /// The rows, of which the offsets are bounds.
    rows: RowRange<'a, V>,
    /// The number of values in each row, once it is filled.
    lengths: Vec<u64>,
}

/// The lengths of the rows of one task, and the number of values that they had room for.
struct UsedRoom {
    lengths: Vec<u64>,
    room: usize,
}

impl<V: Copy> FilledRows<'_, V> {
    /// Fills all rows, and closes the gaps between them. Gaps between tasks are closed at the end.
    fn fill(&mut self, fill: &impl Fn(usize, &mut [V]) -> usize) {
        let RowRange { first, offsets, values } = &mut self.rows;
        let mut kept = 0;
        self.lengths.reserve_exact(offsets.len() - 1);
        for (row, ends) in offsets.windows(2).enumerate() {
            let start = (ends[0] - offsets[0]) as usize;
            let end = (ends[1] - offsets[0]) as usize;
            let length = fill(*first as usize + row, &mut values[start..end]);
            // A row that uses less than its room leaves a gap.
            if kept < start {
                values.copy_within(start..start + length, kept);
            }
            kept += length;
            self.lengths.push(length as u64);
        }
    }

    fn used(self) -> UsedRoom {
        UsedRoom { lengths: self.lengths, room: self.rows.values.len() }
    }
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
            let dir = tempfile::tempdir().unwrap();
            let space = Workspace::scratch(dir.path(), 1, ()).unwrap();
            let external = pool.install(|| Groups::new_in(&space, 40, &pairs)).unwrap();
            prop_assert_eq!(&external.offsets[..], &groups.offsets[..]);
            prop_assert_eq!(&external.values[..], &groups.values[..]);
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            pairs.iter().for_each(|&(row, value)| expected.entry(row).or_default().push(value));
            for row in 0..40 {
                prop_assert_eq!(groups.row(row), expected.get(&(row as u32)).map_or(&[][..], |v| &v[..]));
            }
        }
    }

    #[test]
    fn rows_that_use_less_than_their_room_are_moved_together_over_several_tasks() {
        // Row r has room for r % 4 values, and uses one value less if r is odd.
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

//! Grouping of pairs that do not fit into memory.
//!
//! All edges are sorted by one external bucket sort. Invariant: it keeps the order of equal edges, so the result
//! equals the result of the sort in memory.

use super::groups::{Groups, Pairs, num_workers, row_offsets};
use crate::memory::Scratch;
use crate::{GraphError, parallel};
use bytemuck::Pod;
use std::ops::Range;

/// The names of steps in progress reports.
const DISTRIBUTE: &str = "distributing edges";
const SORT: &str = "sorting edges";
const REWRITE: &str = "rewriting edges";
const OFFSETS: &str = "writing offsets";

/// A bucket: the values of some rows, all of which one task sorts in memory.
struct Bucket<'a> {
    rows: Range<usize>,
    /// The positions of its values in the result.
    values: Range<usize>,
    /// The position of the next value of each row.
    next: &'a mut [u64],
}

/// Groups pairs by row like [`Groups::new`], with arrays in scratch files.
pub(super) fn group<V: Pod + Default + Send + Sync>(
    scratch: &Scratch,
    num_rows: usize,
    pairs: &impl Pairs<Value = V>,
) -> Result<Groups<V>, GraphError> {
    let mut next = row_offsets(num_rows, pairs);
    let mut offsets = scratch.writer(OFFSETS, next.len())?;
    offsets.write(&next)?;
    let offsets = offsets.finish()?;
    let num_values = next[num_rows] as usize;
    let most = (scratch.work_bytes() / num_workers() / size_of::<V>()).max(1);
    let ranges = buckets(&next, most as u64);
    let mut values = scratch.writer(SORT, num_values)?;
    if let [range] = &ranges[..] {
        // Everything fits into the memory of one task.
        let bucket = Bucket { rows: range.clone(), values: 0..num_values, next: &mut next[..num_rows] };
        let mut sorted = vec![V::default(); num_values];
        bucket.place(&mut sorted, |place| pairs.for_each(place));
        values.write(&sorted)?;
        return Ok(Groups { offsets, values: values.finish()? });
    }
    // The first array has the row of each value, the second one the value.
    let bounds: Vec<u64> = ranges.iter().map(|rows| next[rows.start]).chain([num_values as u64]).collect();
    let ends: Vec<u32> = ranges.iter().map(|rows| rows.end as u32).collect();
    let buffer_bytes = scratch.work_bytes() / 2;
    let mut rows_by_bucket = scratch.scatter::<u32>(DISTRIBUTE, &bounds, buffer_bytes)?;
    let mut values_by_bucket = scratch.scatter::<V>(DISTRIBUTE, &bounds, buffer_bytes)?;
    pairs.for_each(|row, value| {
        let bucket = ends.partition_point(|&end| end <= row);
        rows_by_bucket.push(bucket, row);
        values_by_bucket.push(bucket, value);
    });
    let rows_by_bucket = rows_by_bucket.finish()?;
    let values_by_bucket = values_by_bucket.finish()?;
    let mut rest = &mut next[..];
    let mut bucket = |(rows, bounds): (&Range<usize>, &[u64])| {
        let (next, later) = std::mem::take(&mut rest).split_at_mut(rows.len());
        rest = later;
        Bucket { rows: rows.clone(), values: bounds[0] as usize..bounds[1] as usize, next }
    };
    let mut buckets: Vec<Option<Bucket>> =
        ranges.iter().zip(bounds.windows(2)).map(|both| Some(bucket(both))).collect();
    for at_once in buckets.chunks_mut(num_workers()) {
        let mut sorted: Vec<Vec<V>> = (0..at_once.len()).map(|_| Vec::new()).collect();
        let mut tasks: Vec<(&mut Option<Bucket>, &mut Vec<V>)> = at_once.iter_mut().zip(&mut sorted).collect();
        parallel::for_each_chunk(&mut tasks, 1, &|_, task| {
            let (bucket, sorted) = &mut task[0];
            // The values of a single row are in order already.
            if let Some(bucket) = bucket.take_if(|bucket| bucket.rows.len() > 1) {
                let range = bucket.values.clone();
                **sorted = vec![V::default(); range.len()];
                let rows = &rows_by_bucket[range.clone()];
                let values = &values_by_bucket[range];
                bucket.place(sorted, |place| rows.iter().zip(values).for_each(|(&row, &value)| place(row, value)));
            }
        });
        for (bucket, sorted) in at_once.iter().zip(sorted) {
            match bucket {
                Some(single) => values.write(&values_by_bucket[single.values.clone()])?,
                None => values.write(&sorted)?,
            }
        }
    }
    Ok(Groups { offsets, values: values.finish()? })
}

impl Bucket<'_> {
    /// Puts the pairs that `visit` calls its argument with into their order.
    fn place<V>(self, sorted: &mut [V], visit: impl FnOnce(&mut dyn FnMut(u32, V))) {
        let Self { rows, values, next } = self;
        visit(&mut |row, value| {
            let next = &mut next[row as usize - rows.start];
            sorted[*next as usize - values.start] = value;
            *next += 1;
        });
    }
}

/// Splits rows into ranges of at most `most` values, except for single rows that have more. `offsets` has the start of
/// each row and the end of the last one.
fn buckets(offsets: &[u64], most: u64) -> Vec<Range<usize>> {
    let num_rows = offsets.len() - 1;
    let mut ranges = Vec::new();
    let mut first = 0;
    while first < num_rows {
        // The last row whose end is within reach.
        let end = offsets.partition_point(|&offset| offset <= offsets[first] + most) - 1;
        let end = end.clamp(first + 1, num_rows);
        ranges.push(first..end);
        first = end;
    }
    ranges
}

/// Builds rows like [`Groups::from_rows`], with arrays in scratch files.
pub(super) fn fill_rows<V: Pod + Default + Send + Sync>(
    scratch: &Scratch,
    num_rows: usize,
    room: impl Fn(usize) -> u64,
    fill: impl Fn(usize, &mut [V]) -> usize + Sync,
) -> Result<Groups<V>, GraphError> {
    // A row takes its values, its offset and its length.
    let row_bytes = |room: u64| room * size_of::<V>() as u64 + 24;
    let work_bytes = scratch.work_bytes() as u64;
    let mut offsets = scratch.writer(OFFSETS, num_rows + 1)?;
    let most: u64 = (0..num_rows).map(&room).sum();
    let mut values = scratch.writer(REWRITE, most as usize)?;
    offsets.write(&[0])?;
    let mut start = 0_u64;
    let mut first = 0;
    while first < num_rows {
        let mut bounds = vec![0];
        let mut bytes = 0;
        while first + bounds.len() <= num_rows {
            let row = first + bounds.len() - 1;
            let of_row = room(row);
            if bytes + row_bytes(of_row) > work_bytes && bounds.len() > 1 {
                break;
            }
            bytes += row_bytes(of_row);
            bounds.push(bounds[bounds.len() - 1] + of_row);
        }
        if bytes > work_bytes.max(MIN_ROOM) {
            let why = format!(
                "a node has {} edges, which take {bytes} bytes at a time, but a step may take {work_bytes}: raise it by \
                 {} bytes",
                bounds[1],
                // The work bytes are a quarter of the limit.
                4 * (bytes - work_bytes)
            );
            return Err(GraphError::MemoryLimit { why });
        }
        let rows = bounds.len() - 1;
        let filled = Groups::from_rows(bounds, |row, room: &mut [V]| fill(first + row, room));
        values.write(&filled.values)?;
        let ends: Vec<u64> = filled.offsets[1..].iter().map(|end| start + end).collect();
        offsets.write(&ends)?;
        start += filled.values.len() as u64;
        first += rows;
    }
    Ok(Groups { offsets: offsets.finish()?, values: values.finish()? })
}

/// The room that a single row may always take, in bytes.
const MIN_ROOM: u64 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Workspace;
    use crate::rng::CounterRng;

    #[test]
    fn buckets_hold_what_fits_and_rows_that_do_not_fit_stay_alone() {
        let offsets = [0, 2, 2, 5, 5, 30, 31, 31];
        assert_eq!(buckets(&offsets, 4), [0..2, 2..4, 4..5, 5..7]);
        let all = 0..7;
        assert_eq!(buckets(&offsets, 31), std::slice::from_ref(&all));
        assert_eq!(buckets(&[0], 4), Vec::<Range<usize>>::new());
    }

    /// The rows of the pairs, of which a tenth are in row 7, so that it does not fit into a bucket.
    #[test]
    fn many_buckets_give_the_rows_of_memory() {
        let dir = tempfile::tempdir().unwrap();
        let num_rows = 5000;
        let mut rng = CounterRng::new(3);
        let pairs: Vec<(u32, u32)> = (0..400_000)
            .map(|at| {
                let row = (rng.next_u64() % num_rows) as u32;
                (if at % 10 == 0 { 7 } else { row }, rng.next_u64() as u32)
            })
            .collect();
        let expected = Groups::new(num_rows as usize, &pairs);
        for work_bytes in [1 << 16, 1 << 18, 1 << 24] {
            let space = Workspace::scratch(dir.path(), work_bytes, ()).unwrap();
            let groups = Groups::new_in(&space, num_rows as usize, &pairs).unwrap();
            assert!(groups.values.is_mapped() && groups.offsets.is_mapped());
            assert_eq!(groups.offsets[..], expected.offsets[..]);
            assert!(groups.values[..] == expected.values[..], "{work_bytes}");
            // Every second value of each row, in reverse order.
            let fill = |row: usize, room: &mut [u32]| {
                let halved: Vec<u32> = expected.row(row).iter().rev().step_by(2).copied().collect();
                room[..halved.len()].copy_from_slice(&halved);
                halved.len()
            };
            let filled = Groups::from_rows_in(&space, num_rows as usize, |row| expected.row_len(row), fill).unwrap();
            let in_memory = Groups::from_rows(expected.offsets.to_vec(), fill);
            assert_eq!(filled.offsets[..], in_memory.offsets[..]);
            assert!(filled.values[..] == in_memory.values[..], "{work_bytes}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_row_that_does_not_fit_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let space = Workspace::scratch(dir.path(), 1 << 16, ()).unwrap();
        let room = |row: usize| if row == 1 { 2 << 20 } else { 1 };
        let error = Groups::<u32>::from_rows_in(&space, 3, room, |_, room| room.len()).unwrap_err().to_string();
        assert!(error.starts_with("`memory_limit`: a node has 2097152 edges, which take 8388632 bytes"), "{error}");
    }

    #[test]
    fn no_rows_and_no_pairs_are_fine() {
        let dir = tempfile::tempdir().unwrap();
        let space = Workspace::scratch(dir.path(), 1, ()).unwrap();
        for num_rows in [0, 3] {
            let groups = Groups::new_in(&space, num_rows, &Vec::new()).unwrap();
            assert_eq!((groups.num_rows(), groups.values.len()), (num_rows, 0));
            let filled: Groups = Groups::from_rows_in(&space, num_rows, |_| 0, |_, _| 0).unwrap();
            assert_eq!((filled.num_rows(), filled.values.len()), (num_rows, 0));
        }
    }
}

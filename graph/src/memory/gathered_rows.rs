//! A feature matrix whose rows come from several sources.

use super::features::ROWS_AHEAD;
use super::uninit::zeroed;
use super::{FeatureDtype, Features, prefetch_all, streaming};
use rayon::prelude::*;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of rows whose bits one word holds.
const ROWS_PER_WORD: usize = u64::BITS as usize;
/// The number of rows that one task gathers. A multiple of [`ROWS_PER_WORD`], so that tasks never share a word.
const ROWS_PER_TASK: usize = 8 * ROWS_PER_WORD;
/// The largest matrix that the calling thread gathers alone, in bytes. Another thread takes longer to wake up. The caller
/// may also be a thread outside of the pool that must not wait for it.
const MAX_ALONE_BYTES: usize = 512 << 10;

/// A feature matrix under assembly, `[num_rows, dim]`, row-major, as `f32`. Own rows are copied in parallel, and rows
/// of other processes are placed as they arrive, at the same time. Each row's memory is written once, by the thread that
/// has its features.
#[derive(Debug)]
pub struct GatheredRows {
    /// Invariant: the thread that sets a row's bit in `claimed` is the only one that accesses the row.
    values: Box<[UnsafeCell<MaybeUninit<f32>>]>,
    num_rows: usize,
    dim: usize,
    /// One bit per row, set before the row is written.
    claimed: Vec<AtomicU64>,
    /// One bit per row, set once the row has been written.
    written: Vec<AtomicU64>,
}

// SAFETY: values are only written by `copy_claimed`, whose callers have set the bits of the rows in `claimed`. No two
// calls set the same bit. `finish` reads the values, and owns them alone.
unsafe impl Sync for GatheredRows {}

impl GatheredRows {
    /// A placeholder for a row that comes from elsewhere.
    pub const ELSEWHERE: u32 = u32::MAX;

    /// Creates an unfilled matrix of `num_rows` rows of `dim` features.
    ///
    /// # Panics
    /// If memory cannot address as many values.
    pub fn new(num_rows: usize, dim: usize) -> Self {
        // A product that wraps around would make rows share memory.
        let values = Box::into_raw(Box::<[f32]>::new_uninit_slice(num_rows.saturating_mul(dim)));
        // SAFETY: the pointer is from a box, and `UnsafeCell` has the representation of what it holds.
        let values = unsafe { Box::from_raw(values as *mut [UnsafeCell<MaybeUninit<f32>>]) };
        let num_words = num_rows.div_ceil(ROWS_PER_WORD);
        Self { values, num_rows, dim, claimed: no_rows(num_words), written: no_rows(num_words) }
    }

    /// Copies row `rows[i]` of `features` to row `i`, for all `i` whose entry is not [`GatheredRows::ELSEWHERE`].
    ///
    /// # Panics
    /// If a row is out of range or has been gathered or placed before, or `rows` or `features` have the wrong size.
    pub fn gather(&self, features: &Features, rows: &[u32]) {
        assert_eq!(features.dim(), self.dim, "columns to gather");
        self.gather_stored(features.bytes(), features.dtype(), rows);
    }

    /// Copies rows as [`GatheredRows::gather`] does, from rows of this width that are stored end to end in `bytes`.
    ///
    /// # Panics
    /// If a row is out of range or has been gathered or placed before, `rows` has the wrong length, or `bytes` is not
    /// aligned for `dtype`.
    pub fn gather_stored(&self, bytes: &[u8], dtype: FeatureDtype, rows: &[u32]) {
        let stored = StoredRows { bytes, dtype, dim: self.dim };
        assert_eq!(rows.len(), self.num_rows, "rows to gather");
        if self.dim > 0 && size_of_val(&self.values[..]) <= MAX_ALONE_BYTES {
            return self.gather_range(stored, rows, 0, rows.len());
        }
        rows.par_chunks(ROWS_PER_TASK).enumerate().for_each(|(task, mine)| {
            self.gather_range(stored, rows, task * ROWS_PER_TASK, mine.len());
        });
    }

    /// Copies the stored rows in `bytes`, which are end to end, to the rows `positions` of this matrix.
    ///
    /// # Panics
    /// If a position is out of range or has been gathered or placed before, or `bytes` has the wrong length or is not
    /// aligned for `dtype`.
    pub fn place(&self, positions: &[u32], dtype: FeatureDtype, bytes: &[u8]) {
        let stored = StoredRows { bytes, dtype, dim: self.dim };
        assert_eq!(bytes.len(), positions.len() * dtype.row_bytes(self.dim), "bytes of the rows to place");
        self.place_each(positions.len(), stored, |at| (positions[at], at as u32));
    }

    /// Copies some of the stored rows in `bytes`, which are end to end, to rows of this matrix. `rows` are pairs of a row
    /// of this matrix and a row in `bytes`.
    ///
    /// # Panics
    /// If a row is out of range or has been gathered or placed before, or `bytes` is not aligned for `dtype`.
    pub fn place_rows(&self, rows: &[(u32, u32)], dtype: FeatureDtype, bytes: &[u8]) {
        self.place_each(rows.len(), StoredRows { bytes, dtype, dim: self.dim }, |at| rows[at]);
    }

    /// Gathers `num_rows` rows from `first` on, which is a multiple of [`ROWS_PER_WORD`].
    fn gather_range(&self, stored: StoredRows<'_>, rows: &[u32], first: usize, num_rows: usize) {
        let mine = &rows[first..first + num_rows];
        for (word, rows) in mine.chunks(ROWS_PER_WORD).enumerate() {
            self.claim(first / ROWS_PER_WORD + word, bits_of(rows));
        }
        for (at, &row) in mine.iter().enumerate() {
            if let Some(&soon) = rows.get(first + at + ROWS_AHEAD).filter(|&&soon| soon != Self::ELSEWHERE) {
                prefetch_all(stored.row(soon));
            }
            if row != Self::ELSEWHERE {
                // SAFETY: the row was claimed above.
                unsafe { self.copy_claimed(first + at, stored, row) };
            }
        }
        streaming::finish();
        for (word, rows) in mine.chunks(ROWS_PER_WORD).enumerate() {
            self.written[first / ROWS_PER_WORD + word].fetch_or(bits_of(rows), Ordering::Relaxed);
        }
    }

    /// Places `count` rows. `pair` returns the row of this matrix and the stored row of each.
    fn place_each(&self, count: usize, stored: StoredRows<'_>, pair: impl Fn(usize) -> (u32, u32)) {
        let mut start = 0;
        while start < count {
            // Rows whose bits are in the same word are claimed together.
            let word = pair(start).0 as usize / ROWS_PER_WORD;
            let mut bits = 0;
            let mut end = start;
            while end < count {
                let row = pair(end).0 as usize;
                let bit = 1 << (row % ROWS_PER_WORD);
                if row / ROWS_PER_WORD != word || bits & bit != 0 {
                    break;
                }
                bits |= bit;
                end += 1;
            }
            self.claim(word, bits);
            for at in start..end {
                let (to, from) = pair(at);
                // SAFETY: the row was claimed above.
                unsafe { self.copy_claimed(to as usize, stored, from) };
            }
            self.written[word].fetch_or(bits, Ordering::Relaxed);
            start = end;
        }
        streaming::finish();
    }

    /// Claims rows for the calling thread.
    fn claim(&self, word: usize, bits: u64) {
        let before = self.claimed[word].fetch_or(bits, Ordering::Relaxed);
        assert_eq!(before & bits, 0, "rows that are written twice, from row {}", word * ROWS_PER_WORD);
    }

    /// Copies a stored row to a row of this matrix.
    ///
    /// # Safety
    /// The caller must have claimed the row, and copy it once.
    unsafe fn copy_claimed(&self, to: usize, stored: StoredRows<'_>, from: u32) {
        let cells = &self.values[to * self.dim..][..self.dim];
        let memory = UnsafeCell::raw_get(cells.as_ptr());
        // SAFETY: the cells are `dim` values in a row. Only the thread that has claimed them accesses them.
        let out = unsafe { std::slice::from_raw_parts_mut(memory, cells.len()) };
        copy_row(stored.dtype, stored.row(from), out, self.streams());
    }

    /// Returns the complete matrix.
    ///
    /// # Panics
    /// If a row has been neither gathered nor placed.
    pub fn finish(mut self) -> Vec<f32> {
        let written: usize = self.written.iter_mut().map(|word| word.get_mut().count_ones() as usize).sum();
        assert_eq!(written, self.num_rows, "rows that have been gathered or placed");
        let len = self.values.len();
        let values = Box::into_raw(self.values).cast::<f32>();
        // SAFETY: the memory is from a box of `len` values. The bit of a row is set only after the whole row was written,
        // and all bits are set. Whoever handed over this matrix has waited for the threads that wrote to it.
        unsafe { Vec::from_raw_parts(values, len, len) }
    }

    /// Returns true if the matrix is large enough for streaming stores.
    fn streams(&self) -> bool {
        size_of_val(&self.values[..]) >= streaming::MIN_BYTES
    }
}

fn no_rows(num_words: usize) -> Vec<AtomicU64> {
    (0..num_words).map(|_| AtomicU64::new(0)).collect()
}

/// Returns a bit for each row that is not elsewhere.
fn bits_of(rows: &[u32]) -> u64 {
    let bits = rows.iter().enumerate().map(|(bit, &row)| u64::from(row != GatheredRows::ELSEWHERE) << bit);
    bits.fold(0, |all, bit| all | bit)
}

/// Rows that are stored end to end.
#[derive(Clone, Copy)]
struct StoredRows<'a> {
    bytes: &'a [u8],
    dtype: FeatureDtype,
    dim: usize,
}

impl StoredRows<'_> {
    fn row(&self, row: u32) -> &[u8] {
        let row_bytes = self.dtype.row_bytes(self.dim);
        &self.bytes[row as usize * row_bytes..][..row_bytes]
    }
}

/// Copies one stored row to `out` as `f32`. Only rows that are `f32` already are stored with streaming stores.
fn copy_row(dtype: FeatureDtype, row: &[u8], out: &mut [MaybeUninit<f32>], streams: bool) {
    match dtype {
        FeatureDtype::F32 => streaming::copy_if(streams, bytemuck::cast_slice(row), out),
        _ => dtype.decode(row, zeroed(out)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::features::tests::in_all_types;
    use super::*;

    #[test]
    fn rows_come_from_where_they_are_and_go_where_they_belong() {
        let large = streaming::MIN_BYTES / 12 + 700;
        for (num_rows, dim) in [(0, 3), (1, 3), (63, 1), (2000, 3), (large, 3), (large, 4)] {
            let values: Vec<f32> = (0..10 * dim).map(|v| v as f32 / 4.0).collect();
            for features in in_all_types(&values, dim) {
                let wanted: Vec<u32> = (0..num_rows as u32).map(|i| i * 31 % 10).collect();
                let elsewhere: Vec<u32> = (0..num_rows as u32).filter(|i| i % 7 == 3).collect();
                let mut own = wanted.clone();
                elsewhere.iter().for_each(|&i| own[i as usize] = GatheredRows::ELSEWHERE);
                let rows = GatheredRows::new(num_rows, dim);
                rows.gather(&features, &own);
                for positions in elsewhere.chunks(100) {
                    let theirs: Vec<u32> = positions.iter().map(|&i| wanted[i as usize]).collect();
                    let mut bytes = Vec::new();
                    features.append_rows(&theirs, &mut bytes);
                    rows.place(positions, features.dtype(), &bytes);
                }
                let gathered = rows.finish();
                assert_eq!(gathered.len(), num_rows * dim);
                for (&row, gathered) in wanted.iter().zip(gathered.chunks(dim)) {
                    let mut expected = vec![0.0; dim];
                    features.copy_row(row as usize, &mut expected);
                    assert_eq!(gathered, expected);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "rows that have been gathered or placed")]
    fn a_row_that_never_came_is_not_read() {
        let [features, ..] = in_all_types(&[1.0, 2.0], 1);
        let rows = GatheredRows::new(2, 1);
        rows.gather(&features, &[1, GatheredRows::ELSEWHERE]);
        rows.finish();
    }

    #[test]
    #[should_panic(expected = "capacity overflow")]
    fn a_matrix_beyond_memory_is_not_created() {
        GatheredRows::new(1 << 32, 1 << 32);
    }

    #[test]
    #[should_panic(expected = "written twice")]
    fn a_row_is_written_once() {
        let [features, ..] = in_all_types(&[1.0, 2.0], 1);
        let rows = GatheredRows::new(70, 1);
        rows.place(&[3, 69], features.dtype(), &features.bytes()[..8]);
        rows.place_rows(&[(68, 0), (69, 1)], features.dtype(), features.bytes());
    }

    #[test]
    fn rows_are_gathered_and_placed_at_the_same_time() {
        const NUM_ROWS: u32 = 5_000;
        for dim in [3, 300] {
            let values: Vec<f32> = (0..NUM_ROWS as usize * dim).map(|v| v as f32).collect();
            let features = Features::F32 { values: values.clone().into(), dim };
            let rows = GatheredRows::new(NUM_ROWS as usize, dim);
            std::thread::scope(|scope| {
                for source in 0..3 {
                    let rows = &rows;
                    let features = &features;
                    scope.spawn(move || {
                        for positions in (0..NUM_ROWS).filter(|row| row % 4 == source).collect::<Vec<_>>().chunks(90) {
                            let mut bytes = Vec::new();
                            features.append_rows(positions, &mut bytes);
                            rows.place(positions, features.dtype(), &bytes);
                        }
                    });
                }
                let own = (0..NUM_ROWS).map(|row| if row % 4 == 3 { row } else { GatheredRows::ELSEWHERE });
                rows.gather(&features, &own.collect::<Vec<_>>());
            });
            assert!(rows.finish() == values, "{dim} features");
        }
    }
}

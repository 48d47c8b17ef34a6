//! A feature matrix whose rows come from several sources.

use super::features::ROWS_AHEAD;
use super::uninit::zeroed;
use super::{FeatureDtype, Features, prefetch_all, streaming};
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// The number of rows whose bits one word of `written` holds.
const ROWS_PER_WORD: usize = u64::BITS as usize;
/// The number of rows that one task gathers. A multiple of [`ROWS_PER_WORD`], so that tasks never share a word of
/// `written`.
const ROWS_PER_TASK: usize = 8 * ROWS_PER_WORD;
/// The largest matrix that the calling thread gathers alone, in bytes. Another thread takes longer to wake up. The caller
/// may also be a thread outside of the pool that must not wait for it.
const MAX_ALONE_BYTES: usize = 512 << 10;

/// A feature matrix under assembly, `[num_rows, dim]`, row-major, as `f32`. Own rows are copied in parallel, and rows
/// of other processes are placed as they arrive. Each row's memory is written once, by the thread that has its
/// features.
#[derive(Debug)]
pub struct GatheredRows {
    values: Vec<f32>,
    num_rows: usize,
    dim: usize,
    /// One bit per row, set once the row has been written.
    written: Vec<u64>,
}

impl GatheredRows {
    /// A placeholder for a row that comes from elsewhere.
    pub const ELSEWHERE: u32 = u32::MAX;

    /// Creates an unfilled matrix of `num_rows` rows of `dim` features.
    pub fn new(num_rows: usize, dim: usize) -> Self {
        let written = vec![0; num_rows.div_ceil(ROWS_PER_WORD)];
        Self { values: Vec::with_capacity(num_rows * dim), num_rows, dim, written }
    }

    /// Copies row `rows[i]` of `features` to row `i`, for all `i` whose entry is not [`GatheredRows::ELSEWHERE`].
    ///
    /// # Panics
    /// If a row is out of range, or `rows` or `features` have the wrong size.
    pub fn gather(&mut self, features: &Features, rows: &[u32]) {
        assert_eq!(features.dim(), self.dim, "columns to gather");
        self.gather_stored(features.bytes(), features.dtype(), rows);
    }

    /// Copies rows as [`GatheredRows::gather`] does, from rows of this width that are stored end to end in `bytes`.
    ///
    /// # Panics
    /// If a row is out of range, `rows` has the wrong length, or `bytes` is not aligned for `dtype`.
    pub fn gather_stored(&mut self, bytes: &[u8], dtype: FeatureDtype, rows: &[u32]) {
        let dim = self.dim;
        let streams = self.streams();
        let stored = StoredRows { bytes, dtype, dim };
        assert_eq!(rows.len(), self.num_rows, "rows to gather");
        let memory = &mut self.values.spare_capacity_mut()[..rows.len() * dim];
        if dim > 0 && size_of_val(memory) <= MAX_ALONE_BYTES {
            return stored.gather(rows, rows.len(), memory, &mut self.written, streams);
        }
        let tasks = memory
            .par_chunks_mut((ROWS_PER_TASK * dim).max(1))
            .zip(self.written.par_chunks_mut(ROWS_PER_TASK / ROWS_PER_WORD))
            .zip(rows.par_chunks(ROWS_PER_TASK))
            .enumerate();
        tasks.for_each(|(task, ((memory, written), mine))| {
            // `memory` has room for the rows of this task only, so `copy` stops after them.
            stored.gather(&rows[task * ROWS_PER_TASK..], mine.len(), memory, written, streams);
        });
    }

    /// Copies the stored rows in `bytes`, which are end to end, to the rows `positions` of this matrix.
    ///
    /// # Panics
    /// If a position is out of range, or `bytes` has the wrong length or is not aligned for `dtype`.
    pub fn place(&mut self, positions: &[u32], dtype: FeatureDtype, bytes: &[u8]) {
        let row_bytes = dtype.row_bytes(self.dim);
        assert_eq!(bytes.len(), positions.len() * row_bytes, "bytes of the rows to place");
        self.place_each(positions.iter().copied().zip(bytes.chunks_exact(row_bytes.max(1))), dtype);
    }

    /// Copies some of the stored rows in `bytes`, which are end to end, to rows of this matrix. `rows` are pairs of a row
    /// of this matrix and a row in `bytes`.
    ///
    /// # Panics
    /// If a row is out of range, or `bytes` is not aligned for `dtype`.
    pub fn place_rows(&mut self, rows: &[(u32, u32)], dtype: FeatureDtype, bytes: &[u8]) {
        let row_bytes = dtype.row_bytes(self.dim);
        self.place_each(rows.iter().map(|&(to, from)| (to, &bytes[from as usize * row_bytes..][..row_bytes])), dtype);
    }

    fn place_each<'a>(&mut self, rows: impl Iterator<Item = (u32, &'a [u8])>, dtype: FeatureDtype) {
        let dim = self.dim;
        let streams = self.streams();
        let memory = &mut self.values.spare_capacity_mut()[..self.num_rows * dim];
        for (to, row) in rows {
            let to = to as usize;
            let out = &mut memory[to * dim..][..dim];
            copy_row(dtype, row, out, streams);
            self.written[to / ROWS_PER_WORD] |= 1 << (to % ROWS_PER_WORD);
        }
        streaming::finish();
    }

    /// Returns the complete matrix.
    ///
    /// # Panics
    /// If a row has been neither gathered nor placed.
    pub fn finish(mut self) -> Vec<f32> {
        let written: usize = self.written.iter().map(|word| word.count_ones() as usize).sum();
        assert_eq!(written, self.num_rows, "rows that have been gathered or placed");
        // SAFETY: The capacity is at least `num_rows * dim`. The bit of a row is set only after the whole row was
        // written, and all bits are set.
        unsafe { self.values.set_len(self.num_rows * self.dim) };
        self.values
    }

    /// Returns true if the matrix is large enough for streaming stores.
    fn streams(&self) -> bool {
        self.num_rows * self.dim * size_of::<f32>() >= streaming::MIN_BYTES
    }
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

    /// Copies the first `num_rows` rows of `rows` to `memory`, which has room for as many, and sets their bits in
    /// `written`.
    fn gather(
        &self,
        rows: &[u32],
        num_rows: usize,
        memory: &mut [MaybeUninit<f32>],
        written: &mut [u64],
        streams: bool,
    ) {
        self.copy(rows, memory, streams);
        // The bits are set after the rows were written, as `finish` relies on.
        for (word, rows) in written.iter_mut().zip(rows[..num_rows].chunks(ROWS_PER_WORD)) {
            let bits = rows.iter().enumerate().map(|(bit, &row)| u64::from(row != GatheredRows::ELSEWHERE) << bit);
            *word |= bits.fold(0, |all, bit| all | bit);
        }
    }

    /// Copies the first rows of `rows` to `out` as `f32`, as many as fit, and skips entries that are
    /// [`GatheredRows::ELSEWHERE`]. Streaming stores bypass the caches if `streams` is true.
    ///
    /// # Panics
    /// If a row is out of range.
    fn copy(&self, rows: &[u32], out: &mut [MaybeUninit<f32>], streams: bool) {
        for (i, out) in out.chunks_exact_mut(self.dim).enumerate() {
            if let Some(&soon) = rows.get(i + ROWS_AHEAD).filter(|&&soon| soon != GatheredRows::ELSEWHERE) {
                prefetch_all(self.row(soon));
            }
            if rows[i] != GatheredRows::ELSEWHERE {
                copy_row(self.dtype, self.row(rows[i]), out, streams);
            }
        }
        streaming::finish();
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
                let mut rows = GatheredRows::new(num_rows, dim);
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
        let mut rows = GatheredRows::new(2, 1);
        rows.gather(&features, &[1, GatheredRows::ELSEWHERE]);
        rows.finish();
    }
}

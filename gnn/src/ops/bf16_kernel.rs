//! Products of factors that are rounded to `bf16`, with sums in `f32`, by the AVX-512 instructions for them.
//!
//! An instruction adds two products to each of 16 sums. Two numbers that follow each other along the inner dimension are
//! therefore stored as a pair, a `u32` whose lower half is the first number. The sums of a tile of the result,
//! [`TILE_ROWS`] rows of [`PANEL_COLUMNS`] columns, stay in registers while up to [`BLOCK_PAIRS`] pairs are multiplied.
//!
//! Numbers are rounded to the nearest `bf16`, ties to even. The instructions count subnormal numbers as zero.

use std::arch::x86_64::{
    __m256bh, __m256i, __m512, __m512bh, __m512i, __mmask16, _MM_HINT_ET0, _MM_HINT_T1, _mm_prefetch,
    _mm256_storeu_si256, _mm512_add_ps, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh, _mm512_dpbf16_ps,
    _mm512_loadu_si512, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_set1_epi32,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_storeu_si512,
};
use std::cell::RefCell;
use std::mem::{MaybeUninit, transmute};

use super::products::{Matrix, Products};

/// The rows of a tile. Its sums, two registers a row, take 28 of the 32 registers.
const TILE_ROWS: usize = 14;
/// The rows of the small tile, for the last rows of a result.
const SMALL_TILE_ROWS: usize = 4;
/// The numbers in a register.
const LANES: usize = 16;
/// The columns of a tile.
const PANEL_COLUMNS: usize = 2 * LANES;
/// The pairs of the inner dimension that are multiplied at a time: the pairs of a panel and of a tile fit the
/// first-level cache.
const BLOCK_PAIRS: usize = 128;
/// The number of rows per product: whole tiles, whose pairs fit the second-level cache.
const CHUNK_ROWS: usize = 18 * TILE_ROWS;

/// The proof that the CPU has the instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bf16Unit(());

impl Bf16Unit {
    /// Returns the proof if the CPU and the operating system support the instructions.
    pub(super) fn detect() -> Option<Self> {
        let is_supported = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512bf16");
        is_supported.then_some(Self(()))
    }
}

/// Products with one right factor.
pub(super) struct Bf16Products {
    unit: Bf16Unit,
    right: Right,
}

impl Bf16Products {
    /// Rounds the right factor.
    pub(super) fn new(unit: Bf16Unit, right: Matrix<'_, f32>) -> Self {
        let mut pairs = Right::default();
        // SAFETY: `unit` proves that the CPU has the instructions.
        unsafe { pairs.fill(right) };
        Self { unit, right: pairs }
    }
}

impl Products<f32> for Bf16Products {
    fn chunk_rows(&self) -> usize {
        CHUNK_ROWS
    }

    fn product<'o>(&self, out: &'o mut [MaybeUninit<f32>], rows: Matrix<'_, f32>, ahead: &[&[f32]]) -> &'o mut [f32] {
        let Bf16Unit(()) = self.unit;
        let right = &self.right;
        assert_eq!(rows.columns, right.inner, "bf16 product: columns of the left factor against the inner dimension");
        assert_eq!(out.len(), rows.rows * right.columns, "bf16 product: length of the output against the sizes");
        assert!(!rows.transposed, "bf16 product: the rows of the left factor must be contiguous");
        if right.inner == 0 {
            return edgecut_graph::uninit::zeroed(out);
        }
        let output = Output { start: out.as_mut_ptr().cast(), rows: rows.rows, columns: right.columns };
        SCRATCH.with_borrow_mut(|scratch| {
            // SAFETY: `self.unit` proves that the CPU has the instructions. `out` has the size of the product.
            unsafe { multiply_rows(output, rows, right, &mut scratch.left, ahead) };
        });
        // SAFETY: A product whose inner size is at least 1 writes every element.
        unsafe { out.assume_init_mut() }
    }

    fn add_outer(&self, sums: &mut [f32], x: Matrix<'_, f32>, grad: Matrix<'_, f32>, ahead: &[&[f32]]) {
        let Bf16Unit(()) = self.unit;
        assert_eq!(x.rows, grad.rows, "bf16 product: rows of both factors");
        assert_eq!(sums.len(), x.columns * grad.columns, "bf16 product: length of the sums against the sizes");
        assert!(!x.transposed && !grad.transposed, "bf16 product: the rows of both factors must be contiguous");
        SCRATCH.with_borrow_mut(|Scratch { left, right }| {
            // SAFETY: `self.unit` proves that the CPU has the instructions.
            unsafe {
                right.fill(grad);
                pairs_of_rows(left, x, TILE_ROWS, 1);
                add_columns_times(sums, x.columns, left, right, ahead);
            }
        });
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The pairs of the chunk that a thread multiplies.
#[derive(Debug, Default)]
struct Scratch {
    left: Vec<u32>,
    right: Right,
}

/// A right factor as pairs: for every panel, the pairs of its columns, ordered by their position in the inner dimension.
/// Columns beyond the last one and the second half of an incomplete pair are zero.
#[derive(Debug, Default)]
struct Right {
    pairs: Vec<u32>,
    inner: usize,
    columns: usize,
}

impl Right {
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn fill(&mut self, matrix: Matrix<'_, f32>) {
        self.inner = matrix.rows;
        self.columns = matrix.columns;
        if !matrix.transposed {
            pairs_of_rows(&mut self.pairs, matrix, PANEL_COLUMNS, 2);
            return;
        }
        // The columns of the factor are contiguous, and so are the numbers of each pair.
        let num_pairs = matrix.rows.div_ceil(2);
        let panel_len = num_pairs * PANEL_COLUMNS;
        self.pairs.clear();
        self.pairs.resize(matrix.columns.div_ceil(PANEL_COLUMNS) * panel_len, 0);
        let mut pairs = vec![0; num_pairs.next_multiple_of(LANES / 2)];
        for (column, values) in matrix.values.chunks_exact(matrix.rows.max(1)).enumerate() {
            pairs_of_values(&mut pairs, values);
            let start = column / PANEL_COLUMNS * panel_len + column % PANEL_COLUMNS;
            for (position, &pair) in pairs[..num_pairs].iter().enumerate() {
                self.pairs[start + position * PANEL_COLUMNS] = pair;
            }
        }
    }
}

/// Writes the pairs of consecutive rows. The columns are cut into groups of `width` columns. A group has the pairs of its
/// columns for one pair of rows after the other, each in `registers * LANES` entries.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pairs_of_rows(pairs: &mut Vec<u32>, matrix: Matrix<'_, f32>, width: usize, registers: usize) {
    let Matrix { values, rows, columns, .. } = matrix;
    assert!(values.len() == rows * columns && width <= registers * LANES, "bf16 product: sizes of pairs of rows");
    let len = columns.div_ceil(width) * rows.div_ceil(2) * registers * LANES;
    pairs.clear();
    pairs.reserve(len);
    let memory = pairs.spare_capacity_mut().as_mut_ptr().cast::<u32>();
    let mut written = 0;
    for group in (0..columns).step_by(width) {
        for first_row in (0..rows).step_by(2) {
            for register in 0..registers {
                let column = group + register * LANES;
                let mask = lanes(columns.min(group + width).saturating_sub(column));
                // An incomplete pair ends with zero.
                let second_mask = if first_row + 1 < rows { mask } else { 0 };
                let row = values.as_ptr().wrapping_add(first_row * columns + column);
                // SAFETY: The masks have no lanes beyond the end of the rows, and `written` is below `len`.
                unsafe {
                    let first = rounded(_mm512_maskz_loadu_ps(mask, row));
                    let second = rounded(_mm512_maskz_loadu_ps(second_mask, row.wrapping_add(columns)));
                    let both = _mm512_or_si512(first, _mm512_slli_epi32::<16>(second));
                    _mm512_storeu_si512(memory.add(written).cast(), both);
                }
                written += LANES;
            }
        }
    }
    assert_eq!(written, len, "bf16 product: number of pairs");
    // SAFETY: The loops have written `len` pairs.
    unsafe { pairs.set_len(len) };
}

/// Returns numbers rounded to `bf16`, each in the lower half of its lane.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn rounded(values: __m512) -> __m512i {
    _mm512_cvtepu16_epi32(as_bits(_mm512_cvtneps_pbh(values)))
}

/// Writes the pairs of consecutive values. Zeros follow the last value up to the end of its register.
///
/// # Panics
/// If `pairs` is too short.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn pairs_of_values(pairs: &mut [u32], values: &[f32]) {
    assert!(pairs.len() >= values.len().div_ceil(LANES) * LANES / 2, "bf16 product: memory for the pairs of a row");
    for start in (0..values.len()).step_by(LANES) {
        let mask = lanes(values.len() - start);
        // SAFETY: The mask has no lanes beyond the end of the values, and `pairs` is long enough.
        unsafe {
            let values = _mm512_maskz_loadu_ps(mask, values.as_ptr().add(start));
            _mm256_storeu_si256(pairs.as_mut_ptr().add(start / 2).cast(), as_bits(_mm512_cvtneps_pbh(values)));
        }
    }
}

/// Returns the mask of the first `count` lanes.
fn lanes(count: usize) -> __mmask16 {
    if count >= LANES { __mmask16::MAX } else { (1 << count) - 1 }
}

#[inline(always)]
fn as_bits(numbers: __m256bh) -> __m256i {
    // SAFETY: Both types have 256 bits.
    unsafe { transmute(numbers) }
}

#[inline(always)]
fn as_numbers(bits: __m512i) -> __m512bh {
    // SAFETY: Both types have 512 bits.
    unsafe { transmute(bits) }
}

/// Computes `out = rows · right`. `scratch` gets the pairs of a block of the inner dimension.
///
/// # Safety
/// `out` must be valid for writes, and have the sizes of the product.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn multiply_rows(out: Output, rows: Matrix<'_, f32>, right: &Right, scratch: &mut Vec<u32>, ahead: &[&[f32]]) {
    let inner = right.inner;
    let num_pairs = inner.div_ceil(2);
    let tile_len = TILE_ROWS * BLOCK_PAIRS;
    // Rows beyond the last one are multiplied too, and their sums are dropped.
    scratch.resize(rows.rows.div_ceil(TILE_ROWS) * tile_len, 0);
    let mut ahead = Ahead::new(ahead, out.num_tiles() * num_pairs.div_ceil(BLOCK_PAIRS));
    for start in (0..inner).step_by(2 * BLOCK_PAIRS) {
        let end = inner.min(start + 2 * BLOCK_PAIRS);
        for (row, pairs) in rows.values.chunks_exact(inner).zip(scratch.chunks_exact_mut(BLOCK_PAIRS)) {
            pairs_of_values(pairs, &row[start..end]);
        }
        let pairs = (end - start).div_ceil(2);
        for (panel, right) in right.pairs.chunks_exact(num_pairs * PANEL_COLUMNS).enumerate() {
            let right = &right[start / 2 * PANEL_COLUMNS..][..pairs * PANEL_COLUMNS];
            for (tile, left) in scratch.chunks_exact(tile_len).enumerate() {
                let tile = Tile { row: tile * TILE_ROWS, column: panel * PANEL_COLUMNS, adds: start > 0 };
                ahead.prefetch_some();
                // SAFETY: `left` has the rows of a tile and `right` the pairs of a panel. The first block writes the
                // elements that later blocks add to.
                unsafe { out.compute::<BLOCK_PAIRS, 1>(tile, left, right, pairs) };
            }
        }
    }
}

/// Computes `sums += left · right`. `left` has the pairs of `rows` rows, those of one tile after the other.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn add_columns_times(sums: &mut [f32], rows: usize, left: &[u32], right: &Right, ahead: &[&[f32]]) {
    let pairs = right.inner.div_ceil(2);
    let out = Output { start: sums.as_mut_ptr(), rows, columns: right.columns };
    let mut ahead = Ahead::new(ahead, out.num_tiles());
    for (panel, right) in right.pairs.chunks_exact((pairs * PANEL_COLUMNS).max(1)).enumerate() {
        for (tile, left) in left.chunks_exact((pairs * LANES).max(1)).enumerate() {
            let tile = Tile { row: tile * TILE_ROWS, column: panel * PANEL_COLUMNS, adds: true };
            ahead.prefetch_some();
            // SAFETY: `left` has the rows of a tile and `right` the pairs of a panel. The sums are initialised.
            unsafe { out.compute::<1, LANES>(tile, left, right, pairs) };
        }
    }
}

/// The memory of a row-major result.
#[derive(Clone, Copy)]
struct Output {
    start: *mut f32,
    rows: usize,
    columns: usize,
}

/// The position of a tile in a result.
#[derive(Clone, Copy)]
struct Tile {
    row: usize,
    column: usize,
    /// True if the tile is added to the elements of the result.
    adds: bool,
}

impl Output {
    fn num_tiles(self) -> usize {
        self.rows.div_ceil(TILE_ROWS) * self.columns.div_ceil(PANEL_COLUMNS)
    }

    /// Computes a tile with as few registers as its rows and columns permit. `ROW` and `PAIR` are the distances from one
    /// row and from one pair of `left` to the next.
    ///
    /// # Safety
    /// The output must be valid for writes, and initialised if the tile adds to it. `left` must have the `pairs` of the
    /// rows of a tile, and `right` of a panel.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn compute<const ROW: usize, const PAIR: usize>(
        self,
        tile: Tile,
        left: &[u32],
        right: &[u32],
        pairs: usize,
    ) {
        let left = left.as_ptr();
        let right = right.as_ptr();
        let rows = TILE_ROWS.min(self.rows - tile.row);
        let is_narrow = self.columns - tile.column <= LANES;
        // SAFETY: The caller guarantees it.
        unsafe {
            if !tile.adds {
                self.prefetch(tile, rows);
            }
            match (rows <= SMALL_TILE_ROWS, is_narrow) {
                (false, false) => self.store(tile, &tile_sums::<TILE_ROWS, 2, ROW, PAIR>(left, right, pairs)),
                (false, true) => self.store(tile, &tile_sums::<TILE_ROWS, 1, ROW, PAIR>(left, right, pairs)),
                (true, false) => self.store(tile, &tile_sums::<SMALL_TILE_ROWS, 2, ROW, PAIR>(left, right, pairs)),
                (true, true) => self.store(tile, &tile_sums::<SMALL_TILE_ROWS, 1, ROW, PAIR>(left, right, pairs)),
            }
        }
    }

    /// Prefetches the memory of a tile for writing.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    fn prefetch(self, tile: Tile, rows: usize) {
        for row in tile.row..tile.row + rows {
            let memory = self.start.wrapping_add(row * self.columns + tile.column);
            _mm_prefetch::<_MM_HINT_ET0>(memory.cast());
            _mm_prefetch::<_MM_HINT_ET0>(memory.wrapping_add(LANES).cast());
        }
    }

    /// Writes the sums of a tile, or adds them to the output.
    ///
    /// # Safety
    /// As for [`Output::compute`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    unsafe fn store<const R: usize, const C: usize>(self, tile: Tile, sums: &[[__m512; C]; R]) {
        let rows = R.min(self.rows - tile.row);
        for (row, sums) in sums.iter().enumerate().take(rows) {
            for (register, &sum) in sums.iter().enumerate() {
                let column = tile.column + register * LANES;
                let mask = lanes(self.columns.saturating_sub(column));
                let memory = self.start.wrapping_add((tile.row + row) * self.columns + column);
                // SAFETY: The mask has no lanes beyond the end of the row.
                unsafe {
                    let sum = if tile.adds { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, memory), sum) } else { sum };
                    _mm512_mask_storeu_ps(memory, mask, sum);
                }
            }
        }
    }
}

/// Returns the sums of a tile of `R` rows and `C` registers of columns.
///
/// # Safety
/// `left` must be valid for reads of the pairs of `R` rows, at distances of `ROW` and `PAIR`, and `right` for reads of
/// `pairs * PANEL_COLUMNS` entries.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
unsafe fn tile_sums<const R: usize, const C: usize, const ROW: usize, const PAIR: usize>(
    left: *const u32,
    right: *const u32,
    pairs: usize,
) -> [[__m512; C]; R] {
    let mut sums = [[_mm512_setzero_ps(); C]; R];
    for pair in 0..pairs {
        // SAFETY: The caller guarantees that the pairs can be read.
        unsafe {
            let right = right.add(pair * PANEL_COLUMNS);
            let mut columns = [_mm512_setzero_si512(); C];
            for (register, column) in columns.iter_mut().enumerate() {
                *column = _mm512_loadu_si512(right.add(register * LANES).cast());
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm512_set1_epi32(*left.add(row * ROW + pair * PAIR) as i32);
                for (sum, &column) in sums.iter_mut().zip(&columns) {
                    *sum = _mm512_dpbf16_ps(*sum, as_numbers(value), as_numbers(column));
                }
            }
        }
    }
    sums
}

/// The values that are read after a product. Tiles prefetch them in equal shares, since the product alone would leave
/// the memory idle.
struct Ahead<'a> {
    rest: &'a [&'a [f32]],
    /// The position in the first slice of `rest`.
    position: usize,
    lines_per_tile: usize,
}

impl<'a> Ahead<'a> {
    fn new(rest: &'a [&'a [f32]], num_tiles: usize) -> Self {
        let total: usize = rest.iter().map(|values| values.len()).sum();
        Self { rest, position: 0, lines_per_tile: total.div_ceil(LANES).div_ceil(num_tiles.max(1)) }
    }

    #[inline]
    fn prefetch_some(&mut self) {
        for _ in 0..self.lines_per_tile {
            let Some((first, others)) = self.rest.split_first() else { return };
            // SAFETY: A prefetch accepts any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(first.as_ptr().wrapping_add(self.position).cast()) };
            self.position += LANES;
            if self.position >= first.len() {
                self.rest = others;
                self.position = 0;
            }
        }
    }
}

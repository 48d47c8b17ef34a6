//! Products of factors that are rounded to `bf16`, with sums in `f32`, by the AVX-512 instructions for them.
//!
//! An instruction adds two products to each of 16 sums. Two numbers that follow each other along the inner dimension are
//! therefore stored as a pair, a `u32` whose lower half is the first number. The sums of a tile of the result,
//! [`TILE_ROWS`] rows of [`PANEL_COLUMNS`] columns, stay in registers while up to [`BLOCK_PAIRS`] pairs are multiplied.
//!
//! Numbers are rounded to the nearest `bf16`, ties to even. The instructions count subnormal numbers as zero.

use std::arch::x86_64::{
    __cpuid, __m256bh, __m256i, __m512, __m512bh, __m512i, __mmask16, _CMP_GT_OQ, _CMP_LT_OQ, _MM_HINT_ET0,
    _MM_HINT_T1, _mm_prefetch, _mm256_setzero_si256, _mm256_storeu_si256, _mm512_add_ps, _mm512_cmp_ps_mask,
    _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_maskz_mov_ps, _mm512_maskz_mul_ps, _mm512_or_si512, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_storeu_si512,
};
use std::cell::RefCell;
use std::mem::{MaybeUninit, transmute};
use std::sync::OnceLock;

use super::products::{Chunk, Epilogue, Matrix, Products, Relu, Sums};

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

    /// Returns the proof if the instructions are also faster than products in `f32`.
    ///
    /// Only AMD's CPUs start as many of them per cycle as products in `f32`. Intel's cores start one in the time of four, which
    /// has half of the throughput: their fast `bf16` is in the tile units.
    pub(super) fn detect_fast() -> Option<Self> {
        static FAST: OnceLock<Option<Bf16Unit>> = OnceLock::new();
        *FAST.get_or_init(|| {
            let leaf = __cpuid(0);
            let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
            if vendor.as_flattened() == b"AuthenticAMD" { Self::detect() } else { None }
        })
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

    fn forward<'o>(
        &self,
        out: &'o mut [MaybeUninit<f32>],
        rows: Matrix<'_, f32>,
        epilogue: Epilogue<'_, f32>,
        ahead: &[f32],
    ) -> &'o mut [f32] {
        let Bf16Unit(()) = self.unit;
        let right = &self.right;
        check_rows(rows, rows.rows);
        assert_eq!(rows.columns, right.inner, "bf16 product: columns of the left factor against the inner dimension");
        assert_eq!(out.len(), rows.rows * right.columns, "bf16 product: length of the output against the sizes");
        assert_eq!(epilogue.bias.len(), right.columns, "bf16 product: length of the bias");
        let output = Output { start: out.as_mut_ptr().cast(), rows: rows.rows, columns: right.columns };
        SCRATCH.with_borrow_mut(|scratch| {
            // SAFETY: `self.unit` proves that the CPU has the instructions. `out` has the size of the product.
            unsafe { multiply_rows(output, rows, right, &mut scratch.rows, epilogue, &[ahead]) };
        });
        // SAFETY: `multiply_rows` writes every element.
        unsafe { out.assume_init_mut() }
    }

    fn backward(
        &self,
        chunk: Chunk<'_, f32>,
        sums: &mut Sums<f32>,
        out: Option<&mut [MaybeUninit<f32>]>,
        ahead: Chunk<'_, f32>,
    ) {
        let Bf16Unit(()) = self.unit;
        let right = &self.right;
        let Chunk { x, grad, relu } = chunk;
        check_rows(x, grad.rows);
        check_rows(grad, grad.rows);
        assert!(relu.is_none_or(|relu| relu.output.len() == grad.values.len()), "bf16 product: length of the output");
        assert_eq!(sums.weight.len(), x.columns * grad.columns, "bf16 product: length of the sums");
        assert_eq!(sums.bias.len(), grad.columns, "bf16 product: length of the sums of the bias");
        assert_eq!([grad.columns, x.columns], [right.inner, right.columns], "bf16 product: sizes of the right factor");
        let output = out.map(|out| {
            assert_eq!(out.len(), x.values.len(), "bf16 product: length of the output against the sizes");
            Output { start: out.as_mut_ptr().cast(), rows: x.rows, columns: x.columns }
        });
        let ahead = [ahead.x.values, ahead.grad.values, ahead.relu.map_or(&[][..], |relu| relu.output)];
        SCRATCH.with_borrow_mut(|scratch| {
            // SAFETY: `self.unit` proves that the CPU has the instructions. All sizes match.
            unsafe { backward(scratch, chunk, right, sums, output, &ahead) };
        });
    }
}

fn check_rows(matrix: Matrix<'_, f32>, rows: usize) {
    assert!(!matrix.transposed, "bf16 product: rows must be contiguous");
    assert_eq!(matrix.rows, rows, "bf16 product: rows of both factors");
    assert_eq!(matrix.values.len(), rows * matrix.columns, "bf16 product: number of values against the sizes");
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The pairs of the chunk that a thread multiplies.
#[derive(Debug, Default)]
struct Scratch {
    /// The pairs of rows: for each block of the inner dimension the rows of all tiles, [`BLOCK_PAIRS`] entries a row.
    rows: Vec<u32>,
    /// The pairs of the columns of a left factor, one tile after the other.
    columns: Vec<u32>,
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
    /// Returns the number of blocks of the inner dimension. An empty product has a block without pairs, which writes zeros.
    fn num_blocks(&self) -> usize {
        self.inner.div_ceil(2 * BLOCK_PAIRS).max(1)
    }

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
    let num_pairs = rows.div_ceil(2);
    for pair in 0..num_pairs {
        let row = values.as_ptr().wrapping_add(2 * pair * columns);
        let has_second = 2 * pair + 1 < rows;
        for group in 0..columns.div_ceil(width) {
            for register in 0..registers {
                let column = group * width + register * LANES;
                let mask = lanes(columns.min((group + 1) * width).saturating_sub(column));
                // An incomplete pair ends with zero.
                let second_mask = if has_second { mask } else { 0 };
                let row = row.wrapping_add(column);
                let position = ((group * num_pairs + pair) * registers + register) * LANES;
                // SAFETY: The masks have no lanes beyond the end of the rows, and `position` is below `len`.
                unsafe {
                    let first = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, row));
                    let second = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(second_mask, row.wrapping_add(columns)));
                    _mm512_storeu_si512(memory.add(position).cast(), paired(as_bits(first), as_bits(second)));
                }
            }
        }
    }
    // SAFETY: The loops have written each of the `len` entries, whose positions are distinct.
    unsafe { pairs.set_len(len) };
}

/// Returns the pairs of two registers of numbers, lane by lane.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn paired(first: __m256i, second: __m256i) -> __m512i {
    _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(second)))
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
    unsafe { transmute::<__m256bh, __m256i>(numbers) }
}

#[inline(always)]
fn as_numbers(bits: __m512i) -> __m512bh {
    // SAFETY: Both types have 512 bits.
    unsafe { transmute::<__m512i, __m512bh>(bits) }
}

/// Computes `out = rows · right`, and the steps that follow. `scratch` gets the pairs of a block of the inner dimension.
///
/// # Safety
/// `out` must be valid for writes, and have the sizes of the product.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn multiply_rows(
    out: Output,
    rows: Matrix<'_, f32>,
    right: &Right,
    scratch: &mut Vec<u32>,
    epilogue: Epilogue<'_, f32>,
    ahead: &[&[f32]],
) {
    // Rows beyond the last one are multiplied too, and their sums are dropped.
    scratch.resize(rows.rows.next_multiple_of(TILE_ROWS) * BLOCK_PAIRS, 0);
    let mut ahead = Ahead::new(ahead, out.num_tiles() * right.num_blocks());
    for block in 0..right.num_blocks() {
        let start = block * 2 * BLOCK_PAIRS;
        let end = right.inner.min(start + 2 * BLOCK_PAIRS);
        if start < end {
            for (row, pairs) in rows.values.chunks_exact(right.inner).zip(scratch.chunks_exact_mut(BLOCK_PAIRS)) {
                pairs_of_values(pairs, &row[start..end]);
            }
        }
        // SAFETY: The caller guarantees `out`, and blocks are multiplied in order.
        unsafe { multiply_block(out, scratch, right, block, Some(epilogue), &mut ahead) };
    }
}

/// Multiplies a block of the inner dimension. The first block writes the elements that the others add to, and the
/// epilogue follows the last block. `left` has the pairs of all rows.
///
/// # Safety
/// `out` must be valid for writes, and have the sizes of the product. Blocks before this one must have been multiplied.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn multiply_block(
    out: Output,
    left: &[u32],
    right: &Right,
    block: usize,
    epilogue: Option<Epilogue<'_, f32>>,
    ahead: &mut Ahead<'_>,
) {
    let num_pairs = right.inner.div_ceil(2);
    let first = block * BLOCK_PAIRS;
    let pairs = BLOCK_PAIRS.min(num_pairs - first);
    let epilogue = epilogue.filter(|_| first + pairs == num_pairs);
    for panel in 0..out.columns.div_ceil(PANEL_COLUMNS) {
        let right = &right.pairs[(panel * num_pairs + first) * PANEL_COLUMNS..][..pairs * PANEL_COLUMNS];
        for (tile, left) in left.chunks_exact(TILE_ROWS * BLOCK_PAIRS).enumerate() {
            let tile = Tile { row: tile * TILE_ROWS, column: panel * PANEL_COLUMNS, adds: first > 0, epilogue };
            ahead.prefetch_some();
            // SAFETY: `left` has the rows of a tile and `right` the pairs of a panel. The caller guarantees `out`.
            unsafe { out.compute::<BLOCK_PAIRS, 1>(tile, left, right, pairs) };
        }
    }
}

/// Adds the gradients of a chunk to `sums`, and writes the gradient of its input to `out` if it is given.
///
/// # Safety
/// `out` must be valid for writes, and have the sizes of `x`. All other sizes must match.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn backward(
    scratch: &mut Scratch,
    chunk: Chunk<'_, f32>,
    right: &Right,
    sums: &mut Sums<f32>,
    out: Option<Output>,
    ahead: &[&[f32]],
) {
    let Chunk { x, grad, relu } = chunk;
    scratch.fill_gradients(grad, relu, &mut sums.bias);
    pairs_of_rows(&mut scratch.columns, x, TILE_ROWS, 1);
    let of_weight = Output { start: sums.weight.as_mut_ptr(), rows: x.columns, columns: grad.columns };
    let num_tiles_x = out.map_or(0, |out| out.num_tiles() * right.num_blocks());
    let mut ahead = Ahead::new(ahead, of_weight.num_tiles() + num_tiles_x);
    if let Some(out) = out {
        let block_len = x.rows.next_multiple_of(TILE_ROWS) * BLOCK_PAIRS;
        for block in 0..right.num_blocks() {
            let rows = &scratch.rows[block * block_len..][..block_len];
            // SAFETY: The caller guarantees `out`, and blocks are multiplied in order.
            unsafe { multiply_block(out, rows, right, block, None, &mut ahead) };
        }
    }
    let pairs = x.rows.div_ceil(2);
    for panel in 0..of_weight.columns.div_ceil(PANEL_COLUMNS) {
        let right = &scratch.right.pairs[panel * pairs * PANEL_COLUMNS..][..pairs * PANEL_COLUMNS];
        for tile in 0..of_weight.rows.div_ceil(TILE_ROWS) {
            let left = &scratch.columns[tile * pairs * LANES..][..pairs * LANES];
            let tile = Tile { row: tile * TILE_ROWS, column: panel * PANEL_COLUMNS, adds: true, epilogue: None };
            ahead.prefetch_some();
            // SAFETY: `left` has the rows of a tile and `right` the pairs of a panel. The sums are initialised.
            unsafe { of_weight.compute::<1, LANES>(tile, left, right, pairs) };
        }
    }
}

impl Scratch {
    /// Fills `rows` and `right` with the pairs of the gradient before ReLU and dropout, and adds the sums of its columns to
    /// `of_bias`, in one pass over the memory.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn fill_gradients(&mut self, grad: Matrix<'_, f32>, relu: Option<Relu<'_, f32>>, of_bias: &mut [f32]) {
        let Matrix { values, rows, columns, .. } = grad;
        let num_pairs = rows.div_ceil(2);
        let padded_rows = rows.next_multiple_of(TILE_ROWS);
        self.right.inner = rows;
        self.right.columns = columns;
        self.right.pairs.resize(columns.div_ceil(PANEL_COLUMNS) * num_pairs * PANEL_COLUMNS, 0);
        // Without columns there is one block, whose products are zero.
        self.rows.resize(columns.div_ceil(2 * BLOCK_PAIRS).max(1) * padded_rows * BLOCK_PAIRS, 0);
        for pair in 0..num_pairs {
            for start in (0..columns).step_by(LANES) {
                let mask = lanes(columns - start);
                let mut halves = [_mm256_setzero_si256(); 2];
                for (half, narrow) in halves.iter_mut().enumerate().take(rows - 2 * pair) {
                    let row = 2 * pair + half;
                    let position = row * columns + start;
                    // SAFETY: The mask has no lanes beyond the end of the row, and the lengths match. A row of a block has
                    // `BLOCK_PAIRS` entries, and `start` is a multiple of `LANES`.
                    unsafe {
                        let mut gradients = _mm512_maskz_loadu_ps(mask, values.as_ptr().add(position));
                        if let Some(Relu { output, scale }) = relu {
                            let output = _mm512_maskz_loadu_ps(mask, output.as_ptr().add(position));
                            let passed = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(output, _mm512_setzero_ps());
                            gradients = _mm512_maskz_mul_ps(passed, gradients, _mm512_set1_ps(scale));
                        }
                        let sums = of_bias.as_mut_ptr().add(start);
                        let total = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, sums), gradients);
                        _mm512_mask_storeu_ps(sums, mask, total);
                        *narrow = as_bits(_mm512_cvtneps_pbh(gradients));
                        let block = start / (2 * BLOCK_PAIRS);
                        let entry = (block * padded_rows + row) * BLOCK_PAIRS + start % (2 * BLOCK_PAIRS) / 2;
                        _mm256_storeu_si256(self.rows.as_mut_ptr().add(entry).cast(), *narrow);
                    }
                }
                let panel = start / PANEL_COLUMNS;
                let entry = (panel * num_pairs + pair) * PANEL_COLUMNS + start % PANEL_COLUMNS;
                // SAFETY: `right` has the pairs of all panels.
                unsafe {
                    let pairs = self.right.pairs.as_mut_ptr().add(entry);
                    _mm512_storeu_si512(pairs.cast(), paired(halves[0], halves[1]));
                }
            }
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
struct Tile<'a> {
    row: usize,
    column: usize,
    /// True if the tile is added to the elements of the result.
    adds: bool,
    /// The steps that follow.
    epilogue: Option<Epilogue<'a, f32>>,
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
        tile: Tile<'_>,
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
    fn prefetch(self, tile: Tile<'_>, rows: usize) {
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
    unsafe fn store<const R: usize, const C: usize>(self, tile: Tile<'_>, sums: &[[__m512; C]; R]) {
        let rows = R.min(self.rows - tile.row);
        for (row, sums) in sums.iter().enumerate().take(rows) {
            for (register, &sum) in sums.iter().enumerate() {
                let column = tile.column + register * LANES;
                let mask = lanes(self.columns.saturating_sub(column));
                let memory = self.start.wrapping_add((tile.row + row) * self.columns + column);
                // SAFETY: The mask has no lanes beyond the end of the row.
                unsafe {
                    let mut sum = sum;
                    if tile.adds {
                        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, memory), sum);
                    }
                    if let Some(Epilogue { bias, rectifies }) = tile.epilogue {
                        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, bias.as_ptr().wrapping_add(column)));
                        if rectifies {
                            // NaN is not less than zero, and stays.
                            let negative = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(sum, _mm512_setzero_ps());
                            sum = _mm512_maskz_mov_ps(!negative, sum);
                        }
                    }
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

//! Products of a dense layer's chunks of rows with its weight, in full precision and with factors rounded to `bf16`.

use std::mem::MaybeUninit;

use edgecut_graph::uninit::zeroed;

use super::precision::Precision;
use super::real::Real;

/// The number of rows per product: the rows, their product and the weights fit the second-level cache.
const CHUNK_ROWS: usize = 256;

/// A factor of a product: a row-major matrix, or the transpose of one.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, T> {
    /// The elements of the row-major matrix.
    pub(super) values: &'a [T],
    /// The rows of the factor.
    pub(super) rows: usize,
    /// The columns of the factor.
    pub(super) columns: usize,
    /// True if the columns of the factor are contiguous instead of its rows.
    pub(super) transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    pub(super) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "dense layer: number of values against rows times columns");
        Self { values, rows, columns, transposed: false }
    }

    pub(super) fn transpose(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// Returns the distance in elements from one row to the next, and from one column to the next.
    fn strides(&self) -> (isize, isize) {
        if self.transposed { (1, self.rows as isize) } else { (self.columns as isize, 1) }
    }
}

/// The products of the chunks of a layer's rows. The right factor, a weight, is the same for all chunks.
///
/// The result for a chunk depends on the chunk only, so results do not depend on the number of threads. `ahead` lists
/// values that the caller reads next; an implementation may prefetch them.
pub(super) trait Products<T>: Sync {
    /// Returns the number of rows per chunk.
    fn chunk_rows(&self) -> usize;

    /// Computes the product of row-major rows with the right factor, row-major, into uninitialised memory.
    fn product<'o>(&self, out: &'o mut [MaybeUninit<T>], rows: Matrix<'_, T>, ahead: &[&[T]]) -> &'o mut [T];

    /// Computes `sums += xᵀ · grad`, row-major, for as many rows of `x` as of `grad`.
    fn add_outer(&self, sums: &mut [T], x: Matrix<'_, T>, grad: Matrix<'_, T>, ahead: &[&[T]]);
}

/// Returns true if this CPU has instructions for products in [`Precision::Bf16`], so that they are faster than in `f32`.
pub fn cpu_multiplies_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::bf16_kernel::Bf16Unit::detect().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns the products with `right` in the given precision.
pub(super) fn products<'a, T: Real>(right: Matrix<'a, T>, precision: Precision) -> Box<dyn Products<T> + 'a> {
    match precision {
        // Programs tell their users that a CPU does not multiply in f16.
        Precision::F32 | Precision::F16 => Box::new(InFull { right }),
        Precision::Bf16 => T::bf16_products(right),
    }
}

/// Products in the type of the elements, by `gemm`.
struct InFull<'a, T> {
    right: Matrix<'a, T>,
}

impl<T: Real> Products<T> for InFull<'_, T> {
    fn chunk_rows(&self) -> usize {
        CHUNK_ROWS
    }

    fn product<'o>(&self, out: &'o mut [MaybeUninit<T>], rows: Matrix<'_, T>, _: &[&[T]]) -> &'o mut [T] {
        product(out, rows, self.right)
    }

    fn add_outer(&self, sums: &mut [T], x: Matrix<'_, T>, grad: Matrix<'_, T>, _: &[&[T]]) {
        add_product(sums, x.transpose(), grad);
    }
}

/// Products of factors that are rounded to `bf16`, in the type of the elements: the same as on a CPU with instructions
/// for `bf16`, except for the order of the sums.
pub(super) struct Rounded<T> {
    right: Vec<T>,
    inner: usize,
    columns: usize,
    transposed: bool,
}

impl<T: Real> Rounded<T> {
    pub(super) fn new(right: Matrix<'_, T>) -> Self {
        let Matrix { values, rows, columns, transposed } = right;
        Self { right: rounded(values), inner: rows, columns, transposed }
    }
}

/// Returns the values rounded to `bf16`.
fn rounded<T: Real>(values: &[T]) -> Vec<T> {
    values.iter().map(|value| value.rounded_to_bf16()).collect()
}

impl<T: Real> Products<T> for Rounded<T> {
    fn chunk_rows(&self) -> usize {
        CHUNK_ROWS
    }

    fn product<'o>(&self, out: &'o mut [MaybeUninit<T>], rows: Matrix<'_, T>, _: &[&[T]]) -> &'o mut [T] {
        let right =
            Matrix { values: &self.right, rows: self.inner, columns: self.columns, transposed: self.transposed };
        product(out, Matrix { values: &rounded(rows.values), ..rows }, right)
    }

    fn add_outer(&self, sums: &mut [T], x: Matrix<'_, T>, grad: Matrix<'_, T>, _: &[&[T]]) {
        let x = Matrix { values: &rounded(x.values), ..x };
        add_product(sums, x.transpose(), Matrix { values: &rounded(grad.values), ..grad });
    }
}

/// Computes `out = a · b`, row-major, into uninitialised memory.
fn product<'o, T: Real>(out: &'o mut [MaybeUninit<T>], a: Matrix<'_, T>, b: Matrix<'_, T>) -> &'o mut [T] {
    if a.columns == 0 {
        return zeroed(out);
    }
    assert_eq!(out.len(), a.rows * b.columns, "dense layer: length of the output against the sizes of the product");
    // SAFETY: `out` has the size of the product, and `multiply` only writes to it.
    unsafe { multiply(out.as_mut_ptr().cast(), a, b, false) };
    // SAFETY: a product whose inner size is at least 1 writes every element.
    unsafe { out.assume_init_mut() }
}

/// Computes `out += a · b`, row-major.
fn add_product<T: Real>(out: &mut [T], a: Matrix<'_, T>, b: Matrix<'_, T>) {
    assert_eq!(out.len(), a.rows * b.columns, "dense layer: length of the output against the sizes of the product");
    // SAFETY: `out` has the size of the product and is initialised.
    unsafe { multiply(out.as_mut_ptr(), a, b, true) };
}

/// Computes `out = a · b`, or `out += a · b` if `add` is true.
///
/// # Safety
/// `out` must be valid for writes of `a.rows * b.columns` elements, and for reads of them if `add` is true.
unsafe fn multiply<T: Real>(out: *mut T, a: Matrix<'_, T>, b: Matrix<'_, T>, add: bool) {
    assert_eq!(a.columns, b.rows, "dense layer: columns of the left factor against rows of the right factor");
    let (a_row, a_column) = a.strides();
    let (b_row, b_column) = b.strides();
    let rows = a.rows;
    let columns = b.columns;
    let inner = a.columns;
    let a = a.values.as_ptr();
    let b = b.values.as_ptr();
    let one = T::ONE;
    // No factor is conjugated.
    let plain = false;
    // `Parallelism::None`, because the callers already run in parallel over chunks of rows.
    // SAFETY: `Matrix::new` has checked that sizes and strides stay within the slices. The caller guarantees `out`.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out,
            1,
            columns as isize,
            add,
            a,
            a_column,
            a_row,
            b,
            b_column,
            b_row,
            one,
            one,
            plain,
            plain,
            plain,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes of `[rows, inner]` times `[inner, columns]` at the edges of tiles, panels and blocks.
    const SHAPES: [[usize; 3]; 12] = [
        [1, 1, 1],
        [3, 7, 5],
        [14, 32, 32],
        [15, 31, 33],
        [4, 2, 16],
        [5, 3, 17],
        [18, 257, 47],
        [252, 100, 16],
        [30, 255, 64],
        [29, 600, 100],
        [0, 5, 6],
        [6, 0, 5],
    ];

    /// Returns the implementations of rounded products that this CPU has.
    fn implementations(right: Matrix<'_, f32>) -> Vec<Box<dyn Products<f32> + '_>> {
        vec![f32::bf16_products(right), Box::new(Rounded::new(right))]
    }

    fn draws(seed: u64, count: usize) -> Vec<f32> {
        let mut state = seed;
        let mut values = Vec::new();
        for _ in 0..count {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            values.push((state >> 40) as f32 / (1 << 23) as f32 - 1.0);
        }
        values
    }

    fn element(matrix: &Matrix<'_, f32>, row: usize, column: usize) -> f64 {
        let (rows, columns) = matrix.strides();
        f64::from(matrix.values[row * rows as usize + column * columns as usize].rounded_to_bf16())
    }

    /// Returns the product of rounded factors in `f64`, and the sums of the magnitudes of its terms.
    fn slow(left: Matrix<'_, f32>, right: Matrix<'_, f32>) -> Vec<[f64; 2]> {
        let mut out = vec![[0.0; 2]; left.rows * right.columns];
        for row in 0..left.rows {
            for column in 0..right.columns {
                for inner in 0..left.columns {
                    let term = element(&left, row, inner) * element(&right, inner, column);
                    let [sum, magnitude] = &mut out[row * right.columns + column];
                    *sum += term;
                    *magnitude += term.abs();
                }
            }
        }
        out
    }

    fn assert_close(given: &[f32], expected: &[[f64; 2]], what: &str) {
        assert_eq!(given.len(), expected.len(), "{what}");
        for (position, (&given, [sum, magnitude])) in given.iter().zip(expected).enumerate() {
            let difference = (f64::from(given) - sum).abs();
            assert!(difference <= 2e-6 * magnitude, "{what}, element {position}: {given} instead of {sum}");
        }
    }

    fn multiply(products: &dyn Products<f32>, rows: Matrix<'_, f32>, columns: usize) -> Vec<f32> {
        let mut out = vec![MaybeUninit::new(f32::NAN); rows.rows * columns];
        products.product(&mut out, rows, &[]).to_vec()
    }

    #[test]
    fn rounded_products_equal_sums_of_rounded_numbers() {
        for (seed, [rows, inner, columns]) in SHAPES.into_iter().enumerate() {
            let seed = seed as u64;
            let left = draws(seed, rows * inner);
            let left = Matrix::new(&left, rows, inner);
            let right = draws(seed + 100, inner * columns);
            for transposed in [false, true] {
                let right = if transposed {
                    Matrix::new(&right, columns, inner).transpose()
                } else {
                    Matrix::new(&right, inner, columns)
                };
                let expected = slow(left, right);
                for products in implementations(right) {
                    let given = multiply(&*products, left, columns);
                    assert_close(&given, &expected, &format!("{rows} x {inner} x {columns}, {transposed}"));
                }
            }
        }
    }

    #[test]
    fn rounded_outer_products_are_added() {
        for (seed, [x_columns, rows, grad_columns]) in SHAPES.into_iter().enumerate() {
            let x = draws(seed as u64, rows * x_columns);
            let x = Matrix::new(&x, rows, x_columns);
            let grad = draws(seed as u64 + 100, rows * grad_columns);
            let grad = Matrix::new(&grad, rows, grad_columns);
            let expected: Vec<[f64; 2]> =
                slow(x.transpose(), grad).into_iter().map(|[sum, terms]| [sum + 3.0, terms + 3.0]).collect();
            for products in implementations(Matrix::new(&[], 0, 0)) {
                let mut sums = vec![3.0; x_columns * grad_columns];
                products.add_outer(&mut sums, x, grad, &[&[], x.values]);
                assert_close(&sums, &expected, &format!("{x_columns} x {rows} x {grad_columns}"));
            }
        }
    }

    #[test]
    fn numbers_that_are_not_finite_reach_their_sums_only() {
        let mut left = vec![1.0; 3 * 5];
        left[2] = f32::NAN;
        left[5 + 4] = f32::INFINITY;
        // Rounding takes this number beyond the range.
        left[10] = f32::MAX;
        let left = Matrix::new(&left, 3, 5);
        let right = [1.0, -1.0].repeat(5);
        let right = Matrix::new(&right, 5, 2);
        for products in implementations(right) {
            let given = multiply(&*products, left, 2);
            assert!(given[0].is_nan() && given[1].is_nan(), "{given:?}");
            assert_eq!(given[2..], [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, f32::NEG_INFINITY]);
            let mut sums = vec![0.0; 5 * 2];
            products.add_outer(&mut sums, left, Matrix::new(&[0.0, 1.0, 1.0, 1.0, 2.0, 1.0], 3, 2), &[]);
            assert_eq!(sums[2..4], [3.0, 3.0]);
            assert!(sums[4].is_nan() && sums[5].is_nan(), "{sums:?}");
            assert_eq!(sums[8..], [f32::INFINITY, f32::INFINITY]);
        }
    }

    #[test]
    fn ties_are_rounded_to_even() {
        // Half of the last place of a bf16 above 1, and one and a half of it.
        let halves = [1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -1.0 - 1.0 / 256.0];
        let right = [1.0];
        for products in implementations(Matrix::new(&right, 1, 1)) {
            assert_eq!(multiply(&*products, Matrix::new(&halves, 3, 1), 1), [1.0, 1.0 + 4.0 / 256.0, -1.0]);
        }
    }
}

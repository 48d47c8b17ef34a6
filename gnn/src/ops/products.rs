//! Products of chunks of a dense layer's rows, in full precision and with factors rounded to `bf16`.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use edgecut_graph::uninit::zeroed;

use super::dense::{add_columns, before_relu, rectify};
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

/// The steps that follow a product, element by element.
#[derive(Clone, Copy)]
pub(super) struct Epilogue<'a, T> {
    /// By column, the numbers to add.
    pub(super) bias: &'a [T],
    /// True to apply ReLU.
    pub(super) rectifies: bool,
}

/// A chunk of the rows of a layer in its backward pass.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a, T> {
    /// The input.
    pub(super) x: Matrix<'a, T>,
    /// The gradient of the output.
    pub(super) grad: Matrix<'a, T>,
    /// ReLU and dropout of the output, if the layer has them.
    pub(super) relu: Option<Relu<'a, T>>,
}

/// The output of ReLU and dropout. A positive element means that the input was positive and was not dropped.
#[derive(Clone, Copy)]
pub(super) struct Relu<'a, T> {
    pub(super) output: &'a [T],
    /// The factor of kept elements.
    pub(super) scale: f32,
}

/// Partial sums of the gradients of a layer's parameters.
pub(super) struct Sums<T> {
    pub(super) weight: Vec<T>,
    pub(super) bias: Vec<T>,
}

/// The products of the chunks of a layer's rows. The right factor is the same for all chunks: the weight in the forward
/// pass, its transpose in the backward pass.
///
/// The result for a chunk depends on the chunk only, so results do not depend on the number of threads. `ahead` holds
/// values that the caller reads next; an implementation may prefetch them.
pub(super) trait Products<T>: Sync {
    /// Returns the number of rows per chunk, a multiple of 4, as dropout masks need.
    fn chunk_rows(&self) -> usize;

    /// Computes the product of row-major rows with the right factor, and the steps that follow, into uninitialised
    /// memory.
    fn forward<'o>(
        &self,
        out: &'o mut [MaybeUninit<T>],
        rows: Matrix<'_, T>,
        epilogue: Epilogue<'_, T>,
        ahead: &[T],
    ) -> &'o mut [T];

    /// Adds the gradients of a chunk to the sums, and writes the gradient of its input to `out` if it is given.
    fn backward(
        &self,
        chunk: Chunk<'_, T>,
        sums: &mut Sums<T>,
        out: Option<&mut [MaybeUninit<T>]>,
        ahead: Chunk<'_, T>,
    );
}

/// Returns true if this CPU has instructions for products in [`Precision::Bf16`] that are faster than products in `f32`.
pub fn cpu_multiplies_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::bf16_kernel::Bf16Unit::detect_fast().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns the products with `right` in the given precision.
pub(super) fn products<'a, T: Real>(right: Matrix<'a, T>, precision: Precision) -> Box<dyn Products<T> + 'a> {
    match precision {
        // Programs tell their users that a CPU does not multiply in f16.
        Precision::F32 | Precision::F16 => Box::new(Plain::new(right)),
        Precision::Bf16 => T::bf16_products(right),
    }
}

/// Products in the type of the elements, by `gemm`.
pub(super) struct Plain<'a, T: Real> {
    right: Cow<'a, [T]>,
    rows: usize,
    columns: usize,
    transposed: bool,
    /// True to round factors to `bf16`. The results are the same as with instructions for `bf16`, except for the order of
    /// sums and for subnormal numbers, which the instructions count as zero.
    rounds: bool,
}

impl<'a, T: Real> Plain<'a, T> {
    fn new(right: Matrix<'a, T>) -> Self {
        let Matrix { values, rows, columns, transposed } = right;
        Self { right: Cow::Borrowed(values), rows, columns, transposed, rounds: false }
    }

    /// Makes products of factors that are rounded to `bf16`.
    pub(super) fn rounded(right: Matrix<'a, T>) -> Self {
        let right = Self { rounds: true, ..Self::new(right) };
        Self { right: Cow::Owned(right.factor(&right.right).into_owned()), ..right }
    }

    /// Returns the values of a factor.
    fn factor<'v>(&self, values: &'v [T]) -> Cow<'v, [T]> {
        if self.rounds {
            Cow::Owned(pulp::Arch::new().dispatch(|| values.iter().map(|value| value.rounded_to_bf16()).collect()))
        } else {
            Cow::Borrowed(values)
        }
    }

    fn right(&self) -> Matrix<'_, T> {
        Matrix { values: &self.right, rows: self.rows, columns: self.columns, transposed: self.transposed }
    }
}

impl<T: Real> Products<T> for Plain<'_, T> {
    fn chunk_rows(&self) -> usize {
        CHUNK_ROWS
    }

    fn forward<'o>(
        &self,
        out: &'o mut [MaybeUninit<T>],
        rows: Matrix<'_, T>,
        epilogue: Epilogue<'_, T>,
        _: &[T],
    ) -> &'o mut [T] {
        let out = product(out, Matrix { values: &self.factor(rows.values), ..rows }, self.right());
        pulp::Arch::new().dispatch(|| {
            add_bias(out, epilogue.bias);
            if epilogue.rectifies {
                rectify(out);
            }
        });
        out
    }

    fn backward(&self, chunk: Chunk<'_, T>, sums: &mut Sums<T>, out: Option<&mut [MaybeUninit<T>]>, _: Chunk<'_, T>) {
        let Chunk { x, grad, relu } = chunk;
        let mut before = Vec::new();
        let values = match relu {
            None => grad.values,
            Some(Relu { output, scale }) => {
                pulp::Arch::new().dispatch(|| before_relu(grad.values, output, scale, &mut before));
                &before
            }
        };
        pulp::Arch::new().dispatch(|| add_columns(&mut sums.bias, values));
        let grad = Matrix { values: &self.factor(values), ..grad };
        let x = Matrix { values: &self.factor(x.values), ..x };
        add_product(&mut sums.weight, x.transpose(), grad);
        if let Some(out) = out {
            product(out, grad, self.right());
        }
    }
}

#[inline(always)]
fn add_bias<T: Real>(out: &mut [T], bias: &[T]) {
    for row in out.chunks_exact_mut(bias.len().max(1)) {
        for (value, &bias) in row.iter_mut().zip(bias) {
            *value += bias;
        }
    }
}

/// Computes `out = a · b`, row-major, into uninitialised memory.
fn product<'o, T: Real>(out: &'o mut [MaybeUninit<T>], a: Matrix<'_, T>, b: Matrix<'_, T>) -> &'o mut [T] {
    if a.columns == 0 {
        return zeroed(out);
    }
    assert_eq!(out.len(), a.rows * b.columns, "dense layer: length of the output against the sizes of the product");
    if is_thin(a, b) {
        let out = zeroed(out);
        add_thin_product(out, a, b);
        return out;
    }
    // SAFETY: `out` has the size of the product, and `multiply` only writes to it.
    unsafe { multiply(out.as_mut_ptr().cast(), a, b, false) };
    // SAFETY: a product whose inner size is at least 1 writes every element.
    unsafe { out.assume_init_mut() }
}

/// Computes `out += a · b`, row-major.
fn add_product<T: Real>(out: &mut [T], a: Matrix<'_, T>, b: Matrix<'_, T>) {
    assert_eq!(out.len(), a.rows * b.columns, "dense layer: length of the output against the sizes of the product");
    if is_thin(a, b) {
        return add_thin_product(out, a, b);
    }
    // SAFETY: `out` has the size of the product and is initialised.
    unsafe { multiply(out.as_mut_ptr(), a, b, true) };
}

/// Returns true for products of a vector, and for sums of at most two terms. `gemm` computes these in an order that depends on
/// the alignment of the arrays in memory, so that a run would not repeat the last bits of another.
fn is_thin<T>(a: Matrix<'_, T>, b: Matrix<'_, T>) -> bool {
    a.rows <= 1 || b.columns <= 1 || a.columns <= 2
}

/// Computes `out += a · b`, row-major, for factors for which [`is_thin`] is true.
fn add_thin_product<T: Real>(out: &mut [T], a: Matrix<'_, T>, b: Matrix<'_, T>) {
    if a.rows != 1 && b.columns == 1 {
        // The column is computed as a row.
        return add_thin_product(out, b.transpose(), a.transpose());
    }
    assert_eq!(a.columns, b.rows, "dense layer: columns of the left factor against rows of the right factor");
    let inner = a.columns;
    let columns = b.columns;
    if columns == 0 || inner == 0 {
        return;
    }
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        if b.transposed && inner > 2 {
            for (value, column) in out.iter_mut().zip(b.values.chunks_exact(inner)) {
                *value += dot(a.values, column);
            }
            continue;
        }
        for at in 0..inner {
            let factor = a.values[if a.transposed { at * a.rows + row } else { row * inner + at }];
            if b.transposed {
                let values = b.values[at..].iter().step_by(inner);
                out.iter_mut().zip(values).for_each(|(out, &value)| *out += factor * value);
            } else {
                let values = &b.values[at * columns..][..columns];
                out.iter_mut().zip(values).for_each(|(out, &value)| *out += factor * value);
            }
        }
    }
}

/// Returns the sum of the products of two vectors.
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    const LANES: usize = 8;
    // Several sums at a time, so that the compiler uses vector instructions.
    let mut sums = [T::ZERO; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (&a, &b))| *sum += a * b);
    }
    let mut total = T::ZERO;
    for sum in sums {
        total += sum;
    }
    total
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
    #[cfg(target_arch = "x86_64")]
    use crate::ops::bf16_kernel::{Bf16Products, Bf16Unit};

    /// Shapes of `[rows, inner]` times `[inner, columns]` at the edges of tiles, panels and blocks.
    const SHAPES: [[usize; 3]; 13] = [
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
        [5, 6, 0],
    ];

    /// Returns the implementations of rounded products that this CPU has.
    fn implementations(right: Matrix<'_, f32>) -> Vec<Box<dyn Products<f32> + '_>> {
        let mut found: Vec<Box<dyn Products<f32> + '_>> = vec![Box::new(Plain::rounded(right))];
        #[cfg(target_arch = "x86_64")]
        if let Some(unit) = Bf16Unit::detect() {
            found.push(Box::new(Bf16Products::new(unit, right)));
        }
        found
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

    /// Copies values to `offset` elements after a multiple of 64 bytes.
    fn moved(values: &[f32], offset: usize) -> (Vec<f32>, usize) {
        let mut copy = vec![0.0; values.len() + 32];
        let start = copy.as_ptr().align_offset(64) + offset;
        copy[start..start + values.len()].copy_from_slice(values);
        (copy, start)
    }

    #[test]
    fn products_have_the_same_bits_at_all_addresses() {
        for [rows, inner, columns] in SHAPES.into_iter().chain([[1, 16, 20], [20, 16, 1], [7, 1, 9], [7, 2, 90]]) {
            let left = draws(3, rows * inner);
            let right = draws(5, inner * columns);
            for transposed in [[false, false], [true, false], [false, true]] {
                let mut found: Vec<Vec<f32>> = Vec::new();
                for offset in 0..16 {
                    let (left, at) = moved(&left, offset);
                    let mut a = Matrix::new(&left[at..at + rows * inner], rows, inner);
                    let (right, at) = moved(&right, 15 - offset);
                    let mut b = Matrix::new(&right[at..at + inner * columns], inner, columns);
                    (a.transposed, b.transposed) = (transposed[0], transposed[1]);
                    let (mut out, at) = moved(&vec![0.5; rows * columns], offset * 3 % 16);
                    add_product(&mut out[at..at + rows * columns], a, b);
                    found.push(out[at..at + rows * columns].to_vec());
                    for (place, &sum) in found[0].iter().enumerate() {
                        let [row, column] = [place / columns, place % columns];
                        let terms = (0..inner).map(|at| element_of(&a, row, at) * element_of(&b, at, column));
                        assert!((f64::from(sum) - 0.5 - terms.sum::<f64>()).abs() < 1e-3, "{rows} {inner} {columns}");
                    }
                }
                assert!(found.iter().all(|out| *out == found[0]), "{rows} {inner} {columns} {transposed:?}");
            }
        }
    }

    fn element_of(matrix: &Matrix<'_, f32>, row: usize, column: usize) -> f64 {
        let (rows, columns) = matrix.strides();
        f64::from(matrix.values[row * rows as usize + column * columns as usize])
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

    /// Returns the product of rows with the right factor of `products`.
    fn multiply(products: &dyn Products<f32>, rows: Matrix<'_, f32>, bias: &[f32]) -> Vec<f32> {
        let mut out = vec![MaybeUninit::new(f32::NAN); rows.rows * bias.len()];
        products.forward(&mut out, rows, Epilogue { bias, rectifies: false }, rows.values).to_vec()
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
                    let given = multiply(&*products, left, &vec![0.0; columns]);
                    assert_close(&given, &expected, &format!("{rows} x {inner} x {columns}, {transposed}"));
                }
            }
        }
    }

    #[test]
    fn gradients_equal_sums_of_rounded_numbers() {
        for (seed, [rows, fan_in, fan_out]) in SHAPES.into_iter().enumerate() {
            let seed = 4 * seed as u64;
            let [x, grad, output, weight] = [rows * fan_in, rows * fan_out, rows * fan_out, fan_in * fan_out]
                .map(|count| draws(seed + count as u64, count));
            let x = Matrix::new(&x, rows, fan_in);
            let grad = Matrix::new(&grad, rows, fan_out);
            let right = Matrix::new(&weight, fan_in, fan_out).transpose();
            for relu in [None, Some(Relu { output: &output, scale: 1.25 })] {
                let before: Vec<f32> = match relu {
                    None => grad.values.to_vec(),
                    Some(_) => {
                        let kept = grad.values.iter().zip(&output);
                        kept.map(|(&grad, &output)| if output > 0.0 { grad * 1.25 } else { 0.0 }).collect()
                    }
                };
                let before = Matrix::new(&before, rows, fan_out);
                let of_weight: Vec<[f64; 2]> =
                    slow(x.transpose(), before).into_iter().map(|[sum, terms]| [sum + 3.0, terms + 3.0]).collect();
                let mut of_bias = vec![[3.0; 2]; fan_out];
                for (position, &value) in before.values.iter().enumerate() {
                    let [sum, magnitude] = &mut of_bias[position % fan_out];
                    *sum += f64::from(value);
                    *magnitude += f64::from(value.abs());
                }
                let chunk = Chunk { x, grad, relu };
                for products in implementations(right) {
                    let what = format!("{rows} x {fan_in} x {fan_out}, {}", relu.is_some());
                    let mut sums = Sums { weight: vec![3.0; fan_in * fan_out], bias: vec![3.0; fan_out] };
                    let mut of_x = vec![MaybeUninit::new(f32::NAN); rows * fan_in];
                    products.backward(chunk, &mut sums, Some(&mut of_x), chunk);
                    // SAFETY: All elements were initialised above.
                    let of_x: Vec<f32> = of_x.iter().map(|value| unsafe { value.assume_init() }).collect();
                    assert_close(&of_x, &slow(before, right), &what);
                    let mut without_x = Sums { weight: vec![3.0; fan_in * fan_out], bias: vec![3.0; fan_out] };
                    products.backward(chunk, &mut without_x, None, chunk);
                    for sums in [sums, without_x] {
                        assert_close(&sums.weight, &of_weight, &what);
                        assert_close(&sums.bias, &of_bias, &what);
                    }
                }
            }
        }
    }

    #[test]
    fn bias_and_relu_follow_a_product() {
        let left = draws(1, 30 * 20);
        let left = Matrix::new(&left, 30, 20);
        let right = draws(2, 20 * 40);
        let right = Matrix::new(&right, 20, 40);
        let bias = draws(3, 40);
        let expected: Vec<[f64; 2]> = slow(left, right)
            .into_iter()
            .zip(bias.iter().cycle())
            .map(|([sum, terms], &bias)| [(sum + f64::from(bias)).max(0.0), terms + 1.0])
            .collect();
        for products in implementations(right) {
            let mut out = vec![MaybeUninit::new(f32::NAN); 30 * 40];
            let out = products.forward(&mut out, left, Epilogue { bias: &bias, rectifies: true }, &[]);
            assert_close(out, &expected, "bias and ReLU");
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
            for rectifies in [false, true] {
                let mut given = vec![MaybeUninit::new(0.0); 3 * 2];
                let given = products.forward(&mut given, left, Epilogue { bias: &[0.0; 2], rectifies }, &[]);
                assert!(given[0].is_nan() && given[1].is_nan(), "{given:?}");
                let negative = if rectifies { 0.0 } else { f32::NEG_INFINITY };
                assert_eq!(given[2..], [f32::INFINITY, negative, f32::INFINITY, negative]);
            }
        }
        for products in implementations(right.transpose()) {
            let mut sums = Sums { weight: vec![0.0; 5 * 2], bias: vec![0.0; 2] };
            let grad = Matrix::new(&[0.0, 1.0, 1.0, 1.0, 2.0, 1.0], 3, 2);
            let chunk = Chunk { x: left, grad, relu: None };
            products.backward(chunk, &mut sums, None, chunk);
            assert_eq!(sums.bias, [3.0, 3.0]);
            assert_eq!(sums.weight[2..4], [3.0, 3.0]);
            assert!(sums.weight[4].is_nan() && sums.weight[5].is_nan(), "{:?}", sums.weight);
            assert_eq!(sums.weight[8..], [f32::INFINITY, f32::INFINITY]);
        }
    }

    #[test]
    fn ties_are_rounded_to_even() {
        // Half of the last place of a bf16 above 1, and one and a half of it.
        let halves = [1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -1.0 - 1.0 / 256.0];
        let right = [1.0];
        for products in implementations(Matrix::new(&right, 1, 1)) {
            assert_eq!(multiply(&*products, Matrix::new(&halves, 3, 1), &[0.0]), [1.0, 1.0 + 4.0 / 256.0, -1.0]);
        }
    }
}

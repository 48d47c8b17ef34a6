//! Dense layers on the CPU: each chunk of rows is multiplied, and bias and activation follow while its product is in
//! cache.

use std::mem::MaybeUninit;
use std::ops::Range;

use edgecut_graph::uninit::{vec_from_groups, vec_from_rows, zeroed};
use rayon::prelude::*;

use super::dropout::DropoutMask;
use super::linear::Activation;
use super::real::Real;

/// The number of rows per product: the rows, their product and the weights fit the second-level cache.
const CHUNK_ROWS: usize = 256;
/// The number of values per task of an activation.
const CHUNK_VALUES: usize = 1 << 14;
/// The maximum number of partial sums of a weight's gradient, which limits the threads that compute it.
const MAX_GROUPS: usize = 64;
/// The maximum memory of these partial sums.
const MAX_GROUP_BYTES: usize = 64 << 20;

/// The sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) fan_in: usize,
    pub(super) fan_out: usize,
}

/// A factor of a product: a row-major matrix, or the transpose of one.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "dense layer: number of values against rows times columns");
        Self { values, rows, columns, transposed: false }
    }

    fn transpose(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// Returns the distance in elements from one row to the next, and from one column to the next.
    fn strides(&self) -> (isize, isize) {
        if self.transposed { (1, self.rows as isize) } else { (self.columns as isize, 1) }
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

/// Returns `activation(x · weight + bias)`, `[rows, fan_out]`.
pub(super) fn forward<T: Real>(x: &[T], weight: &[T], bias: &[T], shape: Shape, activation: Activation) -> Vec<T> {
    let Shape { rows, fan_in, fan_out } = shape;
    let weight = Matrix::new(weight, fan_in, fan_out);
    let fill = |first_row: usize, out: &mut [MaybeUninit<T>]| {
        let rows = out.len() / fan_out;
        let x = Matrix::new(&x[first_row * fan_in..][..rows * fan_in], rows, fan_in);
        let out = product(out, x, weight);
        pulp::Arch::new().dispatch(|| {
            add_bias(out, bias);
            if let Activation::Relu(mask) = activation {
                rectify(out);
                mask.apply_from(first_row * fan_out, out);
            }
        });
    };
    // SAFETY: `product` writes every element of `out`.
    unsafe { vec_from_rows(rows, fan_out, CHUNK_ROWS, fill) }
}

#[inline(always)]
fn add_bias<T: Real>(out: &mut [T], bias: &[T]) {
    for row in out.chunks_exact_mut(bias.len().max(1)) {
        for (value, &bias) in row.iter_mut().zip(bias) {
            *value += bias;
        }
    }
}

/// Applies ReLU in place. NaN stays NaN.
#[inline(always)]
pub(super) fn rectify<T: Real>(values: &mut [T]) {
    for value in values {
        // The comparison is false for NaN, so NaN is kept; `max` would replace it by zero.
        *value = if *value < T::ZERO { T::ZERO } else { *value };
    }
}

/// Applies ReLU and dropout to all elements of a tensor in row-major order.
pub(super) fn activate<T: Real>(values: &mut [T], mask: DropoutMask) {
    values.par_chunks_mut(CHUNK_VALUES).enumerate().for_each(|(chunk, values)| {
        pulp::Arch::new().dispatch(|| {
            rectify(values);
            mask.apply_from(chunk * CHUNK_VALUES, values);
        });
    });
}

/// Returns the gradient of the input of [`activate`] from its output and the gradient of its output.
pub(super) fn before_activation<T: Real>(output: &[T], grad: &[T], mask: DropoutMask) -> Vec<T> {
    let chunks = grad.par_chunks(CHUNK_VALUES).zip(output.par_chunks(CHUNK_VALUES));
    let mut gradients = vec![T::ZERO; grad.len()];
    gradients.par_chunks_mut(CHUNK_VALUES).zip(chunks).for_each(|(out, (grad, output))| {
        pulp::Arch::new().dispatch(|| {
            let scale = T::from_f32(mask.scale());
            for ((out, &grad), &output) in out.iter_mut().zip(grad).zip(output) {
                *out = if output > T::ZERO { grad * scale } else { T::ZERO };
            }
        });
    });
    gradients
}

/// The values that the forward pass keeps for the backward pass.
#[derive(Clone, Copy)]
pub(super) struct Saved<'a, T> {
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) output: &'a [T],
}

/// The gradients of a layer's inputs. The gradient of `x` is present if it was requested.
pub(super) struct Gradients<T> {
    pub(super) x: Option<Vec<T>>,
    pub(super) weight: Vec<T>,
    pub(super) bias: Vec<T>,
}

/// The partial sums of the parameters' gradients over one group of rows.
struct Sums<T> {
    weight: Vec<T>,
    bias: Vec<T>,
}

/// Returns the gradients of `x`, weight and bias from the gradient of the output.
///
/// Rows are cut into groups whose number depends on the shape only. Each group sums in order, and the groups' sums are
/// added in order, so the result does not depend on the number of threads.
pub(super) fn backward<T: Real>(
    saved: Saved<'_, T>,
    grad: &[T],
    shape: Shape,
    activation: Activation,
    wants_x: bool,
) -> Gradients<T> {
    let Shape { rows, fan_in, fan_out } = shape;
    let group_rows = rows_per_group::<T>(shape);
    let num_groups = rows.div_ceil(group_rows);
    let zeros = || Sums { weight: vec![T::ZERO; fan_in * fan_out], bias: vec![T::ZERO; fan_out] };
    let mut groups: Vec<Sums<T>> = (0..num_groups).into_par_iter().map(|_| zeros()).collect();
    let pass = Pass { saved, grad, shape, activation };
    let x = if wants_x {
        let rows_of = |group: usize| group * group_rows..((group + 1) * group_rows).min(rows);
        let mut sums = groups.iter_mut();
        let jobs: Vec<_> = (0..num_groups).filter_map(|group| sums.next().map(|sums| (rows_of(group), sums))).collect();
        // SAFETY: `Pass::run` writes the gradients of all its rows.
        Some(unsafe { vec_from_groups(fan_in, jobs, |rows, sums, out| pass.run(rows, sums, Some(out))) })
    } else {
        groups.par_iter_mut().enumerate().for_each(|(group, sums)| {
            pass.run(group * group_rows..((group + 1) * group_rows).min(rows), sums, None);
        });
        None
    };
    let Sums { weight, bias } = add_up(groups).unwrap_or_else(zeros);
    Gradients { x, weight, bias }
}

/// Returns the number of rows per group: a multiple of [`CHUNK_ROWS`] that keeps the groups' sums within
/// [`MAX_GROUP_BYTES`].
fn rows_per_group<T>(shape: Shape) -> usize {
    let weight_bytes = (shape.fan_in * shape.fan_out * size_of::<T>()).max(1);
    let groups = (MAX_GROUP_BYTES / weight_bytes).clamp(1, MAX_GROUPS);
    shape.rows.div_ceil(groups).next_multiple_of(CHUNK_ROWS).max(CHUNK_ROWS)
}

/// The inputs of the backward pass, which all groups share.
struct Pass<'a, T> {
    saved: Saved<'a, T>,
    grad: &'a [T],
    shape: Shape,
    activation: Activation,
}

impl<T: Real> Pass<'_, T> {
    /// Adds the contributions of `rows` to `sums`, and writes their gradients of `x` to `out` if it is given.
    fn run(&self, rows: Range<usize>, sums: &mut Sums<T>, mut out: Option<&mut [MaybeUninit<T>]>) {
        let Shape { fan_in, fan_out, .. } = self.shape;
        let weight = Matrix::new(self.saved.weight, fan_in, fan_out);
        let mut scratch = Vec::new();
        for start in rows.clone().step_by(CHUNK_ROWS) {
            let len = CHUNK_ROWS.min(rows.end - start);
            let of = |columns: usize| start * columns..(start + len) * columns;
            let grad = &self.grad[of(fan_out)];
            let sum = &mut sums.bias;
            let grad = match self.activation {
                Activation::Identity => grad,
                Activation::Relu(mask) => {
                    let output = &self.saved.output[of(fan_out)];
                    pulp::Arch::new().dispatch(|| before_relu(grad, output, mask.scale(), &mut scratch));
                    &scratch
                }
            };
            pulp::Arch::new().dispatch(|| add_columns(sum, grad));
            let grad = Matrix::new(grad, len, fan_out);
            let x = Matrix::new(&self.saved.x[of(fan_in)], len, fan_in);
            add_product(&mut sums.weight, x.transpose(), grad);
            if let Some(out) = &mut out {
                let from = (start - rows.start) * fan_in;
                product(&mut out[from..from + len * fan_in], grad, weight.transpose());
            }
        }
    }
}

/// Writes to `sums` the gradient before ReLU and dropout. A positive output means that the input was positive and was
/// not dropped.
#[inline(always)]
pub(super) fn before_relu<T: Real>(grad: &[T], output: &[T], scale: f32, sums: &mut Vec<T>) {
    let scale = T::from_f32(scale);
    let passed = |(&grad, &output): (&T, &T)| if output > T::ZERO { grad * scale } else { T::ZERO };
    sums.clear();
    sums.extend(grad.iter().zip(output).map(passed));
}

/// Adds the sum of each column of `values` to the column's entry of `sums`.
#[inline(always)]
pub(super) fn add_columns<T: Real>(sums: &mut [T], values: &[T]) {
    // Sums a few columns at a time, so that the sums stay in registers.
    const COLUMNS: usize = 64;
    let columns = sums.len();
    for (first, sums) in (0..columns).step_by(COLUMNS).zip(sums.chunks_mut(COLUMNS)) {
        let mut block = [T::ZERO; COLUMNS];
        let block = &mut block[..sums.len()];
        for row in values.chunks_exact(columns) {
            block.iter_mut().zip(&row[first..]).for_each(|(sum, &value)| *sum += value);
        }
        sums.iter_mut().zip(block).for_each(|(sum, value)| *sum += *value);
    }
}

/// Returns the sum of all groups, added in their order, or `None` if there are no groups.
fn add_up<T: Real>(groups: Vec<Sums<T>>) -> Option<Sums<T>> {
    const VALUES_PER_TASK: usize = 1 << 13;
    let mut groups = groups.into_iter();
    let mut total = groups.next()?;
    let rest: Vec<Sums<T>> = groups.collect();
    total.weight.par_chunks_mut(VALUES_PER_TASK).enumerate().for_each(|(chunk, total)| {
        for sums in &rest {
            let values = &sums.weight[chunk * VALUES_PER_TASK..][..total.len()];
            total.iter_mut().zip(values).for_each(|(total, &value)| *total += value);
        }
    });
    for sums in &rest {
        total.bias.iter_mut().zip(&sums.bias).for_each(|(total, &value)| *total += value);
    }
    Some(total)
}

//! Dense layers on CPU: the product of a few rows, and what is done to it while it is in cache.

use std::mem::MaybeUninit;
use std::ops::Range;

use edgecut_graph::uninit::{vec_from_groups, vec_from_rows, zeroed};
use rayon::prelude::*;

use super::dropout::DropoutMask;
use super::linear::Activation;
use super::real::Real;

/// Rows that are multiplied at once: the rows, their product and the weights fit the second-level cache.
const CHUNK_ROWS: usize = 256;
/// Values that one task activates.
const CHUNK_VALUES: usize = 1 << 14;
/// At most so many sums of a weight's gradient, which are then added up: as many threads can work on it.
const MAX_GROUPS: usize = 64;
/// The most memory of those sums.
const MAX_GROUP_BYTES: usize = 64 << 20;

/// The sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) fan_in: usize,
    pub(super) fan_out: usize,
}

/// A matrix as a product reads it: row-major, or the transpose of one that is.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "values of a matrix");
        Self { values, rows, columns, transposed: false }
    }

    fn transpose(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// Elements from one row to the next, and from one column to the next.
    fn strides(&self) -> (isize, isize) {
        if self.transposed { (1, self.rows as isize) } else { (self.columns as isize, 1) }
    }
}

/// `out = a · b`, row-major, in memory that nothing has been written to.
fn product<'o, T: Real>(out: &'o mut [MaybeUninit<T>], a: Matrix<'_, T>, b: Matrix<'_, T>) -> &'o mut [T] {
    if a.columns == 0 {
        return zeroed(out);
    }
    assert_eq!(out.len(), a.rows * b.columns, "a product's outer sizes");
    // SAFETY: `out` is as large as the product, and is only written.
    unsafe { multiply(out.as_mut_ptr().cast(), a, b, false) };
    // SAFETY: a product over at least one column writes every element.
    unsafe { out.assume_init_mut() }
}

/// `out += a · b`, row-major.
fn add_product<T: Real>(out: &mut [T], a: Matrix<'_, T>, b: Matrix<'_, T>) {
    assert_eq!(out.len(), a.rows * b.columns, "a product's outer sizes");
    // SAFETY: `out` is as large as the product, and initialised.
    unsafe { multiply(out.as_mut_ptr(), a, b, true) };
}

/// `out = a · b`, or `out += a · b`.
///
/// # Safety
/// `out` has to be valid for `a.rows * b.columns` elements, which are read if the product is added.
unsafe fn multiply<T: Real>(out: *mut T, a: Matrix<'_, T>, b: Matrix<'_, T>, add: bool) {
    assert_eq!(a.columns, b.rows, "a product's inner sizes");
    let ((a_row, a_column), (b_row, b_column)) = (a.strides(), b.strides());
    let (rows, columns, inner) = (a.rows, b.columns, a.columns);
    let (a, b) = (a.values.as_ptr(), b.values.as_ptr());
    let (one, plain) = (T::ONE, false);
    // SAFETY: `Matrix::new` has checked that sizes and strides stay within the slices, the caller vouches for `out`.
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

/// `activation(x · weight + bias)`.
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
    // SAFETY: a product writes all of the memory that it is given.
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

#[inline(always)]
pub(super) fn rectify<T: Real>(values: &mut [T]) {
    for value in values {
        // A comparison that is false for NaN, so that a NaN is not hidden.
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

/// The gradient of the input of [`activate`], for that of its output.
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

/// What the forward pass leaves for the backward pass.
#[derive(Clone, Copy)]
pub(super) struct Saved<'a, T> {
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) output: &'a [T],
}

/// The gradients of a layer's inputs; that of `x` is there if it was wanted.
pub(super) struct Gradients<T> {
    pub(super) x: Option<Vec<T>>,
    pub(super) weight: Vec<T>,
    pub(super) bias: Vec<T>,
}

/// The sums of one group of rows.
struct Sums<T> {
    weight: Vec<T>,
    bias: Vec<T>,
}

/// The gradients of `x`, weight and bias for that of the output.
///
/// Rows are cut into groups whose number depends on the shape alone, each group sums in order, and the groups are added
/// in order: the result does not depend on the number of threads.
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
        // SAFETY: a pass writes the gradients of all its rows.
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

fn rows_per_group<T>(shape: Shape) -> usize {
    let weight_bytes = (shape.fan_in * shape.fan_out * size_of::<T>()).max(1);
    let groups = (MAX_GROUP_BYTES / weight_bytes).clamp(1, MAX_GROUPS);
    shape.rows.div_ceil(groups).next_multiple_of(CHUNK_ROWS).max(CHUNK_ROWS)
}

/// The backward pass, before it is cut into groups.
struct Pass<'a, T> {
    saved: Saved<'a, T>,
    grad: &'a [T],
    shape: Shape,
    activation: Activation,
}

impl<T: Real> Pass<'_, T> {
    /// Adds what `rows` contribute to `sums`, and writes their gradients of `x` to `out`.
    fn run(&self, rows: Range<usize>, sums: &mut Sums<T>, mut out: Option<&mut [MaybeUninit<T>]>) {
        let Shape { fan_in, fan_out, .. } = self.shape;
        let weight = Matrix::new(self.saved.weight, fan_in, fan_out);
        let mut scratch = Vec::new();
        for start in rows.clone().step_by(CHUNK_ROWS) {
            let len = CHUNK_ROWS.min(rows.end - start);
            let of = |columns: usize| start * columns..(start + len) * columns;
            let (grad, sum) = (&self.grad[of(fan_out)], &mut sums.bias);
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

/// The gradient of the sums that ReLU and dropout were applied to: what is positive in the output was positive before and
/// not dropped.
#[inline(always)]
pub(super) fn before_relu<T: Real>(grad: &[T], output: &[T], scale: f32, sums: &mut Vec<T>) {
    let scale = T::from_f32(scale);
    let passed = |(&grad, &output): (&T, &T)| if output > T::ZERO { grad * scale } else { T::ZERO };
    sums.clear();
    sums.extend(grad.iter().zip(output).map(passed));
}

/// Adds the sum of each column to `sums`, an entry a column.
#[inline(always)]
pub(super) fn add_columns<T: Real>(sums: &mut [T], values: &[T]) {
    // A few columns at a time, whose sums then stay in registers.
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

/// The sum of all groups, in their order.
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

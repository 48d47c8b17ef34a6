//! Dense layers on the CPU: each chunk of rows is multiplied, and bias and activation follow while its product is in
//! cache.

use std::mem::MaybeUninit;
use std::ops::Range;

use edgecut_graph::uninit::{vec_from_groups, vec_from_rows};
use rayon::prelude::*;

use super::dropout::DropoutMask;
use super::linear::{Activation, Linear};
use super::products::{Chunk, Epilogue, Matrix, Products, Relu, Sums, products};
use super::real::Real;

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

/// Returns `activation(x · weight + bias)`, `[rows, fan_out]`.
pub(super) fn forward<T: Real>(x: &[T], weight: &[T], bias: &[T], shape: Shape, linear: Linear) -> Vec<T> {
    let Shape { rows, fan_in, fan_out } = shape;
    let products = products(Matrix::new(weight, fan_in, fan_out), linear.precision);
    let chunk_rows = products.chunk_rows();
    let layer = Epilogue { bias, rectifies: matches!(linear.activation, Activation::Relu(_)) };
    let fill = |first_row: usize, out: &mut [MaybeUninit<T>]| {
        let rows = out.len() / fan_out;
        let (x, following) = x[first_row * fan_in..].split_at(rows * fan_in);
        // The next chunk is most often computed by this thread.
        let ahead = &following[..following.len().min(x.len())];
        let out = products.forward(out, Matrix::new(x, rows, fan_in), layer, ahead);
        if let Activation::Relu(mask) = linear.activation {
            pulp::Arch::new().dispatch(|| mask.apply_from(first_row * fan_out, out));
        }
    };
    // SAFETY: `Products::forward` writes every element of `out`.
    unsafe { vec_from_rows(rows, fan_out, chunk_rows, fill) }
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

/// Returns the gradients of `x`, weight and bias from the gradient of the output.
///
/// Rows are cut into groups whose number depends on the shape only. Each group sums in order, and the groups' sums are
/// added in order, so the result does not depend on the number of threads.
pub(super) fn backward<T: Real>(
    saved: Saved<'_, T>,
    grad: &[T],
    shape: Shape,
    linear: Linear,
    wants_x: bool,
) -> Gradients<T> {
    let Shape { rows, fan_in, fan_out } = shape;
    let products = products(Matrix::new(saved.weight, fan_in, fan_out).transpose(), linear.precision);
    let group_rows = rows_per_group::<T>(shape, products.chunk_rows());
    let num_groups = rows.div_ceil(group_rows);
    let zeros = || Sums { weight: vec![T::ZERO; fan_in * fan_out], bias: vec![T::ZERO; fan_out] };
    let mut groups: Vec<Sums<T>> = (0..num_groups).into_par_iter().map(|_| zeros()).collect();
    let pass = Pass { saved, grad, shape, activation: linear.activation, products: &*products };
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

/// Returns the number of rows per group: a multiple of `chunk_rows` that keeps the groups' sums within
/// [`MAX_GROUP_BYTES`].
fn rows_per_group<T>(shape: Shape, chunk_rows: usize) -> usize {
    let weight_bytes = (shape.fan_in * shape.fan_out * size_of::<T>()).max(1);
    let groups = (MAX_GROUP_BYTES / weight_bytes).clamp(1, MAX_GROUPS);
    shape.rows.div_ceil(groups).next_multiple_of(chunk_rows).max(chunk_rows)
}

/// The inputs of the backward pass, which all groups share.
struct Pass<'a, T> {
    saved: Saved<'a, T>,
    grad: &'a [T],
    shape: Shape,
    activation: Activation,
    /// The products with the transpose of the weight.
    products: &'a dyn Products<T>,
}

impl<T: Real> Pass<'_, T> {
    /// Adds the contributions of `rows` to `sums`, and writes their gradients of `x` to `out` if it is given.
    fn run(&self, rows: Range<usize>, sums: &mut Sums<T>, mut out: Option<&mut [MaybeUninit<T>]>) {
        let fan_in = self.shape.fan_in;
        let chunk_rows = self.products.chunk_rows();
        for start in rows.clone().step_by(chunk_rows) {
            let end = rows.end.min(start + chunk_rows);
            let chunk = self.chunk(start..end);
            let ahead = self.chunk(end..rows.end.min(end + chunk_rows));
            let out =
                out.as_deref_mut().map(|out| &mut out[(start - rows.start) * fan_in..(end - rows.start) * fan_in]);
            self.products.backward(chunk, sums, out, ahead);
        }
    }

    fn chunk(&self, rows: Range<usize>) -> Chunk<'_, T> {
        let Shape { fan_in, fan_out, .. } = self.shape;
        let relu = match self.activation {
            Activation::Identity => None,
            Activation::Relu(mask) => {
                Some(Relu { output: rows_of(self.saved.output, fan_out, &rows), scale: mask.scale() })
            }
        };
        Chunk {
            x: Matrix::new(rows_of(self.saved.x, fan_in, &rows), rows.len(), fan_in),
            grad: Matrix::new(rows_of(self.grad, fan_out, &rows), rows.len(), fan_out),
            relu,
        }
    }
}

/// Returns rows of a row-major matrix.
fn rows_of<'a, T>(values: &'a [T], columns: usize, rows: &Range<usize>) -> &'a [T] {
    &values[rows.start * columns..rows.end * columns]
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

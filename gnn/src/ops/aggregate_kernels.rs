//! The forward and backward passes of aggregation on the CPU, over plain slices.
//!
//! The features of a row are contiguous, so every inner loop runs over features and vectorises. Sums are in edge order,
//! so results have the same bits for any number of threads.

use std::mem::MaybeUninit;

use edgecut_graph::prefetch_all;
use edgecut_graph::uninit::{vec_from, zeroed};

use super::aggregate::{Aggregate, Reduce};
use super::real::Real;
use super::row_tasks::{Rows, for_each_row};

/// The number of source rows, those of the edges that follow a destination's edges, that are prefetched while it is
/// summed.
const ROW_AHEAD: usize = 6;
/// The winning edge of the elements of rows without edges.
const NO_EDGE: u32 = u32::MAX;

/// A view of the first `width` columns of a row-major matrix.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    values: &'a [T],
    stride: usize,
    width: usize,
}

impl<'a, T: Copy> Matrix<'a, T> {
    #[inline]
    fn row(self, row: usize) -> &'a [T] {
        let start = row * self.stride;
        &self.values[start..start + self.width]
    }

    /// Prefetches rows.
    #[inline]
    fn prefetch(self, rows: &[u32]) {
        for &row in rows {
            prefetch_all(self.row(row as usize));
        }
    }
}

/// Aggregates `x`, `[num_src, width]`, into `[num_dst, output_width]`.
pub(super) fn forward<T: Real>(x: &[T], width: usize, aggregate: &Aggregate) -> Vec<T> {
    let mut argmax = [];
    forward_rows(x, width, aggregate, Rows::new(&mut argmax, 0))
}

/// Aggregates as [`forward`] does, by a maximum, and also returns the winning edges, `[num_dst, width]`.
pub(super) fn forward_argmax<T: Real>(x: &[T], width: usize, aggregate: &Aggregate) -> (Vec<T>, Vec<u32>) {
    let mut argmax = vec![NO_EDGE; aggregate.block().num_dst() * width];
    let output = forward_rows(x, width, aggregate, Rows::new(&mut argmax, width));
    (output, argmax)
}

fn forward_rows<T: Real>(x: &[T], width: usize, aggregate: &Aggregate, argmax: Rows<'_, u32>) -> Vec<T> {
    let block = aggregate.block();
    let indptr = block.indptr();
    let indices = block.indices();
    let stride = aggregate.output_width(width);
    let x = Matrix { values: x, stride: width, width };
    let edges_of = |row: usize| indptr[row] as usize..indptr[row + 1] as usize;

    let compute = |row: usize, out: &mut [MaybeUninit<T>], argmax: &mut [u32]| {
        let (neighbors, own) = zeroed(out).split_at_mut(width);
        let edges = edges_of(row);
        let sources = &indices[edges.clone()];
        x.prefetch(&indices[edges.end..indices.len().min(edges.end + ROW_AHEAD)]);
        match aggregate.reduce() {
            Reduce::Sum => add_rows(neighbors, x, sources),
            Reduce::Mean => {
                add_rows(neighbors, x, sources);
                if sources.len() > 1 {
                    scale(neighbors, T::reciprocal(sources.len() as u32));
                }
            }
            Reduce::Max => max_rows(neighbors, argmax, x, sources, edges.start as u32),
            Reduce::WeightedSum(weights) => {
                if let Some(self_loops) = weights.self_loops() {
                    add_weighted_row(neighbors, x.row(row), T::from_f32(self_loops[row]));
                }
                let weights = &weights.edges()[edges];
                add_weighted_rows(neighbors, x, sources, |edge| T::from_f32(weights[edge]));
            }
        }
        if aggregate.appends_self() {
            own.copy_from_slice(x.row(row));
        }
    };
    let fill = |memory: &mut [MaybeUninit<T>]| for_each_row(indptr, Rows::new(memory, stride), argmax, &compute);
    // SAFETY: `compute` runs once for every row and initialises it with zeros first.
    unsafe { vec_from(block.num_dst() * stride, fill) }
}

/// Returns the gradient of the input, `[num_src, width]`, from the gradient of the output, `[num_dst, output_width]`.
///
/// Each source gathers from its out-edges, so that no two threads add to the same row.
///
/// # Panics
/// If the reduction is a maximum and `argmax` is missing.
pub(super) fn backward<T: Real>(grad: &[T], argmax: Option<&[u32]>, width: usize, aggregate: &Aggregate) -> Vec<T> {
    let block = aggregate.block();
    let transposed = block.transposed();
    let indptr = block.indptr();
    let stride = aggregate.output_width(width);
    let grad_neighbors = Matrix { values: grad, stride, width };
    let argmax = argmax.map(|values| Matrix { values, stride: width, width });
    let degree = |row: u32| indptr[row as usize + 1] - indptr[row as usize];

    let compute = |source: usize, out: &mut [MaybeUninit<T>], _: &mut [()]| {
        let out = zeroed(out);
        let range = transposed.indptr[source] as usize..transposed.indptr[source + 1] as usize;
        let rows = &transposed.rows[range.clone()];
        let edges = &transposed.edges[range];
        if source < block.num_dst() {
            if aggregate.appends_self() {
                let start = source * stride + width;
                out.copy_from_slice(&grad[start..start + width]);
            }
            if let Reduce::WeightedSum(weights) = aggregate.reduce()
                && let Some(self_loops) = weights.self_loops()
            {
                add_weighted_row(out, grad_neighbors.row(source), T::from_f32(self_loops[source]));
            }
        }
        match aggregate.reduce() {
            Reduce::Sum => add_rows(out, grad_neighbors, rows),
            Reduce::Mean => add_weighted_rows(out, grad_neighbors, rows, |i| T::reciprocal(degree(rows[i]))),
            Reduce::WeightedSum(weights) => {
                let weights = weights.edges();
                add_weighted_rows(out, grad_neighbors, rows, |i| T::from_f32(weights[edges[i] as usize]));
            }
            Reduce::Max => {
                let argmax = argmax.expect("the forward pass of a maximum saves the winning edges");
                add_won(out, grad_neighbors, argmax, rows, edges);
            }
        }
    };
    let fill = |memory: &mut [MaybeUninit<T>]| {
        for_each_row(&transposed.indptr, Rows::new(memory, width), Rows::new(&mut [(); 0], 0), &compute);
    };
    // SAFETY: `compute` runs once for every row and initialises it with zeros first.
    unsafe { vec_from(block.num_src() * width, fill) }
}

/// Returns the next up to four rows after the `group`-th group of four, to prefetch them.
#[inline]
fn following(rows: &[u32], group: usize) -> &[u32] {
    let rest = &rows[4 * group + 4..];
    &rest[..rest.len().min(4)]
}

/// Adds rows of `x` to `acc`, four at a time so that their loads overlap. Each element is still summed in edge order.
#[inline(always)]
fn add_rows<T: Real>(acc: &mut [T], x: Matrix<'_, T>, rows: &[u32]) {
    let mut fours = rows.chunks_exact(4);
    for (group, four) in (&mut fours).enumerate() {
        x.prefetch(following(rows, group));
        let [a, b, c, d] = std::array::from_fn(|i| x.row(four[i] as usize));
        for ((((acc, &a), &b), &c), &d) in acc.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *acc = *acc + a + b + c + d;
        }
    }
    for &row in fours.remainder() {
        for (acc, &value) in acc.iter_mut().zip(x.row(row as usize)) {
            *acc += value;
        }
    }
}

/// Adds rows of `x` as [`add_rows`] does, with row `rows[i]` multiplied by `weight(i)`.
#[inline(always)]
fn add_weighted_rows<T: Real>(acc: &mut [T], x: Matrix<'_, T>, rows: &[u32], weight: impl Fn(usize) -> T) {
    let mut fours = rows.chunks_exact(4);
    for (group, four) in (&mut fours).enumerate() {
        x.prefetch(following(rows, group));
        let [a, b, c, d] = std::array::from_fn(|i| x.row(four[i] as usize));
        let [wa, wb, wc, wd] = std::array::from_fn(|i| weight(4 * group + i));
        for ((((acc, &a), &b), &c), &d) in acc.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *acc = *acc + a * wa + b * wb + c * wc + d * wd;
        }
    }
    let done = rows.len() - fours.remainder().len();
    for (i, &row) in fours.remainder().iter().enumerate() {
        add_weighted_row(acc, x.row(row as usize), weight(done + i));
    }
}

#[inline(always)]
fn add_weighted_row<T: Real>(acc: &mut [T], row: &[T], weight: T) {
    for (acc, &value) in acc.iter_mut().zip(row) {
        *acc += value * weight;
    }
}

#[inline(always)]
fn scale<T: Real>(values: &mut [T], factor: T) {
    for value in values {
        *value = *value * factor;
    }
}

/// Returns whether `value` replaces the greatest value so far.
///
/// A NaN replaces any value, and only another NaN replaces a NaN, because no value compares greater than NaN. The two
/// conditions are combined without a branch, so that loops over them vectorise.
#[inline(always)]
fn wins<T: Real>(value: T, greatest: T) -> bool {
    (value > greatest) | value.is_nan()
}

/// Writes the elementwise maximum of the rows of `sources` to `acc`. An element is NaN if one of the rows has NaN
/// there, as in PyTorch.
///
/// Unless `argmax` is empty, it gets `first_edge` plus the position of the first row with the maximum, or of the last
/// row with NaN. Without sources nothing is written.
#[inline(always)]
fn max_rows<T: Real>(acc: &mut [T], argmax: &mut [u32], x: Matrix<'_, T>, sources: &[u32], first_edge: u32) {
    let Some((&first, others)) = sources.split_first() else {
        return;
    };
    acc.copy_from_slice(x.row(first as usize));
    argmax.fill(first_edge);
    for (&source, edge) in others.iter().zip(first_edge + 1..) {
        let row = x.row(source as usize);
        if argmax.is_empty() {
            for (acc, &value) in acc.iter_mut().zip(row) {
                *acc = if wins(value, *acc) { value } else { *acc };
            }
        } else {
            for ((acc, argmax), &value) in acc.iter_mut().zip(argmax.iter_mut()).zip(row) {
                let wins = wins(value, *acc);
                *acc = if wins { value } else { *acc };
                *argmax = if wins { edge } else { *argmax };
            }
        }
    }
}

/// Adds the elements of the gradient rows for which an edge of this source was the winning edge.
#[inline(always)]
fn add_won<T: Real>(acc: &mut [T], grad: Matrix<'_, T>, argmax: Matrix<'_, u32>, rows: &[u32], edges: &[u32]) {
    for (&row, &edge) in rows.iter().zip(edges) {
        let grad = grad.row(row as usize);
        let winners = argmax.row(row as usize);
        for ((acc, &grad), &winner) in acc.iter_mut().zip(grad).zip(winners) {
            *acc += if winner == edge { grad } else { T::ZERO };
        }
    }
}

//! The forward and backward passes of batch normalisation on the CPU, over plain slices.
//!
//! Rows are cut into chunks of a fixed size. Each chunk sums in order, and the chunks' sums are added in order, so
//! results do not depend on the number of threads.

use std::mem::MaybeUninit;
use std::ops::Range;

use edgecut_graph::uninit::{vec_from_rows, zeroed};
use rayon::prelude::*;

use super::batch_norm::BatchNormalization;
use super::dense::{add_columns, before_relu, rectify};
use super::linear::Activation;
use super::real::Real;

/// The number of rows of a chunk: with a few hundred channels a chunk fits the second-level cache.
const CHUNK_ROWS: usize = 256;

/// Returns the output, and the statistics: means, then variances.
pub(super) fn forward<T: Real>(
    x: &[T],
    gamma: &[T],
    beta: &[T],
    normalization: BatchNormalization,
) -> (Vec<T>, Vec<T>) {
    let statistics = statistics(x, gamma.len());
    let output = normalize(x, gamma, beta, &statistics, normalization);
    (output, statistics)
}

/// Returns the statistics of rows: means, then biased variances.
pub(super) fn statistics<T: Real>(x: &[T], channels: usize) -> Vec<T> {
    mean_and_variance(x, x.len() / channels.max(1), channels)
}

/// Returns the output for the given statistics: means, then variances.
pub(super) fn normalize<T: Real>(
    x: &[T],
    gamma: &[T],
    beta: &[T],
    statistics: &[T],
    BatchNormalization { epsilon, activation }: BatchNormalization,
) -> Vec<T> {
    let channels = gamma.len();
    let rows = x.len() / channels.max(1);
    let (mean, variance) = statistics.split_at(channels);
    let scales: Vec<T> =
        gamma.iter().zip(inverse_deviations(variance, epsilon)).map(|(&g, inverse)| g * inverse).collect();
    let fill = |first_row: usize, out: &mut [MaybeUninit<T>]| {
        let x = &x[first_row * channels..][..out.len()];
        let out = zeroed(out);
        pulp::Arch::new().dispatch(|| {
            for (out, x) in out.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                for ((((out, &x), &mean), &scale), &beta) in out.iter_mut().zip(x).zip(mean).zip(&scales).zip(beta) {
                    *out = (x - mean) * scale + beta;
                }
            }
            if let Activation::Relu(mask) = activation {
                rectify(out);
                mask.apply_from(first_row * channels, out);
            }
        });
    };
    // SAFETY: `fill` initialises every row with zeros first.
    unsafe { vec_from_rows(rows, channels, CHUNK_ROWS, fill) }
}

/// The values that the forward pass keeps for the backward pass.
#[derive(Clone, Copy)]
pub(super) struct Saved<'a, T> {
    pub(super) x: &'a [T],
    pub(super) gamma: &'a [T],
    pub(super) output: &'a [T],
    /// Means, then variances.
    pub(super) statistics: &'a [T],
}

impl<T: Real> Saved<'_, T> {
    fn num_rows(&self) -> usize {
        self.x.len() / self.gamma.len().max(1)
    }

    /// Writes the gradient of the normalised values (before the activation) of a range of elements to `scratch`.
    #[inline(always)]
    fn before_activation(&self, grad: &[T], activation: Activation, range: Range<usize>, scratch: &mut Vec<T>) {
        match activation {
            Activation::Identity => {
                scratch.clear();
                scratch.extend_from_slice(&grad[range]);
            }
            Activation::Relu(mask) => before_relu(&grad[range.clone()], &self.output[range], mask.scale(), scratch),
        }
    }
}

/// Returns the gradients of `x`, gamma and beta from the gradient of the output.
pub(super) fn backward<T: Real>(saved: Saved<'_, T>, grad: &[T], normalization: BatchNormalization) -> [Vec<T>; 3] {
    let sums = gradient_sums(saved, grad, normalization);
    let per_row = T::reciprocal(saved.num_rows().max(1) as u32);
    let means: Vec<T> = sums.iter().map(|&sum| sum * per_row).collect();
    let x = gradient_of_rows(saved, grad, &means, normalization);
    let (of_beta, of_gamma) = sums.split_at(saved.gamma.len());
    [x, of_gamma.to_vec(), of_beta.to_vec()]
}

/// Returns the column sums of the gradient before the activation (the gradient of beta), then the sums of this gradient
/// times the normalised input (the gradient of gamma).
pub(super) fn gradient_sums<T: Real>(
    saved: Saved<'_, T>,
    grad: &[T],
    BatchNormalization { epsilon, activation }: BatchNormalization,
) -> Vec<T> {
    let channels = saved.gamma.len();
    let (mean, variance) = saved.statistics.split_at(channels);
    let inverses = inverse_deviations(variance, epsilon);
    sum_chunks(saved.num_rows(), channels, 2 * channels, |range, sums: &mut [T]| {
        let mut before = Vec::new();
        saved.before_activation(grad, activation, range.clone(), &mut before);
        let (of_beta, of_gamma) = sums.split_at_mut(channels);
        add_columns(of_beta, &before);
        for (grad, x) in before.chunks_exact(channels).zip(saved.x[range].chunks_exact(channels)) {
            for ((((sum, &grad), &x), &mean), &inverse) in of_gamma.iter_mut().zip(grad).zip(x).zip(mean).zip(&inverses)
            {
                *sum += grad * ((x - mean) * inverse);
            }
        }
    })
}

/// Returns the gradient of `x` from the means of [`gradient_sums`] over all rows of the statistics.
pub(super) fn gradient_of_rows<T: Real>(
    saved: Saved<'_, T>,
    grad: &[T],
    means: &[T],
    BatchNormalization { epsilon, activation }: BatchNormalization,
) -> Vec<T> {
    let channels = saved.gamma.len();
    let (mean, variance) = saved.statistics.split_at(channels);
    let inverses = inverse_deviations(variance, epsilon);
    let (of_beta, of_gamma) = means.split_at(channels);
    // With `normalised = (x - mean) / deviation`, the gradient of `x` is
    // gamma / deviation * (grad - mean(grad) - normalised * mean(grad * normalised)).
    let factors: Vec<[T; 4]> =
        (0..channels).map(|c| [saved.gamma[c] * inverses[c], of_beta[c], of_gamma[c] * inverses[c], mean[c]]).collect();
    let fill = |first_row: usize, out: &mut [MaybeUninit<T>]| {
        let range = first_row * channels..first_row * channels + out.len();
        let out = zeroed(out);
        pulp::Arch::new().dispatch(|| {
            let mut before = Vec::new();
            saved.before_activation(grad, activation, range.clone(), &mut before);
            let x = saved.x[range.clone()].chunks_exact(channels);
            for ((out, grad), x) in out.chunks_exact_mut(channels).zip(before.chunks_exact(channels)).zip(x) {
                for (((out, &grad), &x), &[scale, of_beta, of_gamma, mean]) in
                    out.iter_mut().zip(grad).zip(x).zip(&factors)
                {
                    *out = scale * (grad - of_beta - (x - mean) * of_gamma);
                }
            }
        });
    };
    // SAFETY: `fill` initialises every row with zeros first.
    unsafe { vec_from_rows(saved.num_rows(), channels, CHUNK_ROWS, fill) }
}

/// Returns the means of the columns, then their biased variances.
///
/// It takes two passes: the one-pass formula `mean(x²) - mean(x)²` cancels for columns whose mean is large.
fn mean_and_variance<T: Real>(x: &[T], rows: usize, channels: usize) -> Vec<T> {
    let per_row = T::reciprocal(rows.max(1) as u32);
    let mut mean = sum_chunks(rows, channels, channels, |range, sums| add_columns(sums, &x[range]));
    mean.iter_mut().for_each(|sum| *sum = *sum * per_row);
    let variance = sum_chunks(rows, channels, channels, |range, sums: &mut [T]| {
        for row in x[range].chunks_exact(channels) {
            for ((sum, &x), &mean) in sums.iter_mut().zip(row).zip(&mean) {
                *sum += (x - mean) * (x - mean);
            }
        }
    });
    mean.extend(variance.into_iter().map(|sum| sum * per_row));
    mean
}

/// Returns `1 / sqrt(variance + epsilon)` of each column.
fn inverse_deviations<T: Real>(variance: &[T], epsilon: f64) -> Vec<T> {
    variance.iter().map(|&variance| (variance + T::from_f64(epsilon)).sqrt().recip()).collect()
}

/// Returns `num_sums` sums over the elements of all rows. `add` adds a range of elements to the sums.
fn sum_chunks<T: Real>(
    rows: usize,
    channels: usize,
    num_sums: usize,
    add: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    let of_chunk = |chunk: usize| {
        let end = ((chunk + 1) * CHUNK_ROWS).min(rows);
        let mut sums = vec![T::ZERO; num_sums];
        pulp::Arch::new().dispatch(|| add(chunk * CHUNK_ROWS * channels..end * channels, &mut sums));
        sums
    };
    let chunks: Vec<Vec<T>> = (0..rows.div_ceil(CHUNK_ROWS)).into_par_iter().map(of_chunk).collect();
    let mut total = vec![T::ZERO; num_sums];
    for sums in chunks {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    total
}

//! The forward and backward passes of attention on the CPU, over plain slices.
//!
//! The forward pass computes the scores of a row, their softmax and the weighted sum of the sources together, while the
//! sources' rows are in cache. It keeps the weights, `[entries, heads]`. The backward pass first goes over the
//! destinations, because the softmax is per destination, and then over the sources.

use std::mem::MaybeUninit;

use edgecut_graph::prefetch_all;
use edgecut_graph::uninit::{vec_from, zeroed};

use super::attention::{Attention, AttentionVersion};
use super::attention_scores::{AdditiveScores, DynamicScores, Scores, sum_of};
use super::real::Real;
use super::row_tasks::{EntryRows, Rows, Sum, for_each_row, sum_over_rows};

/// The number of edges between the source row that is read and the one that is prefetched.
const SOURCES_AHEAD: usize = 4;

/// Returns the output, `[num_dst, width]`, and the weights before dropout, `[entries, heads]`.
pub(super) fn forward<T: Real>(inputs: [&[T]; 3], width: usize, attention: &Attention) -> (Vec<T>, Vec<T>) {
    let pass = Pass::new(inputs[0], width, attention);
    match attention.version() {
        AttentionVersion::V1 => pass.forward(&additive(inputs, attention)),
        AttentionVersion::V2 => pass.forward(&dynamic(inputs, width, attention)),
    }
}

/// Returns the gradients of the inputs from the gradient of the output, `[num_dst, width]`.
pub(super) fn backward<T: Real>(
    inputs: [&[T]; 3],
    weights: &[T],
    grad: &[T],
    width: usize,
    attention: &Attention,
) -> [Vec<T>; 3] {
    let pass = Pass::new(inputs[0], width, attention);
    match attention.version() {
        AttentionVersion::V1 => {
            let ScoreGradients { z, source, destination, shared: _ } =
                pass.backward(&additive(inputs, attention), weights, grad);
            [z, source, destination]
        }
        AttentionVersion::V2 => {
            let ScoreGradients { z, source: _, destination, shared } =
                pass.backward(&dynamic(inputs, width, attention), weights, grad);
            [z, destination, shared]
        }
    }
}

fn additive<'a, T: Real>([_, src, dst]: [&'a [T]; 3], attention: &Attention) -> AdditiveScores<'a, T> {
    AdditiveScores { src, dst, heads: attention.heads(), negative_slope: T::from_f32(attention.negative_slope()) }
}

fn dynamic<'a, T: Real>(
    [z_src, z_dst, vector]: [&'a [T]; 3],
    width: usize,
    attention: &Attention,
) -> DynamicScores<'a, T> {
    let negative_slope = T::from_f32(attention.negative_slope());
    DynamicScores { z_src, z_dst, vector, channels: width / attention.heads(), negative_slope }
}

/// The gradients of the inputs of an attention.
struct ScoreGradients<T> {
    /// The gradient of the rows that are summed, `[num_src, width]`.
    z: Vec<T>,
    /// The gradient of the sources' scores, `[num_src, source_width]`.
    source: Vec<T>,
    /// The gradient of the destinations' scores or rows, `[num_dst, destination_width]`.
    destination: Vec<T>,
    /// The gradient of the parameters that all edges share, `[shared_width]`.
    shared: Vec<T>,
}

/// The inputs of both passes.
struct Pass<'a, T> {
    z: &'a [T],
    width: usize,
    channels: usize,
    heads: usize,
    /// The number of entries that follow a row's edges: 1 if rows have self edges, otherwise 0.
    own: usize,
    attention: &'a Attention,
}

impl<'a, T: Real> Pass<'a, T> {
    fn new(z: &'a [T], width: usize, attention: &'a Attention) -> Self {
        let heads = attention.heads();
        Self { z, width, channels: width / heads, heads, own: usize::from(attention.has_self_edges()), attention }
    }

    fn num_entries(&self) -> usize {
        self.attention.block().num_edges() + self.own * self.attention.block().num_dst()
    }

    /// Returns the position of a row's first entry.
    #[inline(always)]
    fn first_entry(&self, row: usize) -> usize {
        self.attention.block().indptr()[row] as usize + self.own * row
    }

    /// Returns the sources of a row's entries: of its edges, then of its self edge.
    #[inline(always)]
    fn sources(&self, row: usize) -> impl Iterator<Item = usize> + use<'a, T> {
        let indptr = self.attention.block().indptr();
        let indices = self.attention.block().indices();
        let edges = &indices[indptr[row] as usize..indptr[row + 1] as usize];
        edges.iter().map(|&source| source as usize).chain(std::iter::repeat_n(row, self.own))
    }

    /// Returns a head's columns of a row.
    #[inline(always)]
    fn columns<'v>(&self, values: &'v [T], row: usize, head: usize) -> &'v [T] {
        &values[row * self.width + head * self.channels..][..self.channels]
    }

    /// Prefetches the row of `z` that is read [`SOURCES_AHEAD`] edges after `edge`.
    #[inline(always)]
    fn prefetch(&self, edge: usize) {
        if let Some(&source) = self.attention.block().indices().get(edge + SOURCES_AHEAD) {
            prefetch_all(&self.z[source as usize * self.width..][..self.width]);
        }
    }

    /// Adds a row of `values` to `out`. The columns of each head are multiplied by its `factor`.
    #[inline(always)]
    fn add_row(&self, out: &mut [T], values: &[T], row: usize, factor: impl Fn(usize) -> T) {
        for head in 0..self.heads {
            let factor = factor(head);
            let out = &mut out[head * self.channels..(head + 1) * self.channels];
            for (out, &value) in out.iter_mut().zip(self.columns(values, row, head)) {
                *out += value * factor;
            }
        }
    }

    fn forward(&self, scores: &impl Scores<T>) -> (Vec<T>, Vec<T>) {
        let block = self.attention.block();
        let indptr = block.indptr();
        let heads = self.heads;
        let dropout = self.attention.dropout();
        let compute = |row: usize, out: &mut [MaybeUninit<T>], weights: &mut [T]| {
            let out = zeroed(out);
            for ((source, weights), edge) in self.sources(row).zip(weights.chunks_exact_mut(heads)).zip(indptr[row]..) {
                self.prefetch(edge as usize);
                for (head, weight) in weights.iter_mut().enumerate() {
                    *weight = scores.score(source, row, head);
                }
            }
            softmax(weights, heads);
            // Dropout changes the factors of the sum but not the stored weights: the gradient of the softmax needs them
            // as they were before dropout.
            let first = self.first_entry(row) * heads;
            for (position, source) in self.sources(row).enumerate() {
                let at = position * heads;
                let factor = |head: usize| weights[at + head] * dropout.factor::<T>(first + at + head);
                self.add_row(out, self.z, source, factor);
            }
        };
        let mut weights = vec![T::ZERO; self.num_entries() * heads];
        let entries = EntryRows::new(indptr, &mut weights, heads, self.own);
        let fill =
            |memory: &mut [MaybeUninit<T>]| for_each_row(indptr, Rows::new(memory, self.width), entries, &compute);
        // SAFETY: `compute` runs once for every row and initialises it with zeros first.
        let output = unsafe { vec_from(block.num_dst() * self.width, fill) };
        (output, weights)
    }

    fn backward(&self, scores: &impl Scores<T>, weights: &[T], grad: &[T]) -> ScoreGradients<T> {
        let mut of_scores = vec![T::ZERO; weights.len()];
        let (destination, shared) = self.backward_to_destinations(scores, weights, grad, &mut of_scores);
        let (z, source) = self.backward_to_sources(scores, weights, grad, &of_scores);
        ScoreGradients { z, source, destination, shared }
    }

    /// Returns the gradients of the destinations and of the shared parameters.
    ///
    /// Writes to `of_scores`, `[entries, heads]`, the gradients of the scores in the form that
    /// [`Pass::backward_to_sources`] needs.
    fn backward_to_destinations(
        &self,
        scores: &impl Scores<T>,
        weights: &[T],
        grad: &[T],
        of_scores: &mut [T],
    ) -> (Vec<T>, Vec<T>) {
        let block = self.attention.block();
        let indptr = block.indptr();
        let heads = self.heads;
        let dropout = self.attention.dropout();
        let compute = |row: usize, out: &mut [MaybeUninit<T>], of_scores: &mut [T], shared: &mut Vec<T>| {
            let out = zeroed(out);
            let first = self.first_entry(row) * heads;
            let weights = &weights[first..first + of_scores.len()];
            for ((source, of_scores), (entry, edge)) in
                self.sources(row).zip(of_scores.chunks_exact_mut(heads)).zip((0..).zip(indptr[row]..))
            {
                self.prefetch(edge as usize);
                // The gradient of a weight is the inner product of the output's gradient and the source's row.
                for (head, of_score) in of_scores.iter_mut().enumerate() {
                    let grad = self.columns(grad, row, head);
                    let z = self.columns(self.z, source, head);
                    let of_weight = sum_of(self.channels, |c| grad[c] * z[c]);
                    *of_score = of_weight * dropout.factor::<T>(first + entry * heads + head);
                }
            }
            softmax_backward(of_scores, weights, heads);
            for (source, of_scores) in self.sources(row).zip(of_scores.chunks_exact_mut(heads)) {
                scores.to_destination(source, row, of_scores, out, shared);
            }
        };
        let add = |mut head: Vec<T>, tail: Vec<T>| {
            head.iter_mut().zip(tail).for_each(|(head, tail)| *head += tail);
            head
        };
        let sum = Sum { zero: || vec![T::ZERO; scores.shared_width()], add, compute };
        let mut shared = Vec::new();
        let width = scores.destination_width();
        let fill = |memory: &mut [MaybeUninit<T>]| {
            let entries = EntryRows::new(indptr, of_scores, heads, self.own);
            shared = sum_over_rows(indptr, self.width, Rows::new(memory, width), entries, &sum);
        };
        // SAFETY: `compute` runs once for every row and initialises it with zeros first.
        let destination = unsafe { vec_from(block.num_dst() * width, fill) };
        (destination, shared)
    }

    /// Returns the gradients of the rows that were summed, and of the sources' scores.
    fn backward_to_sources(
        &self,
        scores: &impl Scores<T>,
        weights: &[T],
        grad: &[T],
        of_scores: &[T],
    ) -> (Vec<T>, Vec<T>) {
        let block = self.attention.block();
        let indptr = block.indptr();
        let transposed = block.transposed();
        let heads = self.heads;
        let dropout = self.attention.dropout();
        let compute = |source: usize, out: &mut [MaybeUninit<T>], of_source: &mut [T]| {
            let out = zeroed(out);
            let mut add_entry = |row: usize, entry: usize| {
                let at = entry * heads;
                let factor = |head: usize| weights[at + head] * dropout.factor::<T>(at + head);
                self.add_row(out, grad, row, factor);
                scores.to_source(source, row, &of_scores[at..at + heads], out, of_source);
            };
            let range = transposed.indptr[source] as usize..transposed.indptr[source + 1] as usize;
            // With self edges, the rows before `row` have one more entry each than they have edges.
            for (&row, &edge) in transposed.rows[range.clone()].iter().zip(&transposed.edges[range]) {
                add_entry(row as usize, edge as usize + self.own * row as usize);
            }
            if self.own > 0 && source < block.num_dst() {
                add_entry(source, indptr[source + 1] as usize + source);
            }
        };
        let width = scores.source_width();
        let mut of_sources = vec![T::ZERO; block.num_src() * width];
        let aux = Rows::new(&mut of_sources, width);
        let fill = |memory: &mut [MaybeUninit<T>]| {
            for_each_row(&transposed.indptr, Rows::new(memory, self.width), aux, &compute);
        };
        // SAFETY: `compute` runs once for every row and initialises it with zeros first.
        let z = unsafe { vec_from(block.num_src() * self.width, fill) };
        (z, of_sources)
    }
}

/// Replaces the scores of a row, `[entries, heads]`, by their softmax per head. Subtracting the greatest score keeps
/// `exp` from overflowing.
#[inline(always)]
fn softmax<T: Real>(scores: &mut [T], heads: usize) {
    for head in 0..heads {
        let mut greatest = T::NEG_INFINITY;
        for &score in scores.iter().skip(head).step_by(heads) {
            greatest = if score > greatest { score } else { greatest };
        }
        let mut total = T::ZERO;
        for score in scores.iter_mut().skip(head).step_by(heads) {
            *score = (*score - greatest).exp();
            total += *score;
        }
        for score in scores.iter_mut().skip(head).step_by(heads) {
            *score = *score / total;
        }
    }
}

/// Replaces the gradients of a row's weights, `[entries, heads]`, by the gradients of its scores.
#[inline(always)]
fn softmax_backward<T: Real>(grads: &mut [T], weights: &[T], heads: usize) {
    for head in 0..heads {
        let pairs = grads.iter().zip(weights).skip(head).step_by(heads);
        let mean = pairs.fold(T::ZERO, |sum, (&grad, &weight)| sum + grad * weight);
        for (grad, &weight) in grads.iter_mut().zip(weights).skip(head).step_by(heads) {
            *grad = weight * (*grad - mean);
        }
    }
}

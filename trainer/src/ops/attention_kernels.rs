//! Attention over plain slices: the CPU's forward and backward passes.
//!
//! A row's scores, their softmax and the sum of its sources are one pass, while the sources' rows are in cache. Kept are the
//! weights, `[entries, heads]`. The backward pass goes over the destinations, where the softmax is, and then over the sources.

use std::mem::MaybeUninit;

use edgecut_graph::prefetch_all;
use edgecut_graph::uninit::{vec_from, zeroed};

use super::attention::{Attention, AttentionVersion};
use super::attention_scores::{AdditiveScores, DynamicScores, Scores, sum_of};
use super::real::Real;
use super::row_tasks::{EntryRows, Rows, Sum, for_each_row, sum_over_rows};

/// How many sources ahead of the one that is read are asked for.
const SOURCES_AHEAD: usize = 4;

/// The output, `[num_dst, width]`, and the weights before dropout, `[entries, heads]`.
pub(super) fn forward<T: Real>(inputs: [&[T]; 3], width: usize, attention: &Attention) -> (Vec<T>, Vec<T>) {
    let pass = Pass::new(inputs[0], width, attention);
    match attention.version() {
        AttentionVersion::V1 => pass.forward(&additive(inputs, attention)),
        AttentionVersion::V2 => pass.forward(&dynamic(inputs, width, attention)),
    }
}

/// The gradients of the inputs for that of the output, `[num_dst, width]`.
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

/// The gradients of what scores are made of.
struct ScoreGradients<T> {
    /// Of the rows that are summed, `[num_src, width]`.
    z: Vec<T>,
    /// Of the sources' own scores.
    source: Vec<T>,
    /// Of the destinations.
    destination: Vec<T>,
    /// Of what all edges share.
    shared: Vec<T>,
}

/// What both passes read.
struct Pass<'a, T> {
    z: &'a [T],
    width: usize,
    channels: usize,
    heads: usize,
    /// Entries of a row besides its edges: 1 if it has a self edge, after them.
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

    /// The number of a row's first entry.
    #[inline(always)]
    fn first_entry(&self, row: usize) -> usize {
        self.attention.block().indptr()[row] as usize + self.own * row
    }

    /// The sources of a row's entries, in order.
    #[inline(always)]
    fn sources(&self, row: usize) -> impl Iterator<Item = usize> + use<'a, T> {
        let (indptr, indices) = (self.attention.block().indptr(), self.attention.block().indices());
        let edges = &indices[indptr[row] as usize..indptr[row + 1] as usize];
        edges.iter().map(|&source| source as usize).chain(std::iter::repeat_n(row, self.own))
    }

    /// A head's columns of a row.
    #[inline(always)]
    fn columns<'v>(&self, values: &'v [T], row: usize, head: usize) -> &'v [T] {
        &values[row * self.width + head * self.channels..][..self.channels]
    }

    /// Asks for the rows of `z` that a row's edges read soon.
    #[inline(always)]
    fn prefetch(&self, edge: usize) {
        if let Some(&source) = self.attention.block().indices().get(edge + SOURCES_AHEAD) {
            prefetch_all(&self.z[source as usize * self.width..][..self.width]);
        }
    }

    /// Adds a row of `values` to `out`, each head times its `factor`.
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
        let (indptr, heads, dropout) = (block.indptr(), self.heads, self.attention.dropout());
        let compute = |row: usize, out: &mut [MaybeUninit<T>], weights: &mut [T]| {
            let out = zeroed(out);
            for ((source, weights), edge) in self.sources(row).zip(weights.chunks_exact_mut(heads)).zip(indptr[row]..) {
                self.prefetch(edge as usize);
                for (head, weight) in weights.iter_mut().enumerate() {
                    *weight = scores.score(source, row, head);
                }
            }
            softmax(weights, heads);
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
        // SAFETY: every row is computed once, and written as zeros first.
        let output = unsafe { vec_from(block.num_dst() * self.width, fill) };
        (output, weights)
    }

    fn backward(&self, scores: &impl Scores<T>, weights: &[T], grad: &[T]) -> ScoreGradients<T> {
        let mut of_scores = vec![T::ZERO; weights.len()];
        let (destination, shared) = self.backward_to_destinations(scores, weights, grad, &mut of_scores);
        let (z, source) = self.backward_to_sources(scores, weights, grad, &of_scores);
        ScoreGradients { z, source, destination, shared }
    }

    /// The gradients of the destinations and of what all edges share; `of_scores`, `[entries, heads]`, gets those of the scores.
    fn backward_to_destinations(
        &self,
        scores: &impl Scores<T>,
        weights: &[T],
        grad: &[T],
        of_scores: &mut [T],
    ) -> (Vec<T>, Vec<T>) {
        let block = self.attention.block();
        let (indptr, heads, dropout) = (block.indptr(), self.heads, self.attention.dropout());
        let compute = |row: usize, out: &mut [MaybeUninit<T>], of_scores: &mut [T], shared: &mut Vec<T>| {
            let out = zeroed(out);
            let first = self.first_entry(row) * heads;
            let weights = &weights[first..first + of_scores.len()];
            for ((source, of_scores), (entry, edge)) in
                self.sources(row).zip(of_scores.chunks_exact_mut(heads)).zip((0..).zip(indptr[row]..))
            {
                self.prefetch(edge as usize);
                for (head, of_score) in of_scores.iter_mut().enumerate() {
                    let (grad, z) = (self.columns(grad, row, head), self.columns(self.z, source, head));
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
        // SAFETY: every row is computed once, and written as zeros first.
        let destination = unsafe { vec_from(block.num_dst() * width, fill) };
        (destination, shared)
    }

    /// The gradients of the rows that were summed, and of the sources' own scores.
    fn backward_to_sources(
        &self,
        scores: &impl Scores<T>,
        weights: &[T],
        grad: &[T],
        of_scores: &[T],
    ) -> (Vec<T>, Vec<T>) {
        let block = self.attention.block();
        let (indptr, transposed) = (block.indptr(), block.transposed());
        let (heads, dropout) = (self.heads, self.attention.dropout());
        let compute = |source: usize, out: &mut [MaybeUninit<T>], of_source: &mut [T]| {
            let out = zeroed(out);
            let mut add_entry = |row: usize, entry: usize| {
                let at = entry * heads;
                let factor = |head: usize| weights[at + head] * dropout.factor::<T>(at + head);
                self.add_row(out, grad, row, factor);
                scores.to_source(source, row, &of_scores[at..at + heads], out, of_source);
            };
            let range = transposed.indptr[source] as usize..transposed.indptr[source + 1] as usize;
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
        // SAFETY: every row is computed once, and written as zeros first.
        let z = unsafe { vec_from(block.num_src() * self.width, fill) };
        (z, of_sources)
    }
}

/// Makes weights of a row's scores, `[entries, heads]`, head by head. The greatest score becomes `exp(0)`, so that none
/// overflows.
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

/// Makes gradients of a row's scores of those of its weights, `[entries, heads]`.
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

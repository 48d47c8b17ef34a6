//! The products of edges by attention head on the CPU, over plain slices.

use std::mem::MaybeUninit;

use edgecut_graph::prefetch_all;
use edgecut_graph::uninit::{vec_from, zeroed};

use super::attention_scores::sum_of;
use super::block::Block;
use super::real::Real;
use super::row_tasks::{EntryRows, Rows, Sum, for_each_row, sum_over_rows};

/// The number of edges between the row that is read and the row that is prefetched.
const ROWS_AHEAD: usize = 4;

/// A row-major matrix whose columns are divided into heads.
#[derive(Clone, Copy)]
pub(super) struct HeadRows<'a, T> {
    pub(super) values: &'a [T],
    pub(super) width: usize,
    pub(super) heads: usize,
}

impl<'a, T: Real> HeadRows<'a, T> {
    #[inline(always)]
    fn row(self, row: usize) -> &'a [T] {
        &self.values[row * self.width..][..self.width]
    }

    /// Prefetches the row that is read some edges after `edge`.
    #[inline(always)]
    fn prefetch(self, ends: &[u32], edge: usize) {
        if let Some(&row) = ends.get(edge + ROWS_AHEAD) {
            prefetch_all(self.row(row as usize));
        }
    }
}

/// Returns the inner products of destinations and sources, `[num_edges, heads]`.
pub(super) fn edge_scores<T: Real>(of_dst: HeadRows<'_, T>, of_src: HeadRows<'_, T>, block: &Block) -> Vec<T> {
    let indptr = block.indptr();
    let indices = block.indices();
    let heads = of_dst.heads;
    let channels = of_dst.width / heads;
    let mut scores = vec![T::ZERO; block.num_edges() * heads];
    let entries = EntryRows::new(indptr, &mut scores, heads, 0);
    let sum = Sum {
        zero: || (),
        add: |(), ()| (),
        compute: |row: usize, _: &mut [()], scores: &mut [T], (): &mut ()| {
            let own = of_dst.row(row);
            let edges = indptr[row] as usize..indptr[row + 1] as usize;
            for (edge, scores) in edges.zip(scores.chunks_exact_mut(heads)) {
                of_src.prefetch(indices, edge);
                let other = of_src.row(indices[edge] as usize);
                for (head, score) in scores.iter_mut().enumerate() {
                    let own = &own[head * channels..][..channels];
                    let other = &other[head * channels..][..channels];
                    *score = sum_of(channels, |c| own[c] * other[c]);
                }
            }
        },
    };
    sum_over_rows(indptr, of_dst.width, Rows::new(&mut [(); 0], 0), entries, &sum);
    scores
}

/// Returns the sums of the sources' rows that are weighted by `weights`, `[num_edges, heads]`, for each destination.
pub(super) fn weigh_sources<T: Real>(weights: &[T], of_src: HeadRows<'_, T>, block: &Block) -> Vec<T> {
    let ends = Ends { indptr: block.indptr(), rows: block.indices(), edges: None };
    weigh(weights, of_src, ends)
}

/// Returns the sums of the destinations' rows that are weighted by `weights`, `[num_edges, heads]`, for each source.
pub(super) fn weigh_destinations<T: Real>(weights: &[T], of_dst: HeadRows<'_, T>, block: &Block) -> Vec<T> {
    let transposed = block.transposed();
    let ends = Ends { indptr: &transposed.indptr, rows: &transposed.rows, edges: Some(&transposed.edges) };
    weigh(weights, of_dst, ends)
}

/// The edges of the nodes that get sums.
#[derive(Clone, Copy)]
struct Ends<'a> {
    indptr: &'a [u32],
    /// The other end of each edge.
    rows: &'a [u32],
    /// The position of each edge among the weights, if it differs from the position here.
    edges: Option<&'a [u32]>,
}

fn weigh<T: Real>(weights: &[T], rows: HeadRows<'_, T>, ends: Ends<'_>) -> Vec<T> {
    let width = rows.width;
    let num_values = (ends.indptr.len() - 1) * width;
    // SAFETY: `for_each_row` calls `add_weighted` once for every row, which initialises it with zeros first.
    unsafe {
        vec_from(num_values, |memory| {
            let unused = Rows::new(&mut [(); 0], 0);
            for_each_row(ends.indptr, Rows::new(memory, width), unused, &|node, out, _| {
                add_weighted(out, weights, rows, ends, node);
            });
        })
    }
}

#[inline(always)]
fn add_weighted<T: Real>(
    out: &mut [MaybeUninit<T>],
    weights: &[T],
    rows: HeadRows<'_, T>,
    ends: Ends<'_>,
    node: usize,
) {
    let HeadRows { width, heads, .. } = rows;
    let channels = width / heads;
    let out = zeroed(out);
    for at in ends.indptr[node] as usize..ends.indptr[node + 1] as usize {
        rows.prefetch(ends.rows, at);
        let row = rows.row(ends.rows[at] as usize);
        let edge = ends.edges.map_or(at, |edges| edges[at] as usize);
        for (head, &weight) in weights[edge * heads..][..heads].iter().enumerate() {
            let row = &row[head * channels..][..channels];
            for (out, &value) in out[head * channels..][..channels].iter_mut().zip(row) {
                *out += value * weight;
            }
        }
    }
}

//! Attention over the in-edges of each destination, with two ways of scoring, and its backward pass.
//!
//! Values per edge and head are computed by one thread each, so hubs need no balancing there. Sums over a row's edges
//! are cut into tasks, as in an aggregation. The entries of a row are its edges, followed by its self edge if self
//! edges are on.

mod passes;

use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::kernels::columns::column_sums;
use crate::kernels::dropout::Mask;
use crate::kernels::edges::DeviceEdges;
use crate::kernels::grid::{addresses, rows, threads};
use crate::kernels::matrix::{Element, Matrix, array, vector_size, with_element};
use passes::{
    EntriesLaunch, Kind, normalize, score_entries, softmax_hubs, softmax_rows, softmax_tasks, sum_hubs, sum_rows,
    sum_tasks, to_scores, to_weights,
};

/// The formula of an edge's score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scoring {
    /// `LeakyReLU(score_dst + score_src)`, of GAT (Veličković et al. 2018).
    Additive,
    /// `vector · LeakyReLU(z_dst + z_src)`, of GATv2 (Brody et al. 2022).
    Dynamic,
}

/// An attention without its matrices.
#[derive(Clone, Copy, Debug)]
pub struct EdgeAttention<'a> {
    /// The in-edges of destinations.
    pub edges: &'a DeviceEdges,
    /// The number of destinations: the first rows of `edges`.
    pub num_rows: usize,
    /// The number of edges of these rows.
    pub num_edges: usize,
    /// The number of heads, each with an equal share of the columns.
    pub heads: usize,
    /// The formula of scores.
    pub scoring: Scoring,
    /// True if each destination has an additional edge from itself. Destinations are then the first of the sources.
    pub self_edges: bool,
    /// The factor for negative arguments of the LeakyReLU.
    pub negative_slope: f32,
    /// The dropout of weights after the softmax, by entry and head.
    pub dropout: Mask,
}

/// The inputs of the forward pass, all of one element type.
///
/// # Shapes
/// - [`Scoring::Additive`]: `[num_src, heads * channels]`, `[num_src, heads]`, `[num_rows, heads]`
/// - [`Scoring::Dynamic`]: `[num_src, heads * channels]`, `[num_rows, heads * channels]`, `[1, heads * channels]`
pub type AttentionInputs<'a> = [&'a Matrix; 3];

/// The arrays of entries that a kernel reads. An array that it does not read can be any other.
#[derive(Clone, Copy)]
struct Arrays<'a> {
    weights: &'a Handle,
    values: &'a Handle,
}

/// The sums over the entries of rows: the entries, and the terms that they add.
#[derive(Clone, Copy)]
struct Sums<'a> {
    edges: &'a DeviceEdges,
    arrays: Arrays<'a>,
    inputs: AttentionInputs<'a>,
    kind: Kind,
}

/// The matrices that entries are scored by, as a kernel reads them.
#[derive(Clone, Copy)]
struct Ends<'a> {
    z_src: &'a Matrix,
    z_dst: &'a Matrix,
    vector: &'a Matrix,
}

impl EdgeAttention<'_> {
    /// Returns the number of entries of all rows.
    fn num_entries(&self) -> usize {
        self.num_edges + if self.self_edges { self.num_rows } else { 0 }
    }

    /// Allocates a value for each entry and head.
    fn room<R: Runtime>(&self, client: &ComputeClient<R>) -> Handle {
        client.empty((self.num_entries() * self.heads).max(1) * size_of::<f32>())
    }

    /// Returns the arguments that all kernels share.
    fn entries<E: Float, N: Size, R: Runtime>(
        &self,
        arrays: Arrays<'_>,
        ends: Ends<'_>,
        vector: usize,
        lanes: usize,
    ) -> EntriesLaunch<E, N, R> {
        let values = self.num_entries() * self.heads;
        EntriesLaunch::new(
            array(arrays.weights, values),
            array(arrays.values, values),
            ends.z_src.arg(vector),
            ends.z_dst.arg(vector),
            ends.vector.arg(vector),
            array(&self.edges.indptr, self.edges.num_rows() + 1),
            self.dropout.arg(),
            self.num_rows,
            self.heads,
            lanes,
            (lanes / self.heads).max(1),
            self.negative_slope,
            self.self_edges,
        )
    }

    /// Returns the matrices that scores are computed from, the length of the vectors in which they are read, and the
    /// number of vectors in a row.
    fn scored<'a>(&self, [z, second, third]: AttentionInputs<'a>) -> (Ends<'a>, usize, usize) {
        match self.scoring {
            Scoring::Additive => (Ends { z_src: second, z_dst: third, vector: third }, 1, self.heads),
            Scoring::Dynamic => {
                let vector = self.vector_size(&[z, second, third]);
                (Ends { z_src: z, z_dst: second, vector: third }, vector, z.columns / vector)
            }
        }
    }

    /// Returns the length of the longest vectors that do not cross heads.
    fn vector_size(&self, matrices: &[&Matrix]) -> usize {
        let head = Matrix { columns: matrices[0].columns / self.heads, ..matrices[0].clone() };
        vector_size(&[matrices, &[&head]].concat())
    }

    /// Returns the index type for these matrices and the entries.
    fn addresses(&self, matrices: &[&Matrix]) -> AddressType {
        let spans = matrices.iter().map(|matrix| matrix.span());
        addresses(&spans.chain([2 * self.num_entries() * self.heads]).collect::<Vec<_>>())
    }

    /// Returns the sums of the rows of `z`, weighted by attention, and the weights before dropout, as `f32` by entry
    /// and head.
    ///
    /// # Shapes
    /// - output: `[num_rows, heads * channels]`, of the element type of `z`, and `[entries, heads]`
    ///
    /// # Panics
    /// Panics if the matrices have different element types.
    pub fn forward<R: Runtime>(&self, client: &ComputeClient<R>, inputs: AttentionInputs<'_>) -> (Matrix, Handle) {
        let z = inputs[0];
        assert!(inputs.iter().all(|matrix| matrix.element == z.element), "an attention's element types");
        let scores = self.room(client);
        let weights = self.room(client);
        let out = Matrix::empty(client, [self.num_rows, z.columns], z.element);
        if self.num_rows == 0 || z.columns == 0 {
            return (out, weights);
        }
        let softmax = client.empty(2 * self.num_rows * self.heads * size_of::<f32>());
        let pairs = |rows: usize| 2 * rows * self.heads;
        let (ends, vector, lanes) = self.scored(inputs);
        let addresses = self.addresses(&inputs);
        let num_entries = self.num_entries();
        // For arrays that it does not read, each kernel gets ones that it does not write.
        let unread = Arrays { weights: &softmax, values: &softmax };
        let scored = Arrays { weights: &softmax, values: &scores };
        let scored_again = Arrays { weights: &self.edges.indptr, values: &scores };
        let by_entry = threads(num_entries * self.heads);
        let by_row = rows(self.num_rows, self.heads);
        with_element!(z.element, E => {
            // SAFETY: in all launches threads beyond the entries, rows and heads do nothing, and edges are in range.
            unsafe {
                score_entries::launch_unchecked::<E, R>(
                    client, by_entry.0, by_entry.1, addresses, vector,
                    self.edges.arg(), self.entries(unread, ends, vector, lanes), array(&scores, num_entries * self.heads),
                    num_entries, self.scoring,
                );
                softmax_rows::launch_unchecked::<E, R>(
                    client, by_row.0, by_row.1, addresses, vector,
                    self.edges.arg(), self.entries(scored_again, ends, vector, lanes), array(&softmax, pairs(self.num_rows)),
                );
                if let Some(hubs) = self.edges.hubs(self.num_rows) {
                    let partial = client.empty(pairs(hubs.num_tasks) * size_of::<f32>());
                    let by_task = rows(hubs.num_tasks, self.heads);
                    softmax_tasks::launch_unchecked::<E, R>(
                        client, by_task.0, by_task.1, addresses, vector,
                        self.entries(scored_again, ends, vector, lanes), hubs.arg(), array(&partial, pairs(hubs.num_tasks)),
                    );
                    let by_hub = rows(hubs.num_hubs, self.heads);
                    softmax_hubs::launch_unchecked::<E, R>(
                        client, by_hub.0, by_hub.1, addresses, vector,
                        self.entries(scored_again, ends, vector, lanes), hubs.arg(), array(&partial, pairs(hubs.num_tasks)),
                        array(&softmax, pairs(self.num_rows)),
                    );
                }
                let by_entry = threads(num_entries * self.heads);
                normalize::launch_unchecked::<E, R>(
                    client, by_entry.0, by_entry.1, addresses, vector,
                    self.entries(scored, ends, vector, lanes), array(&softmax, pairs(self.num_rows)),
                    array(&weights, num_entries * self.heads), num_entries,
                );
            }
        });
        let arrays = Arrays { weights: &weights, values: &weights };
        self.sum(client, z, Sums { edges: self.edges, arrays, inputs, kind: Kind::Weighted }, &out);
        (out, weights)
    }

    /// Returns the gradients of the inputs, in their shapes and element types, from the gradient of the output,
    /// `[num_rows, heads * channels]`. `transposed` are the edges by source, with one row for each row of `z`.
    ///
    /// # Panics
    /// Panics if `transposed` has another number of rows.
    pub fn backward<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        inputs: AttentionInputs<'_>,
        weights: &Handle,
        grad: &Matrix,
        transposed: &DeviceEdges,
    ) -> [Matrix; 3] {
        let [z, second, third] = inputs;
        assert_eq!(transposed.num_rows(), z.rows, "rows of an attention's transposed edges");
        let element = z.element;
        let gradient = |like: &Matrix| Matrix::empty(client, [like.rows, like.columns], element);
        let of_z = gradient(z);
        let num_entries = self.num_entries();
        let values = num_entries * self.heads;
        if z.columns == 0 || self.num_rows == 0 || num_entries == 0 {
            let zeros = |like: &Matrix| Matrix::zeros(client, [like.rows, like.columns], element);
            return [zeros(z), zeros(second), zeros(third)];
        }
        let of_weights = self.room(client);
        let of_scores = self.room(client);
        let addresses = self.addresses(&[z, second, third, grad]);
        let by_entry = || threads(values);
        let vector = self.vector_size(&[z, grad]);
        let lanes = z.columns / vector;
        with_element!(element, E => {
            let ends = Ends { z_src: z, z_dst: grad, vector: grad };
            let arrays = Arrays { weights, values: weights };
            let (count, dim) = by_entry();
            // SAFETY: threads beyond the entries do nothing, and edges are in range.
            unsafe {
                to_weights::launch_unchecked::<E, R>(
                    client, count, dim, addresses, vector,
                    grad.arg(vector), self.edges.arg(), self.entries(arrays, ends, vector, lanes), array(&of_weights, values),
                    num_entries,
                );
            }
        });
        // The backward pass of a softmax subtracts from each gradient of a weight their weighted mean over the row.
        let means = Matrix::empty(client, [self.num_rows, self.heads], Element::F32);
        let arrays = Arrays { weights, values: &of_weights };
        self.sum(client, grad, Sums { edges: self.edges, arrays, inputs, kind: Kind::WeightedValues }, &means);
        let (ends, scored_vector, scored_lanes) = self.scored(inputs);
        with_element!(element, E => {
            let (count, dim) = by_entry();
            // SAFETY: as above.
            unsafe {
                to_scores::launch_unchecked::<E, R>(
                    client, count, dim, addresses, scored_vector,
                    self.edges.arg(), self.entries(arrays, ends, scored_vector, scored_lanes),
                    array(&means.handle, self.num_rows * self.heads), array(&of_scores, values), num_entries, self.scoring,
                );
            }
        });
        let arrays = Arrays { weights, values: &of_scores };
        let sum = |x: &Matrix, edges: &DeviceEdges, kind: Kind, out: &Matrix| {
            self.sum(client, x, Sums { edges, arrays, inputs, kind }, out);
        };
        match self.scoring {
            Scoring::Additive => {
                sum(grad, transposed, Kind::Weighted, &of_z);
                let of_src = gradient(second);
                let of_dst = gradient(third);
                sum(grad, transposed, Kind::Values, &of_src);
                sum(grad, self.edges, Kind::Values, &of_dst);
                [of_z, of_src, of_dst]
            }
            Scoring::Dynamic => {
                sum(grad, transposed, Kind::ToSource, &of_z);
                let of_dst = gradient(second);
                sum(grad, self.edges, Kind::ToDestination, &of_dst);
                let by_row = Matrix::empty(client, [self.num_rows, z.columns], Element::F32);
                sum(grad, self.edges, Kind::ToVector, &by_row);
                [of_z, of_dst, column_sums(client, &by_row, element)]
            }
        }
    }

    /// Computes sums over the rows of `x` into `out`.
    fn sum<R: Runtime>(&self, client: &ComputeClient<R>, x: &Matrix, sums: Sums<'_>, out: &Matrix) {
        if out.rows == 0 {
            return;
        }
        let Sums { edges, arrays, inputs, kind } = sums;
        let by_head = matches!(kind, Kind::Values | Kind::WeightedValues);
        let through_scores = self.scoring == Scoring::Dynamic && !by_head;
        let (ends, vector) = match (by_head, through_scores) {
            (true, _) => (Ends { z_src: x, z_dst: x, vector: x }, 1),
            (_, true) => (self.scored(inputs).0, self.vector_size(&[x, out, inputs[0], inputs[1], inputs[2]])),
            _ => (Ends { z_src: x, z_dst: x, vector: x }, self.vector_size(&[x, out])),
        };
        let lanes = out.columns / vector;
        let num_rows = out.rows;
        let addresses = self.addresses(&[x, out, ends.z_src, ends.z_dst]);
        with_element!(x.element, E => with_element!(out.element, O => {
            let (count, dim) = rows(num_rows, lanes);
            // SAFETY: threads beyond the rows and lanes do nothing, and edges are in range.
            unsafe {
                sum_rows::launch_unchecked::<E, O, R>(
                    client, count, dim, addresses, vector,
                    x.arg(vector), edges.arg(), self.entries(arrays, ends, vector, lanes), out.arg(vector), num_rows, kind,
                );
            }
            if let Some(hubs) = edges.hubs(num_rows) {
                let partial = Matrix::empty(client, [hubs.num_tasks, out.columns], Element::F32);
                let (count, dim) = rows(hubs.num_tasks, lanes);
                // SAFETY: as above.
                unsafe {
                    sum_tasks::launch_unchecked::<E, R>(
                        client, count, dim, addresses, vector,
                        x.arg(vector), edges.arg(), self.entries(arrays, ends, vector, lanes), hubs.arg(),
                        partial.arg(vector), kind,
                    );
                }
                let (count, dim) = rows(hubs.num_hubs, lanes);
                // SAFETY: as above.
                unsafe {
                    sum_hubs::launch_unchecked::<E, O, R>(
                        client, count, dim, addresses, vector,
                        x.arg(vector), self.entries(arrays, ends, vector, lanes), hubs.arg(), partial.arg(vector),
                        out.arg(vector), kind,
                    );
                }
            }
        }));
    }
}

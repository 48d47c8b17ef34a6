//! Products over the edges of a block by attention head: scores of edges from rows of both ends, and sums of rows that are
//! weighted by edge.
//!
//! The gradients of each of both operations are results of both, so that no pass on the CPU makes a row per edge.

use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorMetadata};

use super::block::Block;
use super::gnn_backend::{GnnBackend, compute};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};

/// The inner products of the rows of edges' ends.
#[derive(Debug, Clone)]
struct EdgeScores {
    block: Block,
    heads: usize,
}

impl<K: GnnKernels> Operation<K, 2> for EdgeScores {
    type Saved = [FloatTensor<K>; 2];
    type Extra = ();

    fn forward(&self, inputs: [FloatTensor<K>; 2], _: bool) -> Forward<K, Self::Saved> {
        let [of_dst, of_src] = inputs.clone();
        let output = K::edge_scores(of_dst, of_src, self.heads, &self.block);
        Forward { output, extra: (), saved: inputs }
    }

    fn backward(
        self,
        [of_dst, of_src]: Self::Saved,
        grad: FloatTensor<K>,
        [wants_dst, wants_src]: [bool; 2],
    ) -> [Option<FloatTensor<K>>; 2] {
        let to_dst = wants_dst.then(|| K::weigh_sources(grad.clone(), of_src, &self.block));
        let to_src = wants_src.then(|| K::weigh_destinations(grad, of_dst, &self.block));
        [to_dst, to_src]
    }
}

/// The sum of the sources' rows, weighted by edge and head.
#[derive(Debug, Clone)]
struct WeightedSources(Block);

impl<K: GnnKernels> Operation<K, 2> for WeightedSources {
    type Saved = [FloatTensor<K>; 2];
    type Extra = ();

    fn forward(&self, inputs: [FloatTensor<K>; 2], _: bool) -> Forward<K, Self::Saved> {
        let [weights, of_src] = inputs.clone();
        Forward { output: K::weigh_sources(weights, of_src, &self.0), extra: (), saved: inputs }
    }

    fn backward(
        self,
        [weights, of_src]: Self::Saved,
        grad: FloatTensor<K>,
        [wants_weights, wants_src]: [bool; 2],
    ) -> [Option<FloatTensor<K>>; 2] {
        let heads = weights.shape()[1];
        let to_weights = wants_weights.then(|| K::edge_scores(grad.clone(), of_src, heads, &self.0));
        let to_src = wants_src.then(|| K::weigh_destinations(weights, grad, &self.0));
        [to_weights, to_src]
    }
}

/// Returns the inner product of each head's columns of an edge's destination with its columns of the source.
///
/// # Shapes
/// - `of_dst`: `[num_dst, heads * channels]`
/// - `of_src`: `[num_src, heads * channels]`
/// - output: `[num_edges, heads]`
///
/// # Panics
/// If the shapes do not match the block or each other.
///
/// ```
/// # use std::sync::Arc;
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_gnn::ops::{BatchGraph, Block, edge_scores, weigh_sources};
/// let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?), 1, 3)?;
/// let x = Tensor::<NdArray, 2>::from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &Default::default());
/// let scores = edge_scores(x.clone().slice([0..1]), x.clone(), 1, &block);
/// assert_eq!(scores.clone().into_data(), TensorData::from([[11.0f32], [17.0]]));
/// assert_eq!(weigh_sources(scores, x, &block).into_data(), TensorData::from([[118.0f32, 146.0]]));
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
pub fn edge_scores<B: GnnBackend>(
    of_dst: Tensor<B, 2>,
    of_src: Tensor<B, 2>,
    heads: usize,
    block: &Block,
) -> Tensor<B, 2> {
    let [rows, width] = of_dst.dims();
    assert_eq!(rows, block.num_dst(), "edge_scores: rows of of_dst");
    assert_eq!(of_src.dims(), [block.num_src(), width], "edge_scores: shape of of_src");
    assert!(width.is_multiple_of(heads), "edge_scores: {width} columns for {heads} heads");
    let operation = EdgeScores { block: block.clone(), heads };
    compute(operation, [of_dst.into_primitive(), of_src.into_primitive()]).0
}

/// Sums the rows of each destination's sources. The columns of each head are multiplied by the weight of the edge and the
/// head. A destination without edges gets zeros.
///
/// # Shapes
/// - `weights`: `[num_edges, heads]`
/// - `of_src`: `[num_src, heads * channels]`
/// - output: `[num_dst, heads * channels]`
///
/// # Panics
/// If the shapes do not match the block or each other.
pub fn weigh_sources<B: GnnBackend>(weights: Tensor<B, 2>, of_src: Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
    let [num_edges, heads] = weights.dims();
    let [num_src, width] = of_src.dims();
    assert_eq!([num_edges, num_src], [block.num_edges(), block.num_src()], "weigh_sources: rows of weights and of_src");
    assert!(width.is_multiple_of(heads), "weigh_sources: {width} columns for {heads} heads");
    compute(WeightedSources(block.clone()), [weights.into_primitive(), of_src.into_primitive()]).0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn::backend::{Autodiff, NdArray};
    use burn::tensor::Distribution;

    use super::*;
    use crate::ops::{
        BatchGraph, BlockError, Reduce, dot_heads, gather_destinations, gather_sources, host_values, scale_heads,
        scatter_edges,
    };

    type B = Autodiff<NdArray>;
    type Matrix = Tensor<B, 2>;

    const HEADS: usize = 2;
    /// Not a multiple of the lanes of a sum.
    const WIDTH: usize = 2 * 11;

    /// Compares an operation and its gradients with a computation that makes a row per edge.
    fn compare(inputs: [Matrix; 2], fused: impl Fn([Matrix; 2]) -> Matrix, by_rows: impl Fn([Matrix; 2]) -> Matrix) {
        let [own, expected] = [gradients(&inputs, fused), gradients(&inputs, by_rows)];
        for (own, expected) in own.into_iter().zip(expected) {
            assert_close(own, expected);
        }
    }

    /// Returns the output, and the gradients of the sum of its squares by both inputs.
    fn gradients(inputs: &[Matrix; 2], run: impl Fn([Matrix; 2]) -> Matrix) -> [Tensor<NdArray, 2>; 3] {
        let inputs = inputs.each_ref().map(|input| input.clone().detach().require_grad());
        let output = run(inputs.clone());
        let gradients = (output.clone() * output.clone()).sum().backward();
        let [first, second] = inputs.map(|input| input.grad(&gradients).expect("a gradient"));
        [output.inner(), first, second]
    }

    fn assert_close<B: GnnBackend>(own: Tensor<B, 2>, expected: Tensor<B, 2>) {
        let [own, expected] = [own, expected].map(host_values);
        assert_eq!(own.len(), expected.len());
        for (own, expected) in own.iter().zip(expected) {
            assert!((own - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{own} and {expected}");
        }
    }

    #[test]
    fn equals_rows_of_edges_forward_and_backward() -> Result<(), BlockError> {
        // Parallel edges, a row without edges, and a source without edges.
        let graph = Arc::new(BatchGraph::new(vec![0, 3, 3, 7], vec![2, 0, 2, 1, 2, 4, 1], 5)?);
        let block = Block::new(graph, 3, 5)?;
        let device = Default::default();
        let draw = |rows, width| Matrix::random([rows, width], Distribution::Normal(0.0, 1.0), &device);
        let [of_dst, of_src, weights] = [draw(3, WIDTH), draw(5, WIDTH), draw(7, HEADS)];
        compare(
            [of_dst, of_src.clone()],
            |[of_dst, of_src]| edge_scores(of_dst, of_src, HEADS, &block),
            |[of_dst, of_src]| dot_heads(gather_destinations(of_dst, &block), gather_sources(of_src, &block), HEADS),
        );
        compare(
            [weights, of_src],
            |[weights, of_src]| weigh_sources(weights, of_src, &block),
            |[weights, of_src]| {
                scatter_edges(scale_heads(gather_sources(of_src, &block), weights), &block, &Reduce::Sum)
            },
        );
        Ok(())
    }
}

//! The neighbor aggregation.

use std::sync::Arc;

use burn::tensor::Tensor;
use burn::tensor::ops::{FloatTensor, IntTensor};

use super::block::Block;
use super::edge_weights::EdgeWeights;
use super::gnn_backend::{GnnBackend, compute};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};

/// The reduction of a node's neighbor rows to one row. A node without neighbors gets zeros.
///
/// ```
/// # use std::sync::Arc;
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_gnn::ops::{BatchGraph, Block, Reduce, aggregate};
/// let graph = Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?);
/// let block = Block::new(graph, 1, 3)?;
/// let x = Tensor::<NdArray, 2>::from_data([[9.0], [1.0], [3.0]], &Default::default());
/// for (reduce, expected) in [(Reduce::Sum, 4.0f32), (Reduce::Mean, 2.0), (Reduce::Max, 3.0)] {
///     assert_eq!(aggregate(x.clone(), &block, &reduce).into_data(), TensorData::from([[expected]]));
/// }
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
#[derive(Debug, Clone)]
pub enum Reduce {
    /// The sum of the rows.
    Sum,
    /// The mean of the rows. Each parallel edge counts.
    Mean,
    /// The maximum of each feature, or NaN if a neighbor has NaN. On ties the first neighbor in edge order gets the
    /// gradient.
    Max,
    /// The sum weighted by constants, plus the node's own weighted row if the weights have self loops.
    WeightedSum(Arc<EdgeWeights>),
}

/// The block and the settings of an aggregation, without the features.
#[derive(Debug, Clone)]
pub struct Aggregate {
    block: Block,
    reduce: Reduce,
    append_self: bool,
}

impl Aggregate {
    /// Makes the aggregation of `block` by `reduce`.
    ///
    /// # Panics
    /// If the weights of [`Reduce::WeightedSum`] were made for a graph of another size, or if they have self loops and
    /// the block has more destinations than sources.
    fn new(block: Block, reduce: Reduce) -> Self {
        if let Reduce::WeightedSum(weights) = &reduce {
            assert!(weights.fits(block.graph()), "aggregate: the edge weights were made for another batch");
            if weights.self_loops().is_some() {
                block.assert_rows_are_nodes("aggregate with self loops");
            }
        }
        Self { block, reduce, append_self: false }
    }

    /// Makes the aggregation that gives each edge of `block` the row of its source. Its backward pass sums rows of edges for
    /// each source.
    pub(super) fn sum_to_edges(block: &Block) -> Self {
        Self::new(block.sources_to_edges().clone(), Reduce::Sum)
    }

    /// Appends each destination's own row to its aggregated row, which doubles the columns of the output.
    ///
    /// # Panics
    /// If there are more destinations than sources, so that the destinations cannot be the first sources.
    fn appending_self(mut self) -> Self {
        self.block.assert_rows_are_nodes("aggregate_with_self");
        self.append_self = true;
        self
    }

    /// Returns the block: the rows and nodes that the operation works on.
    pub(super) fn block(&self) -> &Block {
        &self.block
    }

    /// Returns the reduction.
    pub(super) fn reduce(&self) -> &Reduce {
        &self.reduce
    }

    /// Returns the number of output columns for `width` input columns.
    pub(super) fn output_width(&self, width: usize) -> usize {
        if self.append_self { 2 * width } else { width }
    }

    /// Returns whether the output contains the destinations' own rows.
    pub(super) fn appends_self(&self) -> bool {
        self.append_self
    }
}

impl<K: GnnKernels> Operation<K, 1> for Aggregate {
    /// The winning edges of a maximum. Other reductions keep nothing: the backward pass needs the edges but not the
    /// features.
    type Saved = Option<IntTensor<K>>;
    type Extra = ();

    fn forward(&self, [x]: [FloatTensor<K>; 1], for_backward: bool) -> Forward<K, Self::Saved> {
        if for_backward && matches!(self.reduce, Reduce::Max) {
            let (output, argmax) = K::aggregate_forward_argmax(x, self);
            Forward { output, extra: (), saved: Some(argmax) }
        } else {
            Forward { output: K::aggregate_forward(x, self), extra: (), saved: None }
        }
    }

    fn backward(self, argmax: Self::Saved, grad: FloatTensor<K>, _: [bool; 1]) -> [Option<FloatTensor<K>>; 1] {
        [Some(K::aggregate_backward(grad, argmax, &self))]
    }
}

/// Aggregates the neighbors of each destination.
///
/// # Shapes
/// - `x`: `[num_src, features]`
/// - output: `[num_dst, features]`
///
/// # Panics
/// If `x` does not have `num_src` rows, if the weights of [`Reduce::WeightedSum`] were made for a graph of another
/// size, or if they have self loops and the block has more destinations than sources.
pub fn aggregate<B: GnnBackend>(x: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    run(x, Aggregate::new(block.clone(), reduce.clone()))
}

/// Aggregates the neighbors of each destination and appends the destination's own row.
///
/// It is one operation so that the gradient of both halves is computed in one pass over the sources, instead of as two
/// tensors that are added.
///
/// # Shapes
/// - `x`: `[num_src, features]`
/// - output: `[num_dst, 2 * features]`, the aggregated columns first
///
/// # Panics
/// In the cases of [`aggregate`], and if there are more destinations than sources.
pub fn aggregate_with_self<B: GnnBackend>(x: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    run(x, Aggregate::new(block.clone(), reduce.clone()).appending_self())
}

fn run<B: GnnBackend>(x: Tensor<B, 2>, aggregate: Aggregate) -> Tensor<B, 2> {
    let [rows, _] = x.dims();
    assert_eq!(rows, aggregate.block.num_src(), "aggregate: rows of x against sources of the block");
    compute(aggregate, [x.into_primitive()]).0
}

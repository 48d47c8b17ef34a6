//! Pooling: the rows of each graph of a batch as one.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::aggregate::{GnnBackend, Reduce, aggregate};
use super::batch_graph::{BatchGraph, BlockError};
use super::block::Block;

/// Which stretch of rows belongs to which graph of a batch. Cloning is cheap.
///
/// Pooling is an aggregation whose destinations are graphs and whose sources are their nodes, and computed as one.
#[derive(Debug, Clone)]
pub struct Segments(Block);

impl Segments {
    /// The segments that `offsets` cut, from 0 to the number of rows: an entry more than there are segments, which may be empty.
    ///
    /// # Errors
    /// [`BlockError`] for offsets that do not start at 0 or that decrease.
    pub fn new(offsets: Vec<u32>) -> Result<Self, BlockError> {
        let rows = offsets.last().copied().unwrap_or(0);
        let num_segments = offsets.len().saturating_sub(1);
        let graph = BatchGraph::new(offsets, (0..rows).collect(), rows as usize)?;
        Ok(Self(Block::new(Arc::new(graph), num_segments, rows as usize)?))
    }

    /// The number of segments.
    pub fn num_segments(&self) -> usize {
        self.0.num_dst()
    }

    /// Rows of all segments.
    pub fn num_rows(&self) -> usize {
        self.0.num_src()
    }

    /// The block whose destinations are the segments.
    pub fn block(&self) -> &Block {
        &self.0
    }

    /// Builds what the backward pass reads, as [`Block::prepare_backward`].
    pub fn prepare_backward(&self) {
        self.0.prepare_backward();
    }
}

/// The sum, mean or maximum of the rows of each segment; zero for an empty one.
///
/// # Shapes
/// - `x`: `[num_rows, features]`
/// - output: `[num_segments, features]`
///
/// # Panics
/// If `x` has other rows, or for weights, which edges have and segments do not.
///
/// ```
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_trainer::ops::{Reduce, Segments, pool};
/// let segments = Segments::new(vec![0, 2, 2, 3])?;
/// let x = Tensor::<NdArray, 2>::from_data([[1.0], [3.0], [5.0]], &Default::default());
/// assert_eq!(pool(x, &segments, &Reduce::Mean).into_data(), TensorData::from([[2.0f32], [0.0], [5.0]]));
/// # Ok::<(), edgecut_trainer::ops::BlockError>(())
/// ```
pub fn pool<B: GnnBackend>(x: Tensor<B, 2>, segments: &Segments, reduce: &Reduce) -> Tensor<B, 2> {
    assert!(!matches!(reduce, Reduce::WeightedSum(_)), "pool: segments have no weights");
    aggregate(x, &segments.0, reduce)
}

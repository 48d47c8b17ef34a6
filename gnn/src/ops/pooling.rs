//! Pooling: combines the node rows of each graph of a batch into one row.

use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use super::aggregate::{Reduce, aggregate};
use super::batch_graph::{BatchGraph, BlockError};
use super::block::Block;
use super::gnn_backend::GnnBackend;

/// The contiguous row ranges of the graphs of a batch. Cloning is cheap.
///
/// Pooling is computed as an aggregation whose destinations are the graphs and whose sources are their nodes.
#[derive(Debug, Clone)]
pub struct Segments {
    /// From rows to segments.
    block: Block,
    /// From segments to rows, for [`Segments::expand`].
    expanding: Arc<OnceLock<Block>>,
}

impl Segments {
    /// Makes the segments `offsets[i]..offsets[i + 1]`. Segments may be empty.
    ///
    /// # Shapes
    /// - `offsets`: `[num_segments + 1]`, from 0 to the number of rows
    ///
    /// # Errors
    /// [`BlockError`] if `offsets` is empty, does not start at 0 or decreases.
    pub fn new(offsets: Vec<u32>) -> Result<Self, BlockError> {
        let rows = offsets.last().copied().unwrap_or(0);
        let num_segments = offsets.len().saturating_sub(1);
        let graph = BatchGraph::new(offsets, (0..rows).collect(), rows as usize)?;
        let block = Block::new(Arc::new(graph), num_segments, rows as usize)?;
        Ok(Self { block, expanding: Arc::default() })
    }

    /// Returns the number of segments.
    pub fn num_segments(&self) -> usize {
        self.block.num_dst()
    }

    /// Returns the number of rows of all segments.
    pub fn num_rows(&self) -> usize {
        self.block.num_src()
    }

    /// Copies the row of each segment to all rows of the segment.
    ///
    /// # Shapes
    /// - `x`: `[num_segments, features]`
    /// - output: `[num_rows, features]`
    ///
    /// # Panics
    /// If `x` does not have `num_segments` rows.
    pub fn expand<B: GnnBackend>(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let block = self.expanding.get_or_init(|| {
            let num_rows = self.num_rows();
            let mut indices = Vec::with_capacity(num_rows);
            for (segment, ends) in (0..).zip(self.block.indptr().windows(2)) {
                indices.extend(std::iter::repeat_n(segment, (ends[1] - ends[0]) as usize));
            }
            let indptr = (0..=num_rows as u32).collect();
            let graph = BatchGraph::new(indptr, indices, self.num_segments()).expect("each row is in one segment");
            Block::new(Arc::new(graph), num_rows, self.num_segments()).expect("all rows and segments")
        });
        aggregate(x, block, &Reduce::Sum)
    }

    /// Returns the block whose destinations are the segments and whose sources are the rows.
    pub fn block(&self) -> &Block {
        &self.block
    }
}

/// Computes the sum, mean or maximum of the rows of each segment. Empty segments get zeros.
///
/// # Shapes
/// - `x`: `[num_rows, features]`
/// - output: `[num_segments, features]`
///
/// # Panics
/// If `x` does not have `num_rows` rows, or if `reduce` is [`Reduce::WeightedSum`]: segments have no weights.
pub fn pool<B: GnnBackend>(x: Tensor<B, 2>, segments: &Segments, reduce: &Reduce) -> Tensor<B, 2> {
    assert!(!matches!(reduce, Reduce::WeightedSum(_)), "pool: segments have no weights");
    aggregate(x, &segments.block, reduce)
}

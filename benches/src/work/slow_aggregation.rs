//! The straightforward aggregation with burn's own operations, as a baseline.

use burn::tensor::backend::Backend;
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};
use edgecut_gnn::ops::Block;

/// The mean over each destination's neighbors by a gather of one row per edge and a scatter-add. The index tensors of
/// the block are made in advance.
pub(crate) struct SlowMean<B: Backend> {
    sources: Tensor<B, 1, Int>,
    destinations: Tensor<B, 1, Int>,
    /// One over the number of neighbors, `[num_dst, 1]`.
    scale: Tensor<B, 2>,
}

impl<B: Backend> SlowMean<B> {
    pub(crate) fn new(block: &Block) -> Self {
        let device = B::Device::default();
        let ints = |values: Vec<i64>| {
            let count = values.len();
            Tensor::<B, 1, Int>::from_data(TensorData::new(values, [count]), &device)
        };
        let degrees: Vec<usize> = block.indptr().windows(2).map(|ends| (ends[1] - ends[0]) as usize).collect();
        let destinations =
            degrees.iter().enumerate().flat_map(|(row, &degree)| std::iter::repeat_n(row as i64, degree)).collect();
        let scale: Vec<f32> = degrees.iter().map(|&degree| 1.0 / degree.max(1) as f32).collect();
        Self {
            sources: ints(block.indices().iter().map(|&source| i64::from(source)).collect()),
            destinations: ints(destinations),
            scale: Tensor::from_data(TensorData::new(scale, [degrees.len(), 1]), &device),
        }
    }

    /// Returns the mean of each destination's neighbors.
    ///
    /// # Shapes
    /// - `x`: `[num_src, features]`
    /// - output: `[num_dst, features]`
    pub(crate) fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let [_, width] = x.dims();
        let [num_dst, _] = self.scale.dims();
        let zeros = Tensor::zeros([num_dst, width], &x.device());
        let messages = x.select(0, self.sources.clone());
        zeros.select_assign(0, self.destinations.clone(), messages, IndexingUpdateOp::Add) * self.scale.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::synthetic::{Cpu, random_block, random_tensor};
    use edgecut_gnn::ops::{Reduce, aggregate};

    #[test]
    fn both_ways_give_the_same() {
        let block = random_block(40).expect("a block");
        let x = random_tensor::<Cpu>(40, 7, 1);
        let slow = SlowMean::new(&block).forward(x.clone());
        let difference = (aggregate(x, &block, &Reduce::Mean) - slow).abs().max();
        assert!(difference.into_scalar() < 1e-6);
    }
}

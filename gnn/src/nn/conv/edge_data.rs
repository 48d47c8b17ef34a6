//! Values of edges that a convolution reads.

use std::sync::Arc;

use burn::module::Param;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use super::gcn_norm::GcnNorm;
use crate::ops::{
    Activation, BatchGraph, Block, BlockError, EdgeWeights, GnnBackend, Linear, Precision, Reduce, linear,
    scatter_edges,
};

/// Values of the edges of a block. A convolution may ignore them. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct EdgeData<B: Backend> {
    /// Normalisation of a GCN, if the batch has it.
    pub gcn_norm: Option<GcnNorm>,
    /// Features, `[num_edges, edge_channels]`, if the convolution reads them and the edges have some.
    pub features: Option<Tensor<B, 2>>,
    /// Factors of the messages over all edges of the batch, which [`EdgeWeighting::factors`] has made from the weights of
    /// edges, if the convolution multiplies messages by them.
    pub factors: Option<Arc<EdgeWeights>>,
}

impl<B: Backend> EdgeData<B> {
    /// Returns the sum of the messages multiplied by their factors, or `plain` for edges without factors.
    pub(super) fn reduce(&self, plain: Reduce) -> Reduce {
        match &self.factors {
            Some(factors) => Reduce::WeightedSum(Arc::clone(factors)),
            None => plain,
        }
    }
}

impl<B: GnnBackend> EdgeData<B> {
    /// Returns the aggregated features of each destination's edges times `weight`. With the aggregated rows of the
    /// sources times another weight, they are the aggregation of the concatenated rows of sources and edges times one
    /// weight.
    ///
    /// # Shapes
    /// - `weight`: `[edge_channels, out_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If the edges have no features, or other ones than the weight.
    pub(super) fn aggregated_features(
        &self,
        block: &Block,
        plain: &Reduce,
        weight: &Param<Tensor<B, 2>>,
        precision: Precision,
    ) -> Tensor<B, 2> {
        let features = self.features.clone().expect("the layer reads edge features");
        let aggregated = match &self.factors {
            None => scatter_edges(features, block, plain),
            Some(factors) => {
                // There are factors for all edges of the batch. The edges of the block are the first ones.
                let factors = factors.edges()[..block.num_edges()].to_vec();
                let factors = TensorData::new(factors, [block.num_edges(), 1]);
                let device = features.device();
                scatter_edges(features * Tensor::from_data(factors, &device), block, &Reduce::Sum)
            }
        };
        linear(aggregated, weight.val(), None, Linear { activation: Activation::Identity, precision })
    }
}

/// The multiplication of messages by the weights of edges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EdgeWeighting {
    /// The convolution does not multiply messages by weights.
    #[default]
    None,
    /// The sum of the weighted messages.
    Sum,
    /// The sum of the weighted messages, divided by the number of edges, as PyG's `GraphConv`.
    Mean,
    /// The sum of the weighted messages, divided by the sum of the weights. 0 if all weights are 0.
    WeightedMean,
    /// The symmetric normalisation by sums of weights in place of degrees, [`GcnNorm::weighted`].
    GcnNorm,
}

impl EdgeWeighting {
    /// Returns the factors of messages for the weights of all edges of a batch.
    ///
    /// # Shapes
    /// - `weights`: `[num_edges]`
    ///
    /// # Errors
    /// [`BlockError`] for another number of weights.
    pub fn factors(self, graph: &BatchGraph, mut weights: Vec<f32>) -> Result<EdgeWeights, BlockError> {
        if weights.len() == graph.num_edges() {
            for ends in graph.indptr().windows(2) {
                let of_row = &mut weights[ends[0] as usize..ends[1] as usize];
                let divisor = match self {
                    Self::None | Self::Sum | Self::GcnNorm => continue,
                    Self::Mean => of_row.len() as f64,
                    Self::WeightedMean => of_row.iter().map(|&weight| f64::from(weight)).sum(),
                };
                if divisor > 0.0 {
                    of_row.iter_mut().for_each(|weight| *weight = (f64::from(*weight) / divisor) as f32);
                }
            }
        }
        EdgeWeights::new(graph, weights, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_rows_without_weight_are_zero() -> Result<(), BlockError> {
        let graph = BatchGraph::new(vec![0, 2, 2, 3], vec![1, 2, 0], 3)?;
        for weighting in [EdgeWeighting::Sum, EdgeWeighting::Mean, EdgeWeighting::WeightedMean] {
            assert_eq!(weighting.factors(&graph, vec![0.0, 0.0, 2.0])?.edges()[..2], [0.0, 0.0], "{weighting:?}");
        }
        let error = EdgeWeighting::WeightedMean.factors(&graph, vec![1.0; 2]).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("2 edge weights, expected 3"));
        Ok(())
    }
}

//! The symmetric normalisation of a graph convolution.

use std::sync::Arc;

use thiserror::Error;

use crate::ops::{BatchGraph, EdgeWeights, Reduce};

/// The weights `D^-1/2 (A + I) D^-1/2` of a batch, with the degrees of the *full* graph.
///
/// If all neighbors are sampled, the result is exact: edge `u -> v` has weight `1 / sqrt((deg_v + 1) (deg_u + 1))`, and
/// node `v` itself has weight `1 / (deg_v + 1)` (Kipf and Welling, "Semi-supervised classification with graph
/// convolutional networks", ICLR 2017; degrees count in-edges, as in PyG). If only `k_v` of the `deg_v` neighbors are
/// sampled, edge weights are multiplied by `deg_v / k_v`. The expectation of the sum over uniformly sampled neighbors
/// is then the full sum.
///
/// Weighted sampling would bias this sum, and the degrees of the full graph count edges of all times. Therefore
/// training rejects a GCN with weighted or temporal sampling.
///
/// PyG's `GCNConv` drops self loops of the data before it adds its own. Here a self loop among the edges is kept as an
/// ordinary edge.
#[derive(Debug, Clone)]
pub struct GcnNorm {
    weights: Arc<EdgeWeights>,
}

impl GcnNorm {
    /// Computes the weights of a batch. All layers share them.
    ///
    /// # Shapes
    /// - `degrees`: `[num_nodes]`, the in-degree in the full graph of every node of the batch
    ///
    /// # Errors
    /// [`GcnNormError`] if the number of degrees is wrong, if a node with neighbors has degree 0, or if the graph has
    /// more rows than nodes, as it can between two node types.
    pub fn new(graph: &BatchGraph, degrees: &[u32]) -> Result<Self, GcnNormError> {
        let in_weights = degrees.iter().map(|&degree| f64::from(degree));
        Self::over(graph, degrees, in_weights.collect(), None)
    }

    /// Computes the weights of a batch whose edges have weights: edge `u -> v` of weight `w` has
    /// `w / sqrt((d_v + 1) (d_u + 1))`, where `d` is the sum of the weights of all in-edges. A node itself has
    /// `1 / (d_v + 1)`. This is PyG's `gcn_norm` with `edge_weight`. If only some of the neighbors are sampled, the
    /// factor is that of [`GcnNorm::new`].
    ///
    /// # Shapes
    /// - `degrees`: `[num_nodes]`, the in-degree in the full graph of every node of the batch
    /// - `in_weights`: `[num_nodes]`, the sum of the weights of the in-edges in the full graph
    /// - `weights`: `[num_edges]`
    ///
    /// # Errors
    /// The errors of [`GcnNorm::new`], and [`GcnNormError`] for a wrong number of weights.
    pub fn weighted(
        graph: &BatchGraph,
        degrees: &[u32],
        in_weights: &[f32],
        weights: &[f32],
    ) -> Result<Self, GcnNormError> {
        if weights.len() != graph.num_edges() {
            let what = format!("{} weights for {} edges, expected one per edge", weights.len(), graph.num_edges());
            return Err(GcnNormError(what));
        }
        Self::over(graph, degrees, in_weights.iter().map(|&sum| f64::from(sum)).collect(), Some(weights))
    }

    fn over(
        graph: &BatchGraph,
        degrees: &[u32],
        in_weights: Vec<f64>,
        weights: Option<&[f32]>,
    ) -> Result<Self, GcnNormError> {
        let num_rows = graph.num_rows();
        let num_nodes = graph.num_nodes();
        if num_rows > num_nodes {
            return Err(GcnNormError(format!(
                "{num_rows} rows but {num_nodes} source nodes, a GCN needs edges within one node type"
            )));
        }
        for given in [degrees.len(), in_weights.len()] {
            if given != num_nodes {
                let what = format!("{given} degrees for a batch of {num_nodes} nodes, expected one per node");
                return Err(GcnNormError(what));
            }
        }
        let inverse_roots: Vec<f64> = in_weights.into_iter().map(|sum| (sum + 1.0).sqrt().recip()).collect();
        let mut edges = Vec::with_capacity(graph.num_edges());
        for (row, range) in graph.indptr().windows(2).enumerate() {
            let sources = &graph.indices()[range[0] as usize..range[1] as usize];
            if sources.is_empty() {
                continue;
            }
            if degrees[row] == 0 {
                return Err(GcnNormError(format!(
                    "node {row} of the batch has {} neighbors but an in-degree of 0 in the full graph",
                    sources.len()
                )));
            }
            let of_row = f64::from(degrees[row]) / sources.len() as f64 * inverse_roots[row];
            match weights.map(|weights| &weights[range[0] as usize..range[1] as usize]) {
                None => edges.extend(sources.iter().map(|&source| (of_row * inverse_roots[source as usize]) as f32)),
                Some(weights) => edges.extend(
                    sources
                        .iter()
                        .zip(weights)
                        .map(|(&source, &weight)| (of_row * inverse_roots[source as usize] * f64::from(weight)) as f32),
                ),
            }
        }
        let self_loops = inverse_roots[..graph.num_rows()].iter().map(|root| (root * root) as f32).collect();
        let weights = EdgeWeights::new(graph, edges, Some(self_loops)).expect("one weight per edge and row");
        Ok(Self { weights: Arc::new(weights) })
    }

    /// Returns the weighted sum with these weights.
    pub fn reduce(&self) -> Reduce {
        Reduce::WeightedSum(Arc::clone(&self.weights))
    }

    /// Returns the weights of edges and self loops.
    pub fn weights(&self) -> &EdgeWeights {
        &self.weights
    }
}

/// An error of the degrees or the graph of a [`GcnNorm`].
#[derive(Debug, Error, PartialEq, Eq)]
#[error("GCN normalisation: {0}")]
pub struct GcnNormError(String);

#[cfg(test)]
mod tests {
    use super::*;

    fn error(degrees: &[u32]) -> String {
        let graph = BatchGraph::new(vec![0, 1], vec![1], 2).expect("a valid graph");
        GcnNorm::new(&graph, degrees).expect_err("an error").to_string()
    }

    #[test]
    fn rejects_degrees_that_do_not_fit() {
        assert_eq!(error(&[1]), "GCN normalisation: 1 degrees for a batch of 2 nodes, expected one per node");
        assert!(error(&[0, 1]).contains("node 0 of the batch has 1 neighbors but an in-degree of 0"));
    }

    #[test]
    fn drawn_neighbors_stand_for_all() {
        // Node 0 has 6 neighbors. Two of them are sampled; they have degrees 0 and 3.
        let graph = BatchGraph::new(vec![0, 2], vec![1, 2], 3).expect("a valid graph");
        let norm = GcnNorm::new(&graph, &[6, 0, 3]).expect("degrees that fit");
        let expected = [3.0 / 7f32.sqrt(), 3.0 / 28f32.sqrt()];
        for (weight, expected) in norm.weights().edges().iter().zip(expected) {
            assert!((weight - expected).abs() < 1e-6);
        }
        assert_eq!(norm.weights().self_loops(), Some(&[1.0 / 7.0f32][..]));
    }
}

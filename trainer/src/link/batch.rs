//! A batch of edges as tensors.

use super::popularity::Popularity;
use crate::batch_input::{BatchOptions, TensorBatch, seed_starts};
use crate::error::TrainError;
use crate::memory::feature_cache::FeatureCache;
use crate::models::GraphSchema;
use burn::tensor::backend::Backend;
use edgecut_dist_loader::{LinkBatch, Negatives, SharedCandidates, SharedNegatives};
use edgecut_gnn::ops::GnnBackend;
use std::sync::Arc;

/// The input of a training step: a batch of edges as tensors. Nodes are identified by their row in the encoder's
/// output, which holds the seeds of all node types, one type after the other.
pub struct LinkTensorBatch<B: Backend> {
    pub(super) graph: TensorBatch<B>,
    /// The type of each edge.
    pub(super) edge_types: Vec<u16>,
    /// The row of each edge's source.
    pub(super) src: Vec<u32>,
    /// The row of each edge's destination.
    pub(super) dst: Vec<u32>,
    pub(super) negatives: NegativeRows,
    /// The weight of each edge in the loss; `None` if all weigh 1.
    pub(super) weights: Option<Vec<f32>>,
    /// The number of edges without negatives, which are not in the batch.
    pub(super) num_left_out: usize,
}

/// The choice and the correction of negatives that the edges of a batch share.
#[derive(Clone, Debug, Default)]
pub(super) struct NegativeChoice {
    /// The pairs of a batch that serve as negatives.
    pub(super) pairs: SharedNegatives,
    /// The probabilities that correct scores; `None` if they are not corrected.
    pub(super) popularity: Option<Popularity>,
}

/// The negatives of a batch's edges.
pub(super) enum NegativeRows {
    /// Separate negatives: the rows of `num` destinations per edge, `[num_edges, num]` row-major.
    OfEach { num: usize, rows: Vec<u32> },
    /// Shared negatives, one entry for each group of edges with the same destination type.
    Shared(Vec<SharedRows>),
}

/// A group of edges with the same destination type, and the negatives that they share.
pub(super) struct SharedRows {
    /// The edges, as positions in the batch.
    pub(super) edges: Vec<u32>,
    /// The rows of the negative destinations.
    pub(super) rows: Vec<u32>,
    /// Pairs that are not negatives, each once: a position in `edges` and a position in `rows`.
    pub(super) masked: Vec<(u32, u32)>,
    /// The logarithm of each negative's probability to be in the batch; `None` if scores are not corrected.
    pub(super) log_probabilities: Option<Vec<f32>>,
}

impl SharedRows {
    /// Returns the number of unmasked negatives of each edge, or `None` if no pair is masked.
    pub(super) fn num_negatives(&self) -> Option<Vec<u32>> {
        if self.masked.is_empty() {
            return None;
        }
        let mut num_negatives = vec![self.rows.len() as u32; self.edges.len()];
        for &(edge, _) in &self.masked {
            num_negatives[edge as usize] -= 1;
        }
        Some(num_negatives)
    }
}

impl<B: GnnBackend> LinkTensorBatch<B> {
    /// Returns the weights of some edges; `None` if all weigh 1.
    pub(super) fn weights_of(&self, edges: &[u32]) -> Option<Vec<f32>> {
        let weights = self.weights.as_ref()?;
        Some(edges.iter().map(|&edge| weights[edge as usize]).collect())
    }

    pub(super) fn new(
        batch: LinkBatch,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        choice: &NegativeChoice,
        cache: Option<&FeatureCache<B>>,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        let mut shared = Vec::new();
        for group in batch.shared_candidates(choice.pairs) {
            let log_probabilities =
                choice.popularity.as_ref().map(|popularity| popularity.log_probabilities(&batch, &group));
            shared.push((group, log_probabilities));
        }
        let LinkBatch { graph, edge_types, mut src, mut dst, weights, negatives, num_left_out, .. } = batch;
        let starts = seed_starts(&graph);
        let ends = schema.edge_ends();
        for (i, edge_type) in edge_types.iter().enumerate() {
            let (src_type, dst_type) = ends[edge_type.index()];
            src[i] += starts[src_type];
            dst[i] += starts[dst_type];
        }
        let negatives = match negatives {
            Negatives::OfEach { num, mut dst } => {
                for (rows, edge_type) in dst.chunks_mut(num.max(1)).zip(&edge_types) {
                    let start = starts[ends[edge_type.index()].1];
                    rows.iter_mut().for_each(|row| *row += start);
                }
                NegativeRows::OfEach { num, rows: dst }
            }
            Negatives::Shared(_) => {
                let mut groups = Vec::new();
                for (group, log_probabilities) in shared {
                    let SharedCandidates { dst_type, edges, candidates, masked } = group;
                    let start = starts[dst_type.index()];
                    let rows = candidates.into_iter().map(|number| number + start).collect();
                    groups.push(SharedRows { edges, rows, masked, log_probabilities });
                }
                NegativeRows::Shared(groups)
            }
        };
        let graph = TensorBatch::with_cache(graph, schema, options, cache, device)?;
        let edge_types = edge_types.iter().map(|edge_type| edge_type.0).collect();
        let weights = if weights.is_empty() { None } else { Some(weights) };
        Ok(Self { graph, edge_types, src, dst, negatives, weights, num_left_out })
    }
}

//! A batch of edges as tensors.

use crate::batch_input::{BatchOptions, TensorBatch};
use crate::feature_cache::FeatureCache;
use crate::models::GraphSchema;
use crate::ops::GnnBackend;
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_dist_loader::{LinkBatch, Negatives, SharedCandidates};
use std::sync::Arc;

/// A batch of edges as a training step takes it. Nodes are positions among the rows of all types' seeds, one type after the
/// other.
pub(super) struct LinkTensorBatch<B: Backend> {
    pub(super) graph: TensorBatch<B>,
    /// By edge.
    pub(super) edge_types: Vec<u16>,
    pub(super) src: Vec<u32>,
    pub(super) dst: Vec<u32>,
    pub(super) negatives: NegativeRows,
}

/// The negatives of a batch's edges.
pub(super) enum NegativeRows {
    /// `num` for each edge, row-major.
    OfEach { num: usize, rows: Vec<u32> },
    /// For groups of edges with the same destination type, what all of them share.
    Shared(Vec<SharedRows>),
}

/// Edges with the same destination type, and their negatives.
pub(super) struct SharedRows {
    pub(super) edges: Vec<u32>,
    pub(super) rows: Vec<u32>,
    /// (edge, row), both by position: pairs that are no negatives, each once.
    pub(super) masked: Vec<(u32, u32)>,
}

impl SharedRows {
    /// The negatives of each edge that are not masked, if any is masked.
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
    pub(super) fn new(
        batch: LinkBatch,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        in_batch: bool,
        cache: Option<&FeatureCache<B>>,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        let shared = batch.shared_candidates(in_batch);
        let LinkBatch { graph, edge_types, mut src, mut dst, negatives, .. } = batch;
        let mut starts = Vec::with_capacity(graph.nodes.len());
        let mut end = 0;
        for nodes in &graph.nodes {
            starts.push(end);
            end += nodes.hop_offsets.first().copied().unwrap_or(0);
        }
        let start = |t: usize| starts.get(t).copied().unwrap_or(0);
        let ends = schema.edge_ends();
        for (i, edge_type) in edge_types.iter().enumerate() {
            let (src_type, dst_type) = ends[edge_type.index()];
            src[i] += start(src_type);
            dst[i] += start(dst_type);
        }
        let dst_type = |edge: usize| ends[edge_types[edge].index()].1;
        let negatives = match negatives {
            Negatives::OfEach { num, mut dst } => {
                dst.iter_mut().enumerate().for_each(|(at, row)| *row += start(dst_type(at / num.max(1))));
                NegativeRows::OfEach { num, rows: dst }
            }
            Negatives::Shared(_) => {
                let rows_of = |SharedCandidates { dst_type, edges, candidates, masked }| {
                    let start = start(dst_type.index());
                    let rows = candidates.into_iter().map(|number| number + start).collect();
                    SharedRows { edges, rows, masked }
                };
                NegativeRows::Shared(shared.into_iter().map(rows_of).collect())
            }
        };
        let graph = TensorBatch::with_cache(graph, schema, options, cache, device)?;
        let edge_types = edge_types.iter().map(|edge_type| edge_type.0).collect();
        Ok(Self { graph, edge_types, src, dst, negatives })
    }
}

//! A batch of edges as tensors.

use crate::batch_input::{BatchOptions, TensorBatch};
use crate::feature_cache::FeatureCache;
use crate::models::GraphSchema;
use crate::ops::GnnBackend;
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_dist_loader::{LinkBatch, Negatives};
use std::collections::HashMap;
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

/// What edges are told from.
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
    /// (edge, row), both by position: where a row is an edge's own destination, which is no negative of it.
    pub(super) own: Vec<(usize, usize)>,
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
        let LinkBatch { graph, edge_types, mut src, mut dst, negatives } = batch;
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
            Negatives::Shared(by_type) => {
                let mut groups = Vec::new();
                for (t, drawn) in by_type.into_iter().enumerate() {
                    let edges = (0..edge_types.len()).filter(|&edge| dst_type(edge) == t);
                    let edges: Vec<u32> = edges.map(|edge| edge as u32).collect();
                    let mut rows: Vec<u32> = drawn.into_iter().map(|row| row + start(t)).collect();
                    if in_batch {
                        // Every seed of this type is an end of an edge or was drawn.
                        let count = graph.nodes[t].hop_offsets.first().copied().unwrap_or(0);
                        rows = (start(t)..start(t) + count).collect();
                    }
                    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
                    rows.iter().enumerate().for_each(|(at, &row)| places.entry(row).or_default().push(at));
                    let own_of = |(position, &edge): (usize, &u32)| {
                        let found = places.get(&dst[edge as usize]).map_or(&[][..], Vec::as_slice);
                        found.iter().map(move |&at| (position, at)).collect::<Vec<_>>()
                    };
                    let own = edges.iter().enumerate().flat_map(own_of).collect();
                    if !edges.is_empty() && !rows.is_empty() {
                        groups.push(SharedRows { edges, rows, own });
                    }
                }
                NegativeRows::Shared(groups)
            }
        };
        let graph = TensorBatch::with_cache(graph, schema, options, cache, device)?;
        let edge_types = edge_types.iter().map(|edge_type| edge_type.0).collect();
        Ok(Self { graph, edge_types, src, dst, negatives })
    }
}

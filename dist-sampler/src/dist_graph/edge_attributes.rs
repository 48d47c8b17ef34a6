//! Attributes of sampled edges, fetched from their owners.

use crate::config::node_fields::EdgeFields;
use crate::dist_graph::DistGraph;
use crate::dist_graph::part_request::{PartRequest, PieceSizes};
use crate::error::SampleError;
use crate::part::requests::FetchEdgesRequest;
use crate::workers::ON_POOL;
use bytes::Bytes;
use edgecut_graph::{EdgeLabelKind, EdgeTypeId, FeatureDtype, GlobalNodeId};
use futures::future::BoxFuture;
use std::sync::Arc;

/// Attributes of edges, one row per edge in the order of the request. Attributes that were not requested are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledEdgeAttributes {
    /// A time per edge.
    pub times: Vec<i64>,
    /// A weight per edge.
    pub weights: Vec<f32>,
    /// `[num_edges, feature_dim]`, row-major.
    pub features: Vec<f32>,
    /// Features per edge, 0 if features were not requested.
    pub feature_dim: usize,
    /// A class per edge, -1 if unlabeled. Empty if labels are numbers.
    pub labels: Vec<i64>,
    /// `[num_edges, target_dim]`, row-major. NaN is an unknown value.
    pub targets: Vec<f32>,
    /// Targets per edge, 0 if labels were not requested or are classes.
    pub target_dim: usize,
    /// An id per edge, out of ids that are numbers.
    pub ids: Vec<i64>,
}

/// The layout of one edge in a reply.
#[derive(Clone, Copy)]
struct Shape {
    wanted: EdgeFields,
    dim: usize,
    dtype: FeatureDtype,
    /// True if labels are wanted, and are classes.
    has_classes: bool,
    target_dim: usize,
}

impl DistGraph {
    /// Fetches attributes of edges of one type. Edge `i` is the `positions[i]`-th in-edge, in the order of the original
    /// edge list, of the node with the global id `destinations[i]`.
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] if the edge type lacks a requested attribute, or an error of a peer.
    pub fn fetch_edges<'a>(
        self: &'a Arc<Self>,
        edge_type: EdgeTypeId,
        destinations: &'a [u32],
        positions: &'a [u32],
        wanted: EdgeFields,
    ) -> BoxFuture<'a, Result<SampledEdgeAttributes, SampleError>> {
        Box::pin(async move {
            let part = self.part();
            let meta = &part.meta().edge_types[edge_type.index()];
            let has = EdgeFields::all_of(meta);
            for (wanted, has, what) in [
                (wanted.features, has.features, "features"),
                (wanted.weights, has.weights, "weights"),
                (wanted.times, has.times, "times"),
                (wanted.labels, has.labels, "labels"),
                (wanted.ids, has.ids, "ids that are numbers"),
            ] {
                if wanted && !has {
                    let src = &meta.src_type;
                    let relation = &meta.relation;
                    let dst = &meta.dst_type;
                    let what = format!("edges of type {src}__{relation}__{dst} have no {what}");
                    return Err(SampleError::NoSuchNode { what });
                }
            }
            let dim = if wanted.features { meta.feature_dim } else { 0 };
            let labels = meta.labels.filter(|_| wanted.labels).map(|labels| labels.values);
            let target_dim = labels.and_then(EdgeLabelKind::targets).map_or(0, |targets| targets.dim);
            let has_classes = labels.is_some() && target_dim == 0;
            let bytes_per_edge = wanted.bytes_per_edge(meta);
            let shape = Shape { wanted, dim, dtype: meta.feature_dtype, has_classes, target_dim };
            let mut asked = self.by_owner(edge_type, destinations, positions);
            let sizes = PieceSizes {
                // Limits both the request (two words per edge) and the reply to about `fetch_chunk_bytes`.
                max_items: (self.config.fetch_chunk_bytes / bytes_per_edge.max(2 * size_of::<u32>())).max(1),
                words_per_item: 2,
                reply_bytes: bytes_per_edge,
            };
            let answers = self
                .ask_owners(
                    &mut asked,
                    sizes,
                    |edges| FetchEdgesRequest { edge_type, wanted, edges },
                    |_, _| ON_POOL,
                    |part, request| part.fetch_edges(request, usize::MAX),
                )
                .await?;
            let count = destinations.len();
            let mut found = SampledEdgeAttributes {
                times: vec![0; if wanted.times { count } else { 0 }],
                weights: vec![0.0; if wanted.weights { count } else { 0 }],
                features: vec![0.0; count * dim],
                feature_dim: dim,
                labels: vec![-1; if has_classes { count } else { 0 }],
                targets: vec![0.0; count * target_dim],
                target_dim,
                ids: vec![0; if wanted.ids { count } else { 0 }],
            };
            answers.iter().for_each(|(at, data)| place(&mut found, shape, at, data));
            Ok(found)
        })
    }

    /// Groups edges by the part that owns their destination, with the words of requests for edges.
    pub(super) fn by_owner(&self, edge_type: EdgeTypeId, destinations: &[u32], positions: &[u32]) -> Vec<PartRequest> {
        let part = self.part();
        let book = &part.meta().node_types[part.edges(edge_type).dst_type.index()].book;
        let mut asked = vec![PartRequest::default(); part.meta().num_parts as usize];
        for (i, (&dst, &position)) in destinations.iter().zip(positions).enumerate() {
            let owner = book.owner(GlobalNodeId(dst));
            asked[owner.index()].push(i, [dst - book.range(owner).start, position]);
        }
        asked
    }
}

/// Stores the edges of one reply, whose length was checked, at their positions.
fn place(found: &mut SampledEdgeAttributes, shape: Shape, at: &[u32], data: &Bytes) {
    let mut rest = &data[..];
    let mut take = |bytes: usize| {
        let (mine, others) = rest.split_at(bytes * at.len());
        rest = others;
        mine
    };
    if shape.wanted.times {
        let times: Vec<i64> = bytemuck::pod_collect_to_vec(take(8));
        at.iter().zip(times).for_each(|(&at, time)| found.times[at as usize] = time);
    }
    if shape.wanted.weights {
        let weights: Vec<f32> = bytemuck::pod_collect_to_vec(take(4));
        at.iter().zip(weights).for_each(|(&at, weight)| found.weights[at as usize] = weight);
    }
    if shape.dim > 0 {
        let row_bytes = shape.dtype.row_bytes(shape.dim);
        // Rows of 16-bit and 32-bit numbers must be aligned.
        let words: Vec<u32> = bytemuck::pod_collect_to_vec(take(row_bytes));
        for (&at, row) in at.iter().zip(bytemuck::cast_slice(&words).chunks_exact(row_bytes)) {
            shape.dtype.decode(row, &mut found.features[at as usize * shape.dim..][..shape.dim]);
        }
    }
    if shape.has_classes {
        let labels: Vec<i64> = bytemuck::pod_collect_to_vec(take(8));
        at.iter().zip(labels).for_each(|(&at, label)| found.labels[at as usize] = label);
    }
    if shape.target_dim > 0 {
        let dim = shape.target_dim;
        let targets: Vec<f32> = bytemuck::pod_collect_to_vec(take(4 * dim));
        let rows = at.iter().zip(targets.chunks_exact(dim));
        rows.for_each(|(&at, row)| found.targets[at as usize * dim..][..dim].copy_from_slice(row));
    }
    if shape.wanted.ids {
        let ids: Vec<i64> = bytemuck::pod_collect_to_vec(take(8));
        at.iter().zip(ids).for_each(|(&at, id)| found.ids[at as usize] = id);
    }
}

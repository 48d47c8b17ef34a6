//! Attention whose scores depend on edge features.

use burn::tensor::{Tensor, TensorData};

use crate::ops::{
    AttentionWeights, Block, DropoutMask, GnnBackend, Reduce, dot_heads, edge_scores, edge_softmax,
    gather_destinations, masked, scale_heads, scatter_edges, weigh_sources,
};

/// The number that sets the dropout mask of self edges apart from the mask of edges.
const OWN: u64 = u64::MAX;
/// A score below all others, of which `exp` of the difference to another one is 0.
const LOWEST: f32 = -1e30;

/// A row for each edge: the row of its source, and a row of its own if edges have features.
pub(super) struct EdgeRows<B: GnnBackend> {
    /// `[num_src, heads * channels]`.
    pub(super) of_sources: Tensor<B, 2>,
    /// `[num_edges, heads * channels]`.
    pub(super) of_edges: Option<Tensor<B, 2>>,
}

impl<B: GnnBackend> EdgeRows<B> {
    /// Returns the inner products of the rows and the queries of the edges' destinations.
    ///
    /// # Shapes
    /// - `queries`: `[num_dst, heads * channels]`
    /// - output: `[num_edges, heads]`
    pub(super) fn scores(self, queries: Tensor<B, 2>, heads: usize, block: &Block) -> Tensor<B, 2> {
        let scores = edge_scores(queries.clone(), self.of_sources, heads, block);
        match self.of_edges {
            Some(rows) => scores + dot_heads(rows, gather_destinations(queries, block), heads),
            None => scores,
        }
    }

    /// Returns the sum of the rows of each destination's edges, weighted by edge and head.
    ///
    /// # Shapes
    /// - `weights`: `[num_edges, heads]`
    /// - output: `[num_dst, heads * channels]`
    fn weighted_sum(self, weights: Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
        let sums = weigh_sources(weights.clone(), self.of_sources, block);
        match self.of_edges {
            Some(rows) => sums + scatter_edges(scale_heads(rows, weights), block, &Reduce::Sum),
            None => sums,
        }
    }
}

/// The scores and messages of a layer's edges.
pub(super) struct ScoredEdges<B: GnnBackend> {
    /// `[num_edges, heads]`.
    pub(super) scores: Tensor<B, 2>,
    pub(super) messages: EdgeRows<B>,
    /// The edges from destinations to themselves, if there are any.
    pub(super) own: Option<OwnEdges<B>>,
}

/// The scores and messages of edges from destinations to themselves.
pub(super) struct OwnEdges<B: GnnBackend> {
    /// `[num_dst, heads]`.
    pub(super) scores: Tensor<B, 2>,
    /// `[num_dst, heads * channels]`.
    pub(super) messages: Tensor<B, 2>,
}

impl<B: GnnBackend> ScoredEdges<B> {
    /// Returns the sum of each destination's messages, weighted by the softmax of their scores. `dropout` masks the
    /// weights.
    ///
    /// # Shapes
    /// - output: `[num_dst, heads * channels]`
    pub(super) fn attend(self, block: &Block, dropout: DropoutMask) -> Tensor<B, 2> {
        let Self { scores, messages, own } = self;
        let (own_scores, own_messages) = match own {
            Some(OwnEdges { scores, messages }) => (Some(scores), Some(messages)),
            None => (None, None),
        };
        let AttentionWeights { edges, own } = edge_softmax(scores, own_scores, block);
        let sums = messages.weighted_sum(masked(edges, dropout), block);
        match (own, own_messages) {
            (Some(weights), Some(messages)) => sums + scale_heads(messages, masked(weights, dropout.for_type(OWN))),
            _ => sums,
        }
    }
}

/// The scores and messages of the edges of one type.
pub(super) struct TypedEdges<'a, B: GnnBackend> {
    pub(super) block: &'a Block,
    /// `[num_edges, heads]`.
    pub(super) scores: Tensor<B, 2>,
    pub(super) messages: EdgeRows<B>,
    /// The mask of the weights.
    pub(super) dropout: DropoutMask,
}

/// Returns the sum of each destination's messages over all edge types, weighted by one softmax of their scores. Returns
/// `None` without edge types.
///
/// # Shapes
/// - output: `[num_dst, heads * channels]`
pub(super) fn attend_to_types<B: GnnBackend>(edges: Vec<TypedEdges<'_, B>>) -> Option<Tensor<B, 2>> {
    // The greatest score keeps `exp` from overflowing. The result does not depend on it, so it has no gradient.
    let mut greatest: Option<Tensor<B, 2>> = None;
    for TypedEdges { block, scores, .. } in &edges {
        let of_type = greatest_scores(scores, block);
        greatest = Some(match greatest {
            Some(greatest) => greatest.max_pair(of_type),
            None => of_type,
        });
    }
    let greatest = greatest?;
    let mut total: Option<Tensor<B, 2>> = None;
    let mut sums: Option<Tensor<B, 2>> = None;
    for TypedEdges { block, scores, messages, dropout } in edges {
        let weights = (scores - gather_destinations(greatest.clone(), block)).exp();
        let of_type = scatter_edges(weights.clone(), block, &Reduce::Sum);
        total = Some(add(total, of_type));
        sums = Some(add(sums, messages.weighted_sum(masked(weights, dropout), block)));
    }
    // The weight of the greatest score is 1, so that totals are at least 1. A destination without edges has a sum of 0.
    let inverse = total?.clamp_min(0.5).recip();
    Some(scale_heads(sums?, inverse))
}

/// Returns the greatest score of each destination's edges without a gradient; the lowest number for a destination
/// without edges, whose other edge types have the greatest score.
fn greatest_scores<B: GnnBackend>(scores: &Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
    let [_, heads] = scores.dims();
    let device = scores.device();
    let greatest = scatter_edges(scores.clone().detach(), block, &Reduce::Max);
    let mut lowest: Vec<f32> = Vec::with_capacity(block.num_dst());
    for ends in block.indptr().windows(2) {
        lowest.push(if ends[0] < ends[1] { 0.0 } else { LOWEST });
    }
    let lowest = Tensor::<B, 2>::from_data(TensorData::new(lowest, [block.num_dst(), 1]), &device);
    greatest + lowest.expand([block.num_dst(), heads])
}

fn add<B: GnnBackend>(sum: Option<Tensor<B, 2>>, rows: Tensor<B, 2>) -> Tensor<B, 2> {
    match sum {
        Some(sum) => sum + rows,
        None => rows,
    }
}

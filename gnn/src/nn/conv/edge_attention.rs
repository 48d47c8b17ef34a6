//! Attention whose scores depend on edge features.

use burn::tensor::Tensor;

use crate::ops::{
    AttentionWeights, Block, DropoutMask, GnnBackend, Reduce, edge_softmax, masked, scale_heads, scatter_edges,
};

/// The number that sets the dropout mask of self edges apart from the mask of edges.
const OWN: u64 = u64::MAX;

/// The scores and messages of a layer's edges.
pub(super) struct ScoredEdges<B: GnnBackend> {
    /// `[num_edges, heads]`.
    pub(super) scores: Tensor<B, 2>,
    /// `[num_edges, heads * channels]`.
    pub(super) messages: Tensor<B, 2>,
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
        let sums = scatter_edges(scale_heads(messages, masked(edges, dropout)), block, &Reduce::Sum);
        match (own, own_messages) {
            (Some(weights), Some(messages)) => sums + scale_heads(messages, masked(weights, dropout.for_type(OWN))),
            _ => sums,
        }
    }
}

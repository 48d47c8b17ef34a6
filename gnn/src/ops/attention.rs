//! Attention over the in-edges of each destination, as one operation.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorPrimitive};
use serde::{Deserialize, Serialize};

use super::block::Block;
use super::dropout::{DropoutKey, DropoutMask};
use super::gnn_backend::{GnnBackend, compute};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};

/// The formula of an edge's score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttentionVersion {
    /// `LeakyReLU(a_dst · z_i + a_src · z_j)` (Veličković et al., "Graph attention networks", ICLR 2018). All
    /// destinations rank their neighbors in the same order.
    V1,
    /// `a · LeakyReLU(z_i' + z_j)` (Brody, Alon and Yahav, "How attentive are graph attention networks?", ICLR 2022).
    /// The ranking of neighbors can differ between destinations.
    V2,
}

/// The block and the settings of an attention operation, without its tensors.
///
/// An edge `j -> i` has one score per head. A softmax over the in-edges of `i` turns the scores into weights, and the
/// output of `i` is the weighted sum of its sources' rows.
///
/// ```
/// # use std::sync::Arc;
/// use edgecut_gnn::ops::{Attention, AttentionVersion, BatchGraph, Block, DropoutKey, DropoutMask};
/// let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?), 1, 3)?;
/// let attention = Attention::new(block, AttentionVersion::V2, 4)
///     .with_self_edges(true)
///     .with_dropout(DropoutMask::new(0.6, DropoutKey::new(0, 0, 0)));
/// assert_eq!(attention.version(), AttentionVersion::V2);
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Attention {
    block: Block,
    heads: usize,
    version: AttentionVersion,
    negative_slope: f32,
    self_edges: bool,
    dropout: DropoutMask,
}

impl Attention {
    /// Makes an attention over the edges of `block` with a negative slope of 0.2, no self edges and no dropout.
    ///
    /// # Panics
    /// If `heads` is 0.
    pub fn new(block: Block, version: AttentionVersion, heads: usize) -> Self {
        assert!(heads > 0, "attention: the number of heads is 0, at least 1 is needed");
        let dropout = DropoutMask::new(0.0, DropoutKey::new(0, 0, 0));
        Self { block, heads, version, negative_slope: 0.2, self_edges: false, dropout }
    }

    /// Sets the factor of negative arguments of the LeakyReLU.
    pub fn with_negative_slope(mut self, negative_slope: f32) -> Self {
        self.negative_slope = negative_slope;
        self
    }

    /// Sets whether every destination gets an edge to itself in addition to the block's edges, as PyG's layers add it.
    /// Self loops among the block's edges are kept as ordinary edges.
    ///
    /// # Panics
    /// If self edges are requested and there are more destinations than sources, so that the destinations cannot be the
    /// first sources.
    pub fn with_self_edges(mut self, self_edges: bool) -> Self {
        if self_edges {
            self.block.assert_rows_are_nodes("attention with self edges");
        }
        self.self_edges = self_edges;
        self
    }

    /// Sets the dropout of the weights, which follows the softmax. The mask has one element per entry and head. The
    /// entries of a row are its edges, then its self edge.
    pub fn with_dropout(mut self, dropout: DropoutMask) -> Self {
        self.dropout = dropout;
        self
    }

    /// Returns the block: the rows and nodes that the operation works on.
    pub(super) fn block(&self) -> &Block {
        &self.block
    }

    /// Returns the number of attention heads. Each head has an equal share of the columns.
    pub(super) fn heads(&self) -> usize {
        self.heads
    }

    /// Returns the formula of the edges' scores.
    pub fn version(&self) -> AttentionVersion {
        self.version
    }

    /// Returns the factor of negative arguments of the LeakyReLU.
    pub(super) fn negative_slope(&self) -> f32 {
        self.negative_slope
    }

    /// Returns whether destinations attend to themselves.
    pub(super) fn has_self_edges(&self) -> bool {
        self.self_edges
    }

    /// Returns the dropout mask of the weights.
    pub(super) fn dropout(&self) -> DropoutMask {
        self.dropout
    }
}

/// The input tensors of an attention, or their gradients.
///
/// # Shapes
/// - [`AttentionVersion::V1`]: `[z_src, score_src, score_dst]` of `[num_src, heads * channels]`, `[num_src, heads]` and
///   `[num_dst, heads]`
/// - [`AttentionVersion::V2`]: `[z_src, z_dst, vector]` of `[num_src, heads * channels]`, `[num_dst, heads * channels]`
///   and `[heads * channels]`
pub(super) type AttentionTensors<B> = [FloatTensor<B>; 3];

/// The tensors that the forward pass of an attention keeps for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedAttention<B: Backend> {
    /// The inputs of the forward pass.
    pub inputs: AttentionTensors<B>,
    /// The weights before dropout, `[entries, heads]`. The entries of a row are its edges, then its self edge. Only the
    /// backward pass reads the weights.
    pub weights: FloatTensor<B>,
}

impl<K: GnnKernels> Operation<K, 3> for Attention {
    type Saved = SavedAttention<K>;
    type Extra = ();

    fn forward(&self, inputs: AttentionTensors<K>, _: bool) -> Forward<K, Self::Saved> {
        let (output, weights) = K::attention_forward(&inputs, self);
        Forward { output, extra: (), saved: SavedAttention { inputs, weights } }
    }

    fn backward(self, saved: Self::Saved, grad: FloatTensor<K>, _: [bool; 3]) -> [Option<FloatTensor<K>>; 3] {
        K::attention_backward(saved, grad, &self).map(Some)
    }
}

/// Computes the weighted sum of each destination's sources with the weights of [`AttentionVersion::V1`]. A destination
/// without edges gets zeros.
///
/// # Shapes
/// - `z_src`: `[num_src, heads * channels]`
/// - `score_src`: `[num_src, heads]`, `a_src · z_j`
/// - `score_dst`: `[num_dst, heads]`, `a_dst · z_i`
/// - output: `[num_dst, heads * channels]`
///
/// # Panics
/// If the shapes do not match the block or each other, or if the attention has another version.
pub fn gat_attention<B: GnnBackend>(
    z_src: Tensor<B, 2>,
    score_src: Tensor<B, 2>,
    score_dst: Tensor<B, 2>,
    attention: &Attention,
) -> Tensor<B, 2> {
    let block = &attention.block;
    let heads = attention.heads;
    assert_eq!(attention.version, AttentionVersion::V1, "gat_attention: version");
    assert_eq!(score_src.dims(), [block.num_src(), heads], "gat_attention: shape of score_src");
    assert_eq!(score_dst.dims(), [block.num_dst(), heads], "gat_attention: shape of score_dst");
    run(z_src, score_src.into_primitive(), score_dst.into_primitive(), attention)
}

/// Computes the weighted sum of each destination's sources with the weights of [`AttentionVersion::V2`]. A destination
/// without edges gets zeros.
///
/// # Shapes
/// - `z_src`: `[num_src, heads * channels]`, the rows that are scored and summed
/// - `z_dst`: `[num_dst, heads * channels]`
/// - `vector`: `[heads * channels]`
/// - output: `[num_dst, heads * channels]`
///
/// # Panics
/// In the cases of [`gat_attention`].
pub fn gatv2_attention<B: GnnBackend>(
    z_src: Tensor<B, 2>,
    z_dst: Tensor<B, 2>,
    vector: Tensor<B, 1>,
    attention: &Attention,
) -> Tensor<B, 2> {
    let [_, width] = z_src.dims();
    assert_eq!(attention.version, AttentionVersion::V2, "gatv2_attention: version");
    assert_eq!(z_dst.dims(), [attention.block.num_dst(), width], "gatv2_attention: shape of z_dst");
    assert_eq!(vector.dims(), [width], "gatv2_attention: length of the vector");
    run(z_src, z_dst.into_primitive(), vector.into_primitive(), attention)
}

fn run<B: GnnBackend>(
    z_src: Tensor<B, 2>,
    second: TensorPrimitive<B>,
    third: TensorPrimitive<B>,
    attention: &Attention,
) -> Tensor<B, 2> {
    let [rows, width] = z_src.dims();
    assert_eq!(rows, attention.block.num_src(), "attention: rows of z_src against sources of the block");
    assert!(width.is_multiple_of(attention.heads), "attention: {width} columns for {} heads", attention.heads);
    compute(attention.clone(), [z_src.into_primitive(), second, third]).0
}

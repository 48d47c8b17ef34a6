//! Fused operations over the edges of a batch, with their own backward passes.
//!
//! A layer's neighbor aggregation is one sparse-dense product over a [`Block`], not a gather of one row per edge followed
//! by a scatter: nothing of size `[num_edges, features]` ever exists. [`GnnBackend`] is the seam between models and
//! backends: a backend that implements [`GnnKernels`] gets gradients through `Autodiff` without further code.

mod aggregate;
mod attention;
mod attention_kernels;
mod attention_scores;
mod autodiff;
mod batch_graph;
mod batch_norm;
mod batch_norm_kernels;
mod block;
mod cross_entropy;
#[cfg(feature = "cuda")]
mod cube;
mod dense;
mod dropout;
mod edge_weights;
mod kernels;
mod linear;
mod ndarray;
mod pooling;
mod precision;
mod real;
mod row_tasks;
mod transposed;

/// To be called by the thread that computes when it has waited for the device, so that memory of batches that have been read is
/// given back.
#[cfg(feature = "cuda")]
pub(crate) use edgecut_gpu::kernels::consumed;

/// The CPU gives back memory by itself.
#[cfg(not(feature = "cuda"))]
pub(crate) fn consumed() {}

pub use aggregate::{
    Aggregate, GnnBackend, GnnKernels, HopsOnDevice, LinearGradients, Reduce, SavedLinear, aggregate,
    aggregate_with_self,
};
pub use attention::{Attention, AttentionTensors, AttentionVersion, SavedAttention, gat_attention, gatv2_attention};
pub use batch_graph::{BatchGraph, BlockError};
pub use batch_norm::{BatchNormalization, SavedBatchNorm, batch_norm};
pub use block::Block;
pub use cross_entropy::{SavedCrossEntropy, cross_entropy_sum};
pub use dropout::{DropoutKey, DropoutMask, dropout, masked};
pub use edge_weights::EdgeWeights;
pub(crate) use linear::matmul;
pub use linear::{Activation, linear};
pub use pooling::{Segments, pool};
pub(crate) use precision::products;
pub use precision::{Precision, multiply_in};

//! Fused operations over the edges of a batch, with their own backward passes.
//!
//! The neighbor aggregation of a layer is one sparse-dense product over a [`Block`]. It does not gather one row per
//! edge and scatter the result, so no tensor of shape `[num_edges, features]` is allocated. An attention keeps only its
//! weights, `[num_edges, heads]`. The product, bias, activation and dropout of a dense layer are one pass over rows
//! that are in cache.
//!
//! [`GnnBackend`] is the interface between models and backends. A backend implements it by its [`GnnKernels`], and gets
//! gradients through `Autodiff` without further code: each operation states its backward pass once, in its
//! implementation of the trait `Operation`.
//!
//! Invariant: work is divided by shape, never by the number of threads, so results have the same bits on any number of
//! threads. Plain loops are compiled for several instruction sets, and `pulp` chooses one at run time. Rust neither
//! fuses nor reorders their arithmetic, so all kinds of CPUs give the same bits. Products alone may differ between kinds of
//! CPUs, in the last bit: `gemm` computes those in `f32`, and `bf16_kernel.rs` those in `bf16` if the CPU has instructions
//! for them.

mod aggregate;
mod aggregate_kernels;
mod attention;
mod attention_kernels;
mod attention_scores;
mod autodiff;
mod batch_graph;
mod batch_norm;
mod batch_norm_kernels;
mod batch_norm_sync;
#[cfg(target_arch = "x86_64")]
mod bf16_kernel;
mod block;
mod cross_entropy;
#[cfg(feature = "cuda")]
mod cube;
mod dense;
mod dropout;
mod edge_rows;
mod edge_weights;
mod gnn_backend;
mod gnn_kernels;
mod head_kernels;
mod head_products;
mod host_values;
mod linear;
mod ndarray;
mod operation;
mod pooling;
mod precision;
mod products;
mod real;
mod row_statistics;
mod row_tasks;
mod select_rows;
mod synced_batch_norm;
mod tensor_batch_norm;
mod transposed;

/// Releases the device memory of batches that have been read. The computing thread calls it after each wait for the
/// device.
#[cfg(feature = "cuda")]
pub use edgecut_gpu::kernels::consumed;

/// Does nothing: without a device, tensors free their memory when they are dropped.
#[cfg(not(feature = "cuda"))]
pub fn consumed() {}

pub use aggregate::{Reduce, aggregate, aggregate_with_self};
pub use attention::{Attention, AttentionVersion, gat_attention, gatv2_attention};
pub use batch_graph::{BatchGraph, BlockError};
pub use batch_norm::{BatchNormalization, batch_norm};
pub use batch_norm_sync::{BatchNormSync, RowSums, RowSumsError};
pub use block::Block;
pub use cross_entropy::cross_entropy_sum;
pub use dropout::{DropoutKey, DropoutMask, dropout, masked};
pub use edge_rows::{
    AttentionWeights, EdgeBlocks, dot_heads, edge_softmax, gather_destinations, gather_sources, scale_heads,
    scatter_edges,
};
pub use edge_weights::EdgeWeights;
pub use gnn_backend::{AutodiffGnnBackend, GnnBackend, constant};
pub use gnn_kernels::GnnKernels;
pub use head_products::{edge_scores, weigh_sources};
pub use host_values::host_values;
pub use linear::matmul;
pub use linear::{Activation, Linear, linear};
pub use pooling::{Segments, pool};
pub use precision::Precision;
pub use products::cpu_multiplies_bf16;
pub use row_statistics::RowStatistics;
pub use select_rows::select_rows;
pub use synced_batch_norm::synced_batch_norm;

//! The kernels that a backend supplies.

use std::error::Error;
use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::ops::{ActivationOps, FloatTensor, IntTensor};
use burn::tensor::{Tensor, TensorData, TensorMetadata};
use edgecut_graph::{HopKernel, Part};

use super::aggregate::{Aggregate, Reduce};
use super::attention::{Attention, AttentionTensors, SavedAttention};
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::block::Block;
use super::cross_entropy::SavedCrossEntropy;
use super::dropout::DropoutMask;
use super::edge_rows::{dot_heads, gather_destinations, gather_sources, scale_heads, scatter_edges};
use super::edge_weights::EdgeWeights;
use super::gnn_backend::constant;
use super::linear::{Linear, LinearGradients, SavedLinear};
use super::precision::Precision;
use super::row_statistics::RowStatistics;
use super::synced_batch_norm::NormalizedRows;
use super::tensor_batch_norm;

/// A kernel that samples hops on a device with the bytes of device memory that it takes, `None` if the backend samples
/// on the CPU, or the error of the device.
pub(super) type HopsOnDevice = Result<Option<(Arc<dyn HopKernel>, u64)>, Box<dyn Error + Send + Sync>>;

/// The kernels that a plain backend supplies: the forward and backward passes of operations, and the preparation of
/// their inputs. The preparation has defaults for backends on the CPU.
///
/// An implementation makes the backend, and `Autodiff` of it, a [`GnnBackend`](super::GnnBackend). This crate implements
/// the trait for burn's CPU backend and its CubeCL backends; some types in its methods are private to the crate.
pub trait GnnKernels: Backend {
    /// True if devices of this backend have their own memory, to which batches are copied.
    const HAS_OWN_MEMORY: bool = false;

    /// True if scores of edges and weighted sums of sources make no row per edge, see [`GnnKernels::edge_scores`].
    const FUSES_HEADS: bool = false;

    /// Returns whether `device` can compute with numbers of type `precision`. The CPU computes in `f32` instead of `f16`.
    fn supports(_precision: Precision, _device: &Self::Device) -> bool {
        true
    }

    /// Makes a tensor of features on `device`, `[rows, columns]`, from row-major values. On a device with its own
    /// memory the tensor has type `precision`, and the copy runs concurrently with the device's computation.
    fn place(values: Vec<f32>, shape: [usize; 2], _precision: Precision, device: &Self::Device) -> FloatTensor<Self> {
        Tensor::<Self, 2>::from_data(TensorData::new(values, shape), device).into_primitive().tensor()
    }

    /// Assembles the features of a batch's nodes from tensors that [`GnnKernels::place`] has made.
    ///
    /// `cached` is `(cache, slots)`. Node `i` gets row `slots[i]` of `cache`. If the slot is
    /// `NodeBatch::NOT_CACHED` of the loader, the node gets the next row of `rows`.
    /// Without a cache the result is `rows`. The result has the type that models compute in.
    ///
    /// # Panics
    /// If the slots do not match the cache and the rows.
    fn assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self> {
        let Some((cache, slots)) = cached else { return rows };
        // Selects from the cache followed by the fetched rows: fetched row `n` has position `kept + n`.
        let kept = cache.shape()[0] as i64;
        let mut next = 0;
        let source = |&slot: &u32| match slot {
            u32::MAX => {
                next += 1;
                kept + next - 1
            }
            slot => i64::from(slot),
        };
        let sources: Vec<i64> = slots.iter().map(source).collect();
        let device = Self::float_device(&rows);
        let sources = Self::int_from_data(TensorData::new(sources, [slots.len()]), &device);
        Self::float_select(Self::float_cat(vec![cache, rows], 0), 0, sources)
    }

    /// Copies edges of `part` to `device` and returns a kernel that samples hops there, with the bytes that it takes.
    ///
    /// The kernel covers the edge types that fit into `budget_bytes`. Returns `None` if the backend samples on the CPU.
    ///
    /// # Errors
    /// The error of the device.
    fn hop_kernel(_part: &Part, _budget_bytes: u64, _device: &Self::Device) -> HopsOnDevice {
        Ok(None)
    }

    /// Prepares a block's edges for the forward kernels, and for the backward kernels if `for_backward` is true.
    ///
    /// Call it on a loader thread. Otherwise the first pass prepares the edges.
    fn prepare_block(block: &Block, for_backward: bool, _device: &Self::Device) {
        if for_backward {
            block.prepare_backward();
        }
    }

    /// Prepares edge weights for the kernels, see [`GnnKernels::prepare_block`].
    fn prepare_weights(_weights: &EdgeWeights, _device: &Self::Device) {}

    /// Aggregates `[num_src, features]` into `[num_dst, output_width]`.
    fn aggregate_forward(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self>;

    /// Aggregates by [`Reduce::Max`] and also returns the winning edge of each element, `[num_dst, features]`.
    ///
    /// The winning edge is `u32::MAX` for rows without edges. Only [`GnnKernels::aggregate_backward`] reads the edges.
    fn aggregate_forward_argmax(x: FloatTensor<Self>, aggregate: &Aggregate) -> (FloatTensor<Self>, IntTensor<Self>);

    /// Computes the gradient of the input, `[num_src, features]`, from the gradient of the output,
    /// `[num_dst, output_width]`. `argmax` is given for [`Reduce::Max`] only.
    fn aggregate_backward(
        grad: FloatTensor<Self>,
        argmax: Option<IntTensor<Self>>,
        aggregate: &Aggregate,
    ) -> FloatTensor<Self>;

    /// Multiplies by the mask. The backward pass is the same operation.
    fn dropout_multiply(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// Applies ReLU, then dropout. NaN stays NaN.
    fn relu_forward(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        Self::dropout_multiply(Self::relu(x), mask)
    }

    /// Computes the gradient of the input from the output and its gradient.
    fn relu_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        <Self as ActivationOps<Self>>::relu_backward(output, Self::dropout_multiply(grad, mask))
    }

    /// Computes `activation(x · weight + bias)` for `[rows, in]`, `[in, out]` and `[out]`.
    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        linear: Linear,
    ) -> FloatTensor<Self>;

    /// Computes the gradients of the inputs from the gradient of the output, `[rows, out]`; the gradient of `x` only if
    /// `wants_x`.
    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        linear: Linear,
        wants_x: bool,
    ) -> LinearGradients<Self>;

    /// Computes the output, `[rows, channels]`, and the means and variances of the batch, `[2, channels]`.
    fn batch_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Computes the gradients of `x`, gamma and beta from the gradient of the output.
    fn batch_norm_backward(
        saved: SavedBatchNorm<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> [FloatTensor<Self>; 3];

    /// Returns the statistics of rows, `[rows, channels]`. Waits for the device.
    fn row_statistics(x: FloatTensor<Self>) -> RowStatistics {
        tensor_batch_norm::row_statistics::<Self>(x)
    }

    /// Computes the output of a batch normalization by statistics of more rows than `x`, `[rows, channels]`.
    fn normalize_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        statistics: &RowStatistics,
        normalization: BatchNormalization,
    ) -> FloatTensor<Self> {
        tensor_batch_norm::normalize_rows::<Self>(x, gamma, beta, statistics, normalization)
    }

    /// Returns the gradients of beta and gamma from the gradient of the output of [`GnnKernels::normalize_rows`],
    /// `[2 * channels]`. Waits for the device.
    fn gradient_sums(
        rows: &NormalizedRows<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> Vec<f64> {
        tensor_batch_norm::gradient_sums(rows, grad, normalization)
    }

    /// Computes the gradient of `x` from the gradient of the output of [`GnnKernels::normalize_rows`] and the means of
    /// [`GnnKernels::gradient_sums`] over all rows of the statistics.
    fn gradient_of_rows(
        rows: NormalizedRows<Self>,
        grad: FloatTensor<Self>,
        means: &[f64],
        normalization: BatchNormalization,
    ) -> FloatTensor<Self> {
        tensor_batch_norm::gradient_of_rows(rows, grad, means, normalization)
    }

    /// Computes the output, `[num_dst, heads * channels]`, and the weights before dropout,
    /// `[entries, heads]`.
    fn attention_forward(
        inputs: &AttentionTensors<Self>,
        attention: &Attention,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Computes the gradients of all inputs from the gradient of the output, `[num_dst, heads * channels]`.
    fn attention_backward(
        saved: SavedAttention<Self>,
        grad: FloatTensor<Self>,
        attention: &Attention,
    ) -> AttentionTensors<Self>;

    /// Computes the inner products of both ends of each edge by head, `[num_edges, heads]`, from rows of the destinations
    /// and of the sources, `[num_dst, heads * channels]` and `[num_src, heads * channels]`.
    fn edge_scores(
        of_dst: FloatTensor<Self>,
        of_src: FloatTensor<Self>,
        heads: usize,
        block: &Block,
    ) -> FloatTensor<Self> {
        let of_dst = gather_destinations::<Self>(constant(of_dst), block);
        let of_src = gather_sources::<Self>(constant(of_src), block);
        dot_heads(of_dst, of_src, heads).into_primitive().tensor()
    }

    /// Computes the sum of each destination's sources, `[num_dst, heads * channels]`, weighted by edge and head,
    /// `[num_edges, heads]`.
    fn weigh_sources(weights: FloatTensor<Self>, of_src: FloatTensor<Self>, block: &Block) -> FloatTensor<Self> {
        let rows = scale_heads(gather_sources::<Self>(constant(of_src), block), constant(weights));
        scatter_edges(rows, block, &Reduce::Sum).into_primitive().tensor()
    }

    /// Computes the sum of each source's destinations, `[num_src, heads * channels]`, as [`GnnKernels::weigh_sources`]
    /// sums sources.
    fn weigh_destinations(weights: FloatTensor<Self>, of_dst: FloatTensor<Self>, block: &Block) -> FloatTensor<Self> {
        let rows = scale_heads(gather_destinations::<Self>(constant(of_dst), block), constant(weights));
        Self::aggregate_backward(rows.into_primitive().tensor(), None, &Aggregate::sum_to_edges(block))
    }

    /// Computes the sum of the rows' cross entropies with the number of correct rows, `[2]`, and the tensors that the
    /// backward pass needs. Callers ensure that `classes`, `[rows]`, are in range.
    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>);

    /// Computes the gradient of the logits, `[rows, classes]`, from the gradient of the sum, `[1]`.
    fn cross_entropy_backward(saved: SavedCrossEntropy<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self>;
}

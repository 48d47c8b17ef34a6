//! What an aggregation is, and the traits through which backends compute it.

use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::ops::{ActivationOps, FloatTensor, IntTensor};
use burn::tensor::{Tensor, TensorData, TensorMetadata, TensorPrimitive};
use edgecut_graph::{HopKernel, Part};
use std::error::Error;

use super::attention::{Attention, AttentionTensors, SavedAttention};
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::block::Block;
use super::cross_entropy::SavedCrossEntropy;
use super::dropout::DropoutMask;
use super::edge_weights::EdgeWeights;
use super::linear::Activation;
use super::precision::Precision;

/// How the neighbors of a node become one row. Without neighbors the row is zero.
#[derive(Debug, Clone)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their sum over their number; parallel edges count each.
    Mean,
    /// The greatest value of each feature; NaN if a neighbor's is. On ties the first in edge order gets the gradient.
    Max,
    /// Their sum weighted by constants, plus the node's own weighted row if the weights have self loops.
    WeightedSum(Arc<EdgeWeights>),
}

/// One aggregation: everything but the features.
#[derive(Debug, Clone)]
pub struct Aggregate {
    block: Block,
    reduce: Reduce,
    append_self: bool,
}

impl Aggregate {
    /// The aggregation of `block` by `reduce`.
    ///
    /// # Panics
    /// If the weights of [`Reduce::WeightedSum`] were made for a graph of another size, or have self loops where there are
    /// more destinations than sources.
    pub fn new(block: Block, reduce: Reduce) -> Self {
        if let Reduce::WeightedSum(weights) = &reduce {
            assert!(weights.fits(block.graph()), "edge weights made for another batch");
            if weights.self_loops().is_some() {
                block.assert_rows_are_nodes("aggregate with self loops");
            }
        }
        Self { block, reduce, append_self: false }
    }

    /// Appends each destination's own row to its aggregated one: the output gets twice the columns.
    ///
    /// # Panics
    /// If there are more destinations than sources, so that these cannot be the first of those.
    pub fn appending_self(mut self) -> Self {
        self.block.assert_rows_are_nodes("aggregate_with_self");
        self.append_self = true;
        self
    }

    /// The rows and nodes that it works on.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// How rows are combined.
    pub fn reduce(&self) -> &Reduce {
        &self.reduce
    }

    /// Columns of the output for `width` columns of the input.
    pub fn output_width(&self, width: usize) -> usize {
        if self.append_self { 2 * width } else { width }
    }

    /// Whether the output carries the destinations' own rows.
    pub fn appends_self(&self) -> bool {
        self.append_self
    }
}

/// What draws hops on a device and the bytes that it takes there, if the device is a place for it; or what the device says.
pub type HopsOnDevice = Result<Option<(Arc<dyn HopKernel>, u64)>, Box<dyn Error + Send + Sync>>;

/// A backend that models of this crate run on.
///
/// A plain backend implements it by its own [`GnnKernels`]; `Autodiff<B>` has it for every `B: GnnKernels`.
pub trait GnnBackend: Backend {
    /// Whether its devices have memory of their own, to which batches are copied.
    const HAS_OWN_MEMORY: bool;

    /// Whether `device` computes with numbers of a type.
    fn gnn_supports(precision: Precision, device: &Self::Device) -> bool;

    /// Features on `device`, `[rows, columns]`, row-major. On a device with memory of its own they are of the given type, and
    /// the copy goes on beside what that computes.
    fn gnn_place(values: Vec<f32>, shape: [usize; 2], precision: Precision, device: &Self::Device)
    -> FloatTensor<Self>;

    /// The features of a batch's nodes, from what [`GnnBackend::gnn_place`] has placed: of node `i` row `slots[i]` of `cache`,
    /// or where that is [`NodeBatch::NOT_CACHED`](edgecut_dist_loader::NodeBatch::NOT_CACHED) the next of `rows`; without a
    /// cache all of `rows`. In the type that models compute in, without gradients.
    ///
    /// # Panics
    /// If slots do not fit the cache and the rows.
    fn gnn_assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self>;

    /// What draws hops of `part` on `device`, of the edge types that fit into `budget_bytes`, and the bytes that it takes; nothing
    /// where the device is no better place than the CPU.
    ///
    /// # Errors
    /// What the device says.
    fn gnn_hop_kernel(part: &Part, budget_bytes: u64, device: &Self::Device) -> HopsOnDevice;

    /// Gets a block's edges ready for the kernels, and for those of a backward pass if there will be one.
    ///
    /// Worth calling on a loader's thread; without it the first pass does it.
    fn gnn_prepare_block(block: &Block, for_backward: bool, device: &Self::Device);

    /// Gets the weights of edges ready for the kernels, as [`GnnBackend::gnn_prepare_block`].
    fn gnn_prepare_weights(weights: &EdgeWeights, device: &Self::Device);

    /// Aggregates `x`, `[num_src, features]`, into `[num_dst, output_width]`, differentiably where the backend is.
    fn gnn_aggregate(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self>;

    /// Zeroes and rescales the elements of `x`, differentiably where the backend is.
    fn gnn_dropout(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// The positive part of `x`, then dropout; a NaN stays one. Differentiably where the backend is.
    fn gnn_relu(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// `activation(x · weight + bias)`, differentiably where the backend is.
    fn gnn_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// See [`batch_norm`](super::batch_norm); the output differentiably where the backend is.
    fn gnn_batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Attention over the in-edges of each destination, `[num_dst, heads * channels]`, differentiably where the backend is.
    fn gnn_attention(inputs: AttentionTensors<Self>, attention: &Attention) -> FloatTensor<Self>;

    /// See [`cross_entropy_sum`](super::cross_entropy_sum): the sum, `[1]`, differentiably where the backend is; and it again
    /// with the number of correct rows, `[2]`.
    fn gnn_cross_entropy(logits: FloatTensor<Self>, classes: IntTensor<Self>)
    -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// What the forward pass of a dense layer leaves for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedLinear<B: Backend> {
    /// `[rows, in]`.
    pub x: FloatTensor<B>,
    /// `[in, out]`.
    pub weight: FloatTensor<B>,
    /// After the activation, `[rows, out]`.
    pub output: FloatTensor<B>,
}

/// The gradients of a dense layer's inputs.
#[derive(Debug)]
pub struct LinearGradients<B: Backend> {
    /// `[rows, in]`, if it was wanted.
    pub x: Option<FloatTensor<B>>,
    /// `[in, out]`.
    pub weight: FloatTensor<B>,
    /// `[out]`.
    pub bias: FloatTensor<B>,
}

/// The forward and backward kernels that a plain backend supplies.
pub trait GnnKernels: Backend {
    /// See [`GnnBackend::HAS_OWN_MEMORY`].
    const OWN_MEMORY: bool = false;

    /// See [`GnnBackend::gnn_supports`]; on the CPU precisions have no effect.
    fn supports(_precision: Precision, _device: &Self::Device) -> bool {
        true
    }

    /// See [`GnnBackend::gnn_place`].
    fn place(values: Vec<f32>, shape: [usize; 2], _precision: Precision, device: &Self::Device) -> FloatTensor<Self> {
        Tensor::<Self, 2>::from_data(TensorData::new(values, shape), device).into_primitive().tensor()
    }

    /// See [`GnnBackend::gnn_assemble`].
    fn assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self> {
        let Some((cache, slots)) = cached else { return rows };
        let (kept, mut next) = (cache.shape()[0] as i64, 0);
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

    /// See [`GnnBackend::gnn_hop_kernel`].
    ///
    /// # Errors
    /// What the device says.
    fn hop_kernel(_part: &Part, _budget_bytes: u64, _device: &Self::Device) -> HopsOnDevice {
        Ok(None)
    }

    /// See [`GnnBackend::gnn_prepare_block`].
    fn prepare_block(block: &Block, for_backward: bool, _device: &Self::Device) {
        if for_backward {
            block.prepare_backward();
        }
    }

    /// See [`GnnBackend::gnn_prepare_weights`].
    fn prepare_weights(_weights: &EdgeWeights, _device: &Self::Device) {}

    /// `[num_src, features]` to `[num_dst, output_width]`.
    fn aggregate_forward(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self>;

    /// As [`GnnKernels::aggregate_forward`] for [`Reduce::Max`]; also the winning edge of each element,
    /// `[num_dst, features]`, `u32::MAX` where a row has no edges. Only the backward pass below reads it.
    fn aggregate_forward_argmax(x: FloatTensor<Self>, aggregate: &Aggregate) -> (FloatTensor<Self>, IntTensor<Self>);

    /// The gradient of the input, `[num_src, features]`, for that of the output, `[num_dst, output_width]`. `argmax` is
    /// there for [`Reduce::Max`] and for nothing else.
    fn aggregate_backward(
        grad: FloatTensor<Self>,
        argmax: Option<IntTensor<Self>>,
        aggregate: &Aggregate,
    ) -> FloatTensor<Self>;

    /// Multiplies by the mask. It is its own backward pass.
    fn dropout_multiply(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// See [`GnnBackend::gnn_relu`].
    fn relu_forward(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        Self::dropout_multiply(Self::relu(x), mask)
    }

    /// The gradient of the input for that of the output.
    fn relu_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        <Self as ActivationOps<Self>>::relu_backward(output, Self::dropout_multiply(grad, mask))
    }

    /// `activation(x · weight + bias)` for `[rows, in]`, `[in, out]` and `[out]`.
    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// The gradients for that of the output, `[rows, out]`.
    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
        wants_x: bool,
    ) -> LinearGradients<Self>;

    /// The output, `[rows, channels]`, and the statistics of [`SavedBatchNorm`].
    fn batch_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of `x`, gamma and beta for that of the output.
    fn batch_norm_backward(
        saved: SavedBatchNorm<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> [FloatTensor<Self>; 3];

    /// The output, `[num_dst, heads * channels]`, and the weights of [`SavedAttention`].
    fn attention_forward(
        inputs: &AttentionTensors<Self>,
        attention: &Attention,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of all inputs for that of the output, `[num_dst, heads * channels]`.
    fn attention_backward(
        saved: SavedAttention<Self>,
        grad: FloatTensor<Self>,
        attention: &Attention,
    ) -> AttentionTensors<Self>;

    /// The sum of the rows' cross entropies and the number of correct rows, `[2]`, and what the backward pass wants. Classes,
    /// `[rows]`, are in range.
    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>);

    /// The gradient of the logits, `[rows, classes]`, for that of the sum, `[1]`.
    fn cross_entropy_backward(saved: SavedCrossEntropy<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Implements [`GnnBackend`] for a backend without gradients by its own [`GnnKernels`].
macro_rules! by_own_kernels {
    () => {
        const HAS_OWN_MEMORY: bool = <Self as GnnKernels>::OWN_MEMORY;

        fn gnn_supports(precision: Precision, device: &Self::Device) -> bool {
            Self::supports(precision, device)
        }

        fn gnn_place(
            values: Vec<f32>,
            shape: [usize; 2],
            precision: Precision,
            device: &Self::Device,
        ) -> FloatTensor<Self> {
            Self::place(values, shape, precision, device)
        }

        fn gnn_assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self> {
            Self::assemble(rows, cached)
        }

        fn gnn_hop_kernel(part: &Part, budget_bytes: u64, device: &Self::Device) -> HopsOnDevice {
            Self::hop_kernel(part, budget_bytes, device)
        }

        fn gnn_prepare_block(block: &Block, for_backward: bool, device: &Self::Device) {
            Self::prepare_block(block, for_backward, device);
        }

        fn gnn_prepare_weights(weights: &EdgeWeights, device: &Self::Device) {
            Self::prepare_weights(weights, device);
        }

        fn gnn_aggregate(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
            Self::aggregate_forward(x, aggregate)
        }

        fn gnn_dropout(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
            Self::dropout_multiply(x, mask)
        }

        fn gnn_relu(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
            Self::relu_forward(x, mask)
        }

        fn gnn_linear(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            activation: Activation,
        ) -> FloatTensor<Self> {
            Self::linear_forward(x, weight, bias, activation)
        }

        fn gnn_batch_norm(
            x: FloatTensor<Self>,
            gamma: FloatTensor<Self>,
            beta: FloatTensor<Self>,
            normalization: BatchNormalization,
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
            Self::batch_norm_forward(x, gamma, beta, normalization)
        }

        fn gnn_attention(inputs: AttentionTensors<Self>, attention: &Attention) -> FloatTensor<Self> {
            Self::attention_forward(&inputs, attention).0
        }

        fn gnn_cross_entropy(
            logits: FloatTensor<Self>,
            classes: IntTensor<Self>,
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
            let (judged, _) = Self::cross_entropy_forward(logits, classes);
            (<Self as FloatTensorOps<Self>>::float_slice(judged.clone(), &[(0..1).into()]), judged)
        }
    };
}
pub(super) use by_own_kernels;

/// Aggregates the neighbors of each destination.
///
/// # Shapes
/// - `x`: `[num_src, features]`
/// - output: `[num_dst, features]`
///
/// # Panics
/// If `x` does not have `num_src` rows, or weights are not this batch's.
///
/// ```
/// # use std::sync::Arc;
/// use burn::{backend::NdArray, tensor::Tensor};
/// use edgecut_trainer::ops::{BatchGraph, Block, Reduce, aggregate};
/// let graph = Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?);
/// let block = Block::new(graph, 1, 3)?;
/// let x = Tensor::<NdArray, 2>::from_data([[9.0], [1.0], [3.0]], &Default::default());
/// let mean = aggregate(x, &block, &Reduce::Mean);
/// assert_eq!(mean.into_data(), burn::tensor::TensorData::from([[2.0f32]]));
/// # Ok::<(), edgecut_trainer::ops::BlockError>(())
/// ```
pub fn aggregate<B: GnnBackend>(x: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    run(x, &Aggregate::new(block.clone(), reduce.clone()))
}

/// Aggregates the neighbors of each destination and appends the destination's own row.
///
/// One operation, because the gradient of both halves then is one pass over the sources instead of two tensors that are
/// made and added.
///
/// # Shapes
/// - `x`: `[num_src, features]`
/// - output: `[num_dst, 2 * features]`, the aggregated columns first
///
/// # Panics
/// As [`aggregate`], and if there are more destinations than sources.
pub fn aggregate_with_self<B: GnnBackend>(x: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    run(x, &Aggregate::new(block.clone(), reduce.clone()).appending_self())
}

fn run<B: GnnBackend>(x: Tensor<B, 2>, aggregate: &Aggregate) -> Tensor<B, 2> {
    let [rows, _] = x.dims();
    assert_eq!(rows, aggregate.block.num_src(), "aggregate: rows of x against sources of the block");
    let output = B::gnn_aggregate(x.into_primitive().tensor(), aggregate);
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

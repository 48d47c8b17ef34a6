//! The neighbor aggregation, and the traits through which backends compute the operations of this module.

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

/// The reduction of a node's neighbor rows to one row. A node without neighbors gets zeros.
#[derive(Debug, Clone)]
pub enum Reduce {
    /// The sum of the rows.
    Sum,
    /// The mean of the rows. Each parallel edge counts.
    Mean,
    /// The maximum of each feature, or NaN if a neighbor has NaN. On ties the first neighbor in edge order gets the
    /// gradient.
    Max,
    /// The sum weighted by constants, plus the node's own weighted row if the weights have self loops.
    WeightedSum(Arc<EdgeWeights>),
}

/// The block and the settings of an aggregation, without the features.
#[derive(Debug, Clone)]
pub struct Aggregate {
    block: Block,
    reduce: Reduce,
    append_self: bool,
}

impl Aggregate {
    /// Makes the aggregation of `block` by `reduce`.
    ///
    /// # Panics
    /// If the weights of [`Reduce::WeightedSum`] were made for a graph of another size, or if they have self loops and
    /// the block has more destinations than sources.
    pub fn new(block: Block, reduce: Reduce) -> Self {
        if let Reduce::WeightedSum(weights) = &reduce {
            assert!(weights.fits(block.graph()), "aggregate: the edge weights were made for another batch");
            if weights.self_loops().is_some() {
                block.assert_rows_are_nodes("aggregate with self loops");
            }
        }
        Self { block, reduce, append_self: false }
    }

    /// Appends each destination's own row to its aggregated row, which doubles the columns of the output.
    ///
    /// # Panics
    /// If there are more destinations than sources, so that the destinations cannot be the first sources.
    pub fn appending_self(mut self) -> Self {
        self.block.assert_rows_are_nodes("aggregate_with_self");
        self.append_self = true;
        self
    }

    /// Returns the block: the rows and nodes that the operation works on.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Returns the reduction.
    pub fn reduce(&self) -> &Reduce {
        &self.reduce
    }

    /// Returns the number of output columns for `width` input columns.
    pub fn output_width(&self, width: usize) -> usize {
        if self.append_self { 2 * width } else { width }
    }

    /// Returns whether the output contains the destinations' own rows.
    pub fn appends_self(&self) -> bool {
        self.append_self
    }
}

/// A kernel that samples hops on a device with the bytes of device memory that it takes, `None` if the backend samples
/// on the CPU, or the error of the device.
pub type HopsOnDevice = Result<Option<(Arc<dyn HopKernel>, u64)>, Box<dyn Error + Send + Sync>>;

/// A backend that the models of this crate run on.
///
/// A plain backend implements it by its own [`GnnKernels`]. `Autodiff<B>` implements it for every `B: GnnKernels`;
/// there the outputs have gradients, except where a method says otherwise.
pub trait GnnBackend: Backend {
    /// True if devices of this backend have their own memory, to which batches are copied.
    const HAS_OWN_MEMORY: bool;

    /// Returns whether `device` can compute with numbers of type `precision`.
    fn gnn_supports(precision: Precision, device: &Self::Device) -> bool;

    /// Makes a tensor of features on `device`, `[rows, columns]`, from row-major values. On a device with its own
    /// memory the tensor has type `precision`, and the copy runs concurrently with the device's computation.
    fn gnn_place(values: Vec<f32>, shape: [usize; 2], precision: Precision, device: &Self::Device)
    -> FloatTensor<Self>;

    /// Assembles the features of a batch's nodes from tensors that [`GnnBackend::gnn_place`] has made.
    ///
    /// `cached` is `(cache, slots)`. Node `i` gets row `slots[i]` of `cache`. If the slot is
    /// [`NodeBatch::NOT_CACHED`](edgecut_dist_loader::NodeBatch::NOT_CACHED), the node gets the next row of `rows`.
    /// Without a cache the result is `rows`. The result has the type that models compute in and no gradient.
    ///
    /// # Panics
    /// If the slots do not match the cache and the rows.
    fn gnn_assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self>;

    /// Copies edges of `part` to `device` and returns a kernel that samples hops there, with the bytes that it takes.
    ///
    /// The kernel covers the edge types that fit into `budget_bytes`. Returns `None` if the backend samples on the CPU.
    ///
    /// # Errors
    /// The error of the device.
    fn gnn_hop_kernel(part: &Part, budget_bytes: u64, device: &Self::Device) -> HopsOnDevice;

    /// Prepares a block's edges for the forward kernels, and for the backward kernels if `for_backward` is true.
    ///
    /// Call it on a loader thread. Otherwise the first pass prepares the edges.
    fn gnn_prepare_block(block: &Block, for_backward: bool, device: &Self::Device);

    /// Prepares edge weights for the kernels, see [`GnnBackend::gnn_prepare_block`].
    fn gnn_prepare_weights(weights: &EdgeWeights, device: &Self::Device);

    /// Aggregates `x`, `[num_src, features]`, into `[num_dst, output_width]`.
    fn gnn_aggregate(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self>;

    /// Multiplies the elements of `x` by a dropout mask.
    fn gnn_dropout(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// Applies ReLU, then dropout. NaN stays NaN.
    fn gnn_relu(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// Computes `activation(x · weight + bias)`, see [`linear`](super::linear()).
    fn gnn_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// Normalises a batch, see [`batch_norm`](super::batch_norm()). The statistics have no gradient.
    fn gnn_batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Computes attention over the in-edges of each destination, `[num_dst, heads * channels]`.
    fn gnn_attention(inputs: AttentionTensors<Self>, attention: &Attention) -> FloatTensor<Self>;

    /// Computes the sum of cross entropies, `[1]`, and the same sum with the number of correct rows, `[2]`, which has
    /// no gradient. See [`cross_entropy_sum`](super::cross_entropy_sum).
    fn gnn_cross_entropy(logits: FloatTensor<Self>, classes: IntTensor<Self>)
    -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// The tensors that the forward pass of a dense layer keeps for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedLinear<B: Backend> {
    /// `[rows, in]`.
    pub x: FloatTensor<B>,
    /// `[in, out]`.
    pub weight: FloatTensor<B>,
    /// The output after the activation, `[rows, out]`.
    pub output: FloatTensor<B>,
}

/// The gradients of a dense layer's inputs.
#[derive(Debug)]
pub struct LinearGradients<B: Backend> {
    /// `[rows, in]`, if it was requested.
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

    /// See [`GnnBackend::gnn_supports`]. On the CPU the precision has no effect.
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

    /// See [`GnnBackend::gnn_hop_kernel`].
    ///
    /// # Errors
    /// The error of the device.
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

    /// See [`GnnBackend::gnn_relu`].
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
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// Computes the gradients of the inputs from the gradient of the output, `[rows, out]`; that of `x` only if
    /// `wants_x`.
    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
        wants_x: bool,
    ) -> LinearGradients<Self>;

    /// Computes the output, `[rows, channels]`, and the statistics of [`SavedBatchNorm`].
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

    /// Computes the output, `[num_dst, heads * channels]`, and the weights of [`SavedAttention`].
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

    /// Computes the sum of the rows' cross entropies with the number of correct rows, `[2]`, and the tensors that the
    /// backward pass needs. Callers ensure that `classes`, `[rows]`, are in range.
    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>);

    /// Computes the gradient of the logits, `[rows, classes]`, from the gradient of the sum, `[1]`.
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
/// In the cases of [`Aggregate::new`], and if `x` does not have `num_src` rows.
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
/// It is one operation so that the gradient of both halves is computed in one pass over the sources, instead of as two
/// tensors that are added.
///
/// # Shapes
/// - `x`: `[num_src, features]`
/// - output: `[num_dst, 2 * features]`, the aggregated columns first
///
/// # Panics
/// In the cases of [`aggregate`], and if there are more destinations than sources.
pub fn aggregate_with_self<B: GnnBackend>(x: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    run(x, &Aggregate::new(block.clone(), reduce.clone()).appending_self())
}

fn run<B: GnnBackend>(x: Tensor<B, 2>, aggregate: &Aggregate) -> Tensor<B, 2> {
    let [rows, _] = x.dims();
    assert_eq!(rows, aggregate.block.num_src(), "aggregate: rows of x against sources of the block");
    let output = B::gnn_aggregate(x.into_primitive().tensor(), aggregate);
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

//! The operations on burn's CubeCL backends, by the kernels of `edgecut-gpu`. Only the CUDA backend is built.

use burn::tensor::backend::Backend;
use burn::tensor::ops::{FloatTensor, FloatTensorOps, IntTensor, IntTensorOps};
use burn::tensor::{DType, IntDType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};
use cubecl::client::ComputeClient;
use cubecl::server::Handle;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::{Strategy, launch_ref};
use cubek::std::InputBinding;
use edgecut_gpu::kernels::{
    self as gpu, Aggregation, Appended, DeviceEdges, EdgeAttention, Element, Factor, FeatureRows, Mask, Matrix, Own,
    Scoring,
};
use edgecut_graph::Part;
use half::{bf16, f16};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::aggregate::{Aggregate, Reduce};
use super::attention::{Attention, AttentionTensors, AttentionVersion, SavedAttention};
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::block::Block;
use super::cross_entropy::SavedCrossEntropy;
use super::dropout::DropoutMask;
use super::edge_weights::EdgeWeights;
use super::gnn_kernels::{GnnKernels, HopsOnDevice};
use super::linear::{Activation, Linear, LinearGradients, SavedLinear};
use super::precision::Precision;

impl<R, F, I, T> GnnKernels for CubeBackend<R, F, I, T>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    T: BoolElement,
{
    const HAS_OWN_MEMORY: bool = true;

    fn supports(precision: Precision, device: &Self::Device) -> bool {
        precision == Precision::F32 || <Self as Backend>::supports_dtype(device, float_type(element_of(precision)))
    }

    fn place(values: Vec<f32>, shape: [usize; 2], precision: Precision, device: &Self::Device) -> FloatTensor<Self> {
        tensor(&R::client(device), device, gpu::place::<R>(device, values, shape, element_of(precision)))
    }

    fn assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self> {
        if cached.is_none() && rows.dtype == DType::F32 {
            return rows;
        }
        // Reached without a cache if the rows must be converted to `f32`. All slots are then `NOT_CACHED`.
        let all_fetched;
        let (cache, slots) = match cached {
            Some((cache, slots)) => (into_contiguous(cache), slots),
            None => {
                all_fetched = vec![u32::MAX; rows.meta.shape()[0]];
                let none = tensor(
                    &rows.client,
                    &rows.device,
                    Matrix::empty(&rows.client, [0, rows.meta.shape()[1]], element(rows.dtype)),
                );
                (none, &all_fetched[..])
            }
        };
        let client = rows.client.clone();
        let device = rows.device.clone();
        let dim = rows.meta.shape()[1];
        let kept = FeatureRows { handle: &cache.handle, num_rows: cache.meta.shape()[0] };
        let fetched = FeatureRows { handle: &rows.handle, num_rows: rows.meta.shape()[0] };
        let assembled = match cache.dtype {
            DType::F16 => gpu::assemble_rows::<R, f16, f32>(&client, dim, kept, fetched, slots),
            DType::BF16 => gpu::assemble_rows::<R, bf16, f32>(&client, dim, kept, fetched, slots),
            _ => gpu::assemble_rows::<R, f32, f32>(&client, dim, kept, fetched, slots),
        };
        let handle = assembled.unwrap_or_else(|error| panic!("{error}"));
        values(&client, &device, handle, [slots.len(), dim], DType::F32)
    }

    fn hop_kernel(part: &Part, budget_bytes: u64, device: &Self::Device) -> HopsOnDevice {
        let kernel = gpu::DeviceHops::new(&R::client(device), part, budget_bytes)?;
        let bytes = kernel.num_bytes();
        Ok(Some((Arc::new(kernel), bytes)))
    }

    fn prepare_block(block: &Block, for_backward: bool, device: &Self::Device) {
        block.graph().on_device::<R>(device);
        if for_backward {
            block.transposed_on_device::<R>(device);
        }
    }

    fn prepare_weights(weights: &EdgeWeights, device: &Self::Device) {
        weights.on_device::<R>(device);
    }

    fn aggregate_forward(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
        if matches!(aggregate.reduce(), Reduce::Max) {
            return Self::aggregate_forward_argmax(x, aggregate).0;
        }
        let client = x.client.clone();
        let x = Rows::new(x);
        let block = aggregate.block();
        let device = &x.tensor.device;
        let edges = block.graph().on_device::<R>(device);
        let mut sum = Aggregation {
            edges,
            num_rows: block.num_dst(),
            width: x.matrix.columns,
            factor: Factor::One,
            mean: matches!(aggregate.reduce(), Reduce::Mean),
            own: Own::Nothing,
            num_own: block.num_dst(),
            appended: if aggregate.appends_self() { Appended::Write } else { Appended::No },
        };
        if let Reduce::WeightedSum(weights) = aggregate.reduce() {
            let weights = weights.on_device::<R>(device);
            sum.factor = Factor::Weight(&weights.edges);
            sum.own = weights.own.as_ref().map_or(Own::Nothing, Own::Weighted);
        }
        tensor(&client, device, sum.run(&client, &x.matrix))
    }

    fn aggregate_forward_argmax(x: FloatTensor<Self>, aggregate: &Aggregate) -> (FloatTensor<Self>, IntTensor<Self>) {
        let client = x.client.clone();
        let x = Rows::new(x);
        let block = aggregate.block();
        let width = x.matrix.columns;
        let device = x.tensor.device.clone();
        let edges = block.graph().on_device::<R>(&device);
        let (out, winners) = gpu::maximum(&client, &x.matrix, edges, block.num_dst(), width);
        let out = tensor(&client, &device, out);
        let winners = values(&client, &device, winners, [block.num_dst(), width], DType::U32);
        // Copying zero rows fails on a GPU.
        let out = if aggregate.appends_self() && block.num_dst() > 0 {
            let own = Self::float_slice(x.tensor, &[(0..block.num_dst()).into(), (0..width).into()]);
            Self::float_cat(vec![out, own], 1)
        } else if aggregate.appends_self() {
            tensor(&client, &device, Matrix::empty(&client, [0, 2 * width], Element::F32))
        } else {
            out
        };
        (out, winners)
    }

    fn aggregate_backward(
        grad: FloatTensor<Self>,
        argmax: Option<IntTensor<Self>>,
        aggregate: &Aggregate,
    ) -> FloatTensor<Self> {
        let client = grad.client.clone();
        let grad = Rows::new(grad);
        let block = aggregate.block();
        let device = &grad.tensor.device;
        let width = grad.matrix.columns / if aggregate.appends_self() { 2 } else { 1 };
        let mut sum = Aggregation {
            edges: block.transposed_on_device::<R>(device),
            num_rows: block.num_src(),
            width,
            factor: Factor::One,
            mean: false,
            own: Own::Nothing,
            num_own: block.num_dst(),
            appended: if aggregate.appends_self() { Appended::Read } else { Appended::No },
        };
        match aggregate.reduce() {
            Reduce::Sum => {}
            Reduce::Mean => sum.factor = Factor::InverseDegree(block.graph().on_device::<R>(device)),
            Reduce::Max => {
                let winners = argmax.as_ref().expect("the forward pass of a maximum saves the winning edges");
                sum.factor = Factor::Won(&winners.handle);
            }
            Reduce::WeightedSum(weights) => {
                let weights = weights.on_device::<R>(device);
                sum.factor = Factor::Weight(&weights.edges);
                sum.own = weights.own.as_ref().map_or(Own::Nothing, Own::Weighted);
            }
        }
        tensor(&client, device, sum.run(&client, &grad.matrix))
    }

    fn dropout_multiply(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        let client = x.client.clone();
        let shape = x.meta.shape().clone();
        // The mask counts elements in row-major order for any number of dimensions.
        let x = into_contiguous(x);
        // The shape does not matter to the mask. Four columns let the kernel read vectors of four values.
        let elements = shape.num_elements();
        let columns = if elements.is_multiple_of(4) { 4 } else { 1 };
        let flat = Matrix::new(x.handle.clone(), [elements / columns, columns], element(x.dtype));
        let out = gpu::masked(&client, &flat, mask_on_device(mask));
        CubeTensor::new_contiguous(client, x.device, shape, out.handle, x.dtype)
    }

    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        linear: Linear,
    ) -> FloatTensor<Self> {
        let client = x.client.clone();
        let device = x.device.clone();
        let rows = x.meta.shape()[0];
        let columns = weight.meta.shape()[1];
        if rows == 0 {
            return tensor(&client, &device, Matrix::empty(&client, [0, columns], element(x.dtype)));
        }
        let weight = cast::<Self, R>(weight, x.dtype);
        let product = Rows::new(product::<Self, R>(x, weight, linear.precision));
        gpu::activate(&client, &product.matrix, &Rows::new(bias).matrix, activation_on_device(linear.activation));
        product.tensor
    }

    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        linear: Linear,
        wants_x: bool,
    ) -> LinearGradients<Self> {
        let SavedLinear { x, weight, output } = saved;
        let client = x.client.clone();
        let device = x.device.clone();
        let dtype = weight.dtype;
        let [fan_in, fan_out] = [weight.meta.shape()[0], weight.meta.shape()[1]];
        if x.meta.shape()[0] == 0 {
            let zeros = |shape: [usize; 2]| Matrix::zeros(&client, shape, element(dtype));
            let bias = zeros([1, fan_out]);
            return LinearGradients {
                x: wants_x.then(|| tensor(&client, &device, Matrix::empty(&client, [0, fan_in], element(x.dtype)))),
                weight: tensor(&client, &device, zeros([fan_in, fan_out])),
                bias: values(&client, &device, bias.handle, [fan_out], dtype),
            };
        }
        let mut grad = Rows::new(grad);
        if let Activation::Relu(mask) = linear.activation {
            let before = gpu::before_relu(&client, &grad.matrix, &Rows::new(output).matrix, mask_on_device(mask));
            grad = Rows::new(tensor(&client, &device, before));
        }
        let bias = gpu::column_sums(&client, &grad.matrix, element(dtype));
        let of_x = wants_x.then(|| {
            let weight = cast::<Self, R>(weight, x.dtype);
            product::<Self, R>(grad.tensor.clone(), Self::float_swap_dims(weight, 0, 1), linear.precision)
        });
        let of_weight = product::<Self, R>(Self::float_swap_dims(x, 0, 1), grad.tensor, linear.precision);
        LinearGradients {
            x: of_x,
            weight: cast::<Self, R>(of_weight, dtype),
            bias: values(&client, &device, bias.handle, [fan_out], dtype),
        }
    }

    fn batch_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let client = x.client.clone();
        let device = x.device.clone();
        let [x, gamma, beta] = [x, gamma, beta].map(Rows::new);
        let BatchNormalization { epsilon, activation } = normalization;
        let parameters = [&gamma.matrix, &beta.matrix];
        let (out, statistics) =
            gpu::batch_norm(&client, &x.matrix, parameters, epsilon as f32, activation_on_device(activation));
        (tensor(&client, &device, out), tensor(&client, &device, statistics))
    }

    fn batch_norm_backward(
        saved: SavedBatchNorm<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> [FloatTensor<Self>; 3] {
        let client = grad.client.clone();
        let device = grad.device.clone();
        let channels = saved.gamma.meta.shape()[0];
        let dtype = saved.gamma.dtype;
        let SavedBatchNorm { x, gamma, output, statistics } = saved;
        let [x, gamma, output, statistics, grad] = [x, gamma, output, statistics, grad].map(Rows::new);
        let saved = gpu::SavedNorm {
            x: &x.matrix,
            gamma: &gamma.matrix,
            output: &output.matrix,
            statistics: &statistics.matrix,
        };
        let BatchNormalization { epsilon, activation } = normalization;
        let [of_x, of_gamma, of_beta] =
            gpu::batch_norm_backward(&client, saved, &grad.matrix, epsilon as f32, activation_on_device(activation));
        let parameter = |sums: Matrix| {
            let sums = values(&client, &device, sums.handle, [channels], DType::F32);
            cast::<Self, R>(sums, dtype)
        };
        [tensor(&client, &device, of_x), parameter(of_gamma), parameter(of_beta)]
    }

    fn attention_forward(
        inputs: &AttentionTensors<Self>,
        attention: &Attention,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let client = inputs[0].client.clone();
        let device = inputs[0].device.clone();
        let inputs = same_type::<Self, R>(inputs);
        let edges = attention.block().graph().on_device::<R>(&device);
        let kernel = attention_on_device(attention, edges);
        let (out, weights) = kernel.forward(&client, inputs.each_ref().map(|input| &input.matrix));
        let own = if attention.has_self_edges() { attention.block().num_dst() } else { 0 };
        let entries = attention.block().num_edges() + own;
        let weights = values(&client, &device, weights, [entries, attention.heads()], DType::F32);
        (tensor(&client, &device, out), weights)
    }

    fn attention_backward(
        saved: SavedAttention<Self>,
        grad: FloatTensor<Self>,
        attention: &Attention,
    ) -> AttentionTensors<Self> {
        let client = grad.client.clone();
        let device = grad.device.clone();
        let shapes = saved.inputs.each_ref().map(|input| (input.meta.shape().clone(), input.dtype));
        let inputs = same_type::<Self, R>(&saved.inputs);
        let block = attention.block();
        let kernel = attention_on_device(attention, block.graph().on_device::<R>(&device));
        let gradients = kernel.backward(
            &client,
            inputs.each_ref().map(|input| &input.matrix),
            &saved.weights.handle,
            &Rows::new(grad).matrix,
            block.transposed_on_device::<R>(&device),
        );
        let mut shapes = shapes.into_iter();
        gradients.map(|gradient| {
            let (shape, dtype) = shapes.next().expect("there are as many inputs as gradients");
            let given = float_type(gradient.element);
            let gradient = CubeTensor::new_contiguous(client.clone(), device.clone(), shape, gradient.handle, given);
            cast::<Self, R>(gradient, dtype)
        })
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>) {
        let client = logits.client.clone();
        let device = logits.device.clone();
        let logits = Rows::new(logits);
        let classes = Self::int_cast(classes, IntDType::I32);
        let (judged, log_sums) = gpu::cross_entropy(&client, &logits.matrix, &classes.handle);
        let rows = logits.matrix.rows;
        let judged = values(&client, &device, judged.handle, [2], DType::F32);
        let log_sums = values(&client, &device, log_sums, [rows], DType::F32);
        (judged, SavedCrossEntropy { logits: logits.tensor, classes, log_sums })
    }

    fn cross_entropy_backward(saved: SavedCrossEntropy<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let SavedCrossEntropy { logits, classes, log_sums } = saved;
        let client = logits.client.clone();
        let logits = Rows::new(logits);
        let grad = Rows::new(grad);
        let classes = &classes.handle;
        let log_sums = &log_sums.handle;
        let out = gpu::cross_entropy_backward(&client, &logits.matrix, classes, log_sums, &grad.matrix);
        tensor(&client, &logits.tensor.device, out)
    }
}

/// A lazily made copy of a value on the process's device.
///
/// The copy is a cache and not a part of the value: a clone starts without one, and all `DeviceCopy`s compare equal.
pub(super) struct DeviceCopy<T>(OnceLock<T>);

impl<T> DeviceCopy<T> {
    /// Returns the copy. The first call makes it.
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }
}

impl<T> Default for DeviceCopy<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Clone for DeviceCopy<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> PartialEq for DeviceCopy<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for DeviceCopy<T> {}

impl<T> fmt::Debug for DeviceCopy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "on a device" } else { "not on a device" })
    }
}

/// A tensor of one or two dimensions whose rows are contiguous, and the matrix view of it that kernels read. A vector
/// is a matrix with one row.
struct Rows<R: CubeRuntime> {
    tensor: CubeTensor<R>,
    matrix: Matrix,
}

impl<R: CubeRuntime> Rows<R> {
    fn new(tensor: CubeTensor<R>) -> Self {
        let tensor = if has_rows(&tensor) { tensor } else { into_contiguous(tensor) };
        let (rows, columns, stride) = match *tensor.meta.shape().as_slice() {
            [columns] => (1, columns, columns),
            [rows, columns] => (rows, columns, tensor.meta.strides()[0].max(columns)),
            ref other => unreachable!("operations on batches take matrices and vectors, got shape {other:?}"),
        };
        let matrix = Matrix { stride, ..Matrix::new(tensor.handle.clone(), [rows, columns], element(tensor.dtype)) };
        Self { tensor, matrix }
    }
}

/// Returns whether the values of each row are contiguous and rows do not overlap.
fn has_rows<R: CubeRuntime>(tensor: &CubeTensor<R>) -> bool {
    let shape = tensor.meta.shape();
    let strides = tensor.meta.strides();
    let last = shape.num_dims() - 1;
    (strides[last] == 1 || shape[last] == 1) && (last == 0 || shape[0] == 1 || strides[0] >= shape[last])
}

/// Returns the product of two matrices of the same type, in that type. It is computed in `precision`.
fn product<B, R>(a: CubeTensor<R>, b: CubeTensor<R>, precision: Precision) -> CubeTensor<R>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
    R: CubeRuntime,
{
    let given = a.dtype;
    match precision {
        Precision::F32 => full_product(a, b),
        other => {
            let dtype = float_type(element_of(other));
            cast::<B, R>(B::float_matmul(cast::<B, R>(a, dtype), cast::<B, R>(b, dtype)), given)
        }
    }
}

/// Returns the product of two matrices, computed without tensor cores.
///
/// Tensor cores round `f32` to 10 bits of the fraction, and burn's own products use them wherever they exist.
fn full_product<R: CubeRuntime>(a: CubeTensor<R>, b: CubeTensor<R>) -> CubeTensor<R> {
    let client = a.client.clone();
    let device = a.device.clone();
    let dtype = a.dtype;
    let shape = Shape::new([a.meta.shape()[0], b.meta.shape()[1]]);
    let out = empty_device_dtype(client.clone(), device, shape, dtype);
    let storage = dtype.into();
    let mut types = MatmulElems::from_globals(&MatmulGlobalElems { lhs: storage, rhs: storage, out: storage });
    let input = |tensor: CubeTensor<R>| InputBinding::new(tensor.binding(), storage);
    let strategy = Strategy::SimpleUnit(Default::default());
    launch_ref(&strategy, &client, input(a), input(b), out.clone().binding(), &mut types)
        .unwrap_or_else(|error| panic!("cannot multiply two matrices on the device: {error:?}"));
    out
}

fn element_of(precision: Precision) -> Element {
    match precision {
        Precision::F32 => Element::F32,
        Precision::F16 => Element::F16,
        Precision::Bf16 => Element::Bf16,
    }
}

fn element(dtype: DType) -> Element {
    match dtype {
        DType::F32 | DType::Flex32 => Element::F32,
        DType::F16 => Element::F16,
        DType::BF16 => Element::Bf16,
        other => unreachable!("models compute in f32, f16 or bf16, got {other:?}"),
    }
}

fn float_type(element: Element) -> DType {
    match element {
        Element::F32 => DType::F32,
        Element::F16 => DType::F16,
        Element::Bf16 => DType::BF16,
    }
}

/// Makes a tensor of a matrix whose rows are contiguous and adjacent.
fn tensor<R: CubeRuntime>(client: &ComputeClient<R>, device: &R::Device, matrix: Matrix) -> CubeTensor<R> {
    values(client, device, matrix.handle, [matrix.rows, matrix.columns], float_type(matrix.element))
}

/// Makes a contiguous tensor of the memory of `handle`.
fn values<R: CubeRuntime, const D: usize>(
    client: &ComputeClient<R>,
    device: &R::Device,
    handle: Handle,
    shape: [usize; D],
    dtype: DType,
) -> CubeTensor<R> {
    CubeTensor::new_contiguous(client.clone(), device.clone(), Shape::from(shape), handle, dtype)
}

/// Converts a tensor to a float type. A tensor that has the type already is returned unchanged.
fn cast<B, R>(tensor: CubeTensor<R>, dtype: DType) -> CubeTensor<R>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
    R: CubeRuntime,
{
    if tensor.dtype == dtype { tensor } else { B::float_cast(tensor, dtype.into()) }
}

/// Converts the inputs of an attention to the type of the first input.
fn same_type<B, R>(inputs: &[CubeTensor<R>; 3]) -> [Rows<R>; 3]
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
    R: CubeRuntime,
{
    let dtype = inputs[0].dtype;
    inputs.each_ref().map(|input| Rows::new(cast::<B, R>(input.clone(), dtype)))
}

fn mask_on_device(mask: DropoutMask) -> Mask {
    let (key, threshold) = mask.draws();
    Mask { key, threshold, scale: mask.scale() }
}

fn activation_on_device(activation: Activation) -> gpu::Activation {
    match activation {
        Activation::Identity => gpu::Activation::Identity,
        Activation::Relu(mask) => gpu::Activation::Relu(mask_on_device(mask)),
    }
}

fn attention_on_device<'a>(attention: &Attention, edges: &'a DeviceEdges) -> EdgeAttention<'a> {
    EdgeAttention {
        edges,
        num_rows: attention.block().num_dst(),
        num_edges: attention.block().num_edges(),
        heads: attention.heads(),
        scoring: match attention.version() {
            AttentionVersion::V1 => Scoring::Additive,
            AttentionVersion::V2 => Scoring::Dynamic,
        },
        self_edges: attention.has_self_edges(),
        negative_slope: attention.negative_slope(),
        dropout: mask_on_device(attention.dropout()),
    }
}

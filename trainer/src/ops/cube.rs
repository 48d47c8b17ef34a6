//! The kernels on burn's CubeCL backends, of which CUDA's is built.

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

use super::aggregate::{
    Aggregate, GnnBackend, GnnKernels, HopsOnDevice, LinearGradients, Reduce, SavedLinear, by_own_kernels,
};
use super::attention::{Attention, AttentionTensors, AttentionVersion, SavedAttention};
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::block::Block;
use super::cross_entropy::SavedCrossEntropy;
use super::dropout::DropoutMask;
use super::edge_weights::EdgeWeights;
use super::linear::Activation;
use super::precision::{Precision, products};

impl<R, F, I, T> GnnKernels for CubeBackend<R, F, I, T>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    T: BoolElement,
{
    const OWN_MEMORY: bool = true;

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
        // Without a cache all rows are the fetched ones.
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
        let (client, device, dim) = (rows.client.clone(), rows.device.clone(), rows.meta.shape()[1]);
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
        let (client, x) = (x.client.clone(), Rows::new(x));
        let (block, device) = (aggregate.block(), &x.tensor.device);
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
        let (client, x) = (x.client.clone(), Rows::new(x));
        let (block, width, device) = (aggregate.block(), x.matrix.columns, x.tensor.device.clone());
        let edges = block.graph().on_device::<R>(&device);
        let (out, winners) = gpu::maximum(&client, &x.matrix, edges, block.num_dst(), width);
        let out = tensor(&client, &device, out);
        let winners = values(&client, &device, winners, [block.num_dst(), width], DType::U32);
        // A GPU refuses to copy no rows.
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
        let (client, grad) = (grad.client.clone(), Rows::new(grad));
        let (block, device) = (aggregate.block(), &grad.tensor.device);
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
                let winners = argmax.as_ref().expect("the backward pass of a maximum has its winners");
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
        let (client, shape) = (x.client.clone(), x.meta.shape().clone());
        // The mask counts elements in row-major order, whatever the rank.
        let x = into_contiguous(x);
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
        activation: Activation,
    ) -> FloatTensor<Self> {
        let (client, device) = (x.client.clone(), x.device.clone());
        let (rows, columns) = (x.meta.shape()[0], weight.meta.shape()[1]);
        if rows == 0 {
            return tensor(&client, &device, Matrix::empty(&client, [0, columns], element(x.dtype)));
        }
        let weight = cast::<Self, R>(weight, x.dtype);
        let product = Rows::new(product::<Self, R>(x, weight));
        gpu::activate(&client, &product.matrix, &Rows::new(bias).matrix, activation_on_device(activation));
        product.tensor
    }

    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
        wants_x: bool,
    ) -> LinearGradients<Self> {
        let SavedLinear { x, weight, output } = saved;
        let (client, device, dtype) = (x.client.clone(), x.device.clone(), weight.dtype);
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
        if let Activation::Relu(mask) = activation {
            let before = gpu::before_relu(&client, &grad.matrix, &Rows::new(output).matrix, mask_on_device(mask));
            grad = Rows::new(tensor(&client, &device, before));
        }
        let bias = gpu::column_sums(&client, &grad.matrix, element(dtype));
        let of_x = wants_x.then(|| {
            let weight = cast::<Self, R>(weight, x.dtype);
            product::<Self, R>(grad.tensor.clone(), Self::float_swap_dims(weight, 0, 1))
        });
        let of_weight = product::<Self, R>(Self::float_swap_dims(x, 0, 1), grad.tensor);
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
        let (client, device) = (x.client.clone(), x.device.clone());
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
        let (client, device, channels) = (grad.client.clone(), grad.device.clone(), saved.gamma.meta.shape()[0]);
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
        let (client, device) = (inputs[0].client.clone(), inputs[0].device.clone());
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
        let (client, device) = (grad.client.clone(), grad.device.clone());
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
            let (shape, dtype) = shapes.next().expect("a gradient for each input");
            let given = float_type(gradient.element);
            let gradient = CubeTensor::new_contiguous(client.clone(), device.clone(), shape, gradient.handle, given);
            cast::<Self, R>(gradient, dtype)
        })
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>) {
        let (client, device, logits) = (logits.client.clone(), logits.device.clone(), Rows::new(logits));
        let classes = Self::int_cast(classes, IntDType::I32);
        let (judged, log_sums) = gpu::cross_entropy(&client, &logits.matrix, &classes.handle);
        let rows = logits.matrix.rows;
        let judged = values(&client, &device, judged.handle, [2], DType::F32);
        let log_sums = values(&client, &device, log_sums, [rows], DType::F32);
        (judged, SavedCrossEntropy { logits: logits.tensor, classes, log_sums })
    }

    fn cross_entropy_backward(saved: SavedCrossEntropy<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let SavedCrossEntropy { logits, classes, log_sums } = saved;
        let (client, logits, grad) = (logits.client.clone(), Rows::new(logits), Rows::new(grad));
        let (classes, log_sums) = (&classes.handle, &log_sums.handle);
        let out = gpu::cross_entropy_backward(&client, &logits.matrix, classes, log_sums, &grad.matrix);
        tensor(&client, &logits.tensor.device, out)
    }
}

impl<R, F, I, T> GnnBackend for CubeBackend<R, F, I, T>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    T: BoolElement,
{
    by_own_kernels!();
}

/// A copy of something on the process's device, made when it is first asked for. It is no part of what it is a copy of: a
/// clone has none, and all are equal.
pub(super) struct DeviceCopy<T>(OnceLock<T>);

impl<T> DeviceCopy<T> {
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

/// A tensor of one or two dimensions whose rows are contiguous, and the matrix that kernels read: a vector is one row.
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
            ref other => unreachable!("operations on batches are of matrices and vectors, not of {other:?}"),
        };
        let matrix = Matrix { stride, ..Matrix::new(tensor.handle.clone(), [rows, columns], element(tensor.dtype)) };
        Self { tensor, matrix }
    }
}

/// Whether the values of each row lie side by side, and rows do not overlap.
fn has_rows<R: CubeRuntime>(tensor: &CubeTensor<R>) -> bool {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let last = shape.num_dims() - 1;
    (strides[last] == 1 || shape[last] == 1) && (last == 0 || shape[0] == 1 || strides[0] >= shape[last])
}

/// The product of two matrices of one type, in that type.
fn product<B, R>(a: CubeTensor<R>, b: CubeTensor<R>) -> CubeTensor<R>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
    R: CubeRuntime,
{
    let given = a.dtype;
    match products() {
        Precision::F32 => full_product(a, b),
        other => {
            let dtype = float_type(element_of(other));
            cast::<B, R>(B::float_matmul(cast::<B, R>(a, dtype), cast::<B, R>(b, dtype)), given)
        }
    }
}

/// The product of two matrices without tensor cores: those round `f32` to 10 bits of the fraction, and burn's own products take
/// them wherever there are some.
fn full_product<R: CubeRuntime>(a: CubeTensor<R>, b: CubeTensor<R>) -> CubeTensor<R> {
    let (client, device, dtype) = (a.client.clone(), a.device.clone(), a.dtype);
    let shape = Shape::new([a.meta.shape()[0], b.meta.shape()[1]]);
    let out = empty_device_dtype(client.clone(), device, shape, dtype);
    let storage = dtype.into();
    let mut types = MatmulElems::from_globals(&MatmulGlobalElems { lhs: storage, rhs: storage, out: storage });
    let input = |tensor: CubeTensor<R>| InputBinding::new(tensor.binding(), storage);
    let strategy = Strategy::SimpleUnit(Default::default());
    launch_ref(&strategy, &client, input(a), input(b), out.clone().binding(), &mut types)
        .unwrap_or_else(|error| panic!("the device cannot multiply matrices: {error:?}"));
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
        other => unreachable!("models compute in f32, f16 or bf16, not in {other:?}"),
    }
}

fn float_type(element: Element) -> DType {
    match element {
        Element::F32 => DType::F32,
        Element::F16 => DType::F16,
        Element::Bf16 => DType::BF16,
    }
}

/// A matrix whose rows lie end to end, as a tensor.
fn tensor<R: CubeRuntime>(client: &ComputeClient<R>, device: &R::Device, matrix: Matrix) -> CubeTensor<R> {
    values(client, device, matrix.handle, [matrix.rows, matrix.columns], float_type(matrix.element))
}

fn values<R: CubeRuntime, const D: usize>(
    client: &ComputeClient<R>,
    device: &R::Device,
    handle: Handle,
    shape: [usize; D],
    dtype: DType,
) -> CubeTensor<R> {
    CubeTensor::new_contiguous(client.clone(), device.clone(), Shape::from(shape), handle, dtype)
}

/// The tensor in another float type, itself if it has it.
fn cast<B, R>(tensor: CubeTensor<R>, dtype: DType) -> CubeTensor<R>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
    R: CubeRuntime,
{
    if tensor.dtype == dtype { tensor } else { B::float_cast(tensor, dtype.into()) }
}

/// The inputs of an attention in the type of the first.
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

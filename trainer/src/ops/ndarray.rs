//! The operations on burn's CPU backend, by the kernels of this module's siblings.

use std::borrow::Cow;

use burn::tensor::ops::{FloatTensor, FloatTensorOps, IntTensor};
use burn::tensor::{TensorData, TensorMetadata};
use burn_ndarray::{FloatNdArrayElement, IntNdArrayElement, NdArray, NdArrayTensor, QuantElement, SharedArray};
use edgecut_graph::Part;

use super::aggregate::{Aggregate, GnnBackend, GnnKernels, HopsOnDevice, LinearGradients, SavedLinear, by_own_kernels};
use super::attention::{Attention, AttentionTensors, AttentionVersion, SavedAttention};
use super::attention_kernels;
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::batch_norm_kernels;
use super::block::Block;
use super::cross_entropy::{self, SavedCrossEntropy};
use super::dense::{self, Shape};
use super::dropout::DropoutMask;
use super::edge_weights::EdgeWeights;
use super::kernels;
use super::linear::Activation;
use super::precision::Precision;
use super::real::Real;

/// An element type of burn-ndarray's float tensors.
trait Elements: Real {
    /// Returns the elements in row-major order. They are copied only if the tensor stores them in another order.
    fn of(tensor: &NdArrayTensor) -> Cow<'_, [Self]>;
}

macro_rules! elements {
    ($type:ty, $variant:ident) => {
        impl Elements for $type {
            fn of(tensor: &NdArrayTensor) -> Cow<'_, [Self]> {
                let NdArrayTensor::$variant(storage) = tensor else {
                    unreachable!("the tensors of an operation have the same element type")
                };
                let view = storage.view();
                view.to_slice().map_or_else(|| view.iter().copied().collect(), Cow::Borrowed)
            }
        }
    };
}
elements!(f32, F32);
elements!(f64, F64);

/// Calls `$function::<T>($arguments)` with the element type `T` of `$tensor`.
macro_rules! with_type_of {
    ($tensor:expr, $function:ident($($argument:expr),*)) => {
        match &$tensor {
            NdArrayTensor::F32(_) => $function::<f32>($($argument),*),
            NdArrayTensor::F64(_) => $function::<f64>($($argument),*),
            other => unreachable!("float tensors of burn-ndarray are f32 or f64, got {other:?}"),
        }
    };
}

/// Evaluates `$change` on the `$values` of a tensor, in place if the tensor's memory is not shared, otherwise on a
/// copy.
macro_rules! change_in_place {
    ($storage:expr, $values:ident => $change:expr) => {{
        let array = $storage.into_shared();
        let mut owned = match array.try_into_owned_nocopy() {
            Ok(owned) if owned.is_standard_layout() => owned,
            Ok(owned) => owned.as_standard_layout().into_owned(),
            Err(shared) => shared.as_standard_layout().into_owned(),
        };
        let $values = owned.as_slice_mut().expect("an array in standard layout is contiguous");
        $change;
        NdArrayTensor::from(owned.into_shared())
    }};
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> GnnKernels for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>>,
    NdArrayTensor: From<SharedArray<I>>,
{
    fn aggregate_forward(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
        with_type_of!(x, aggregate_forward(&x, aggregate))
    }

    fn aggregate_forward_argmax(x: FloatTensor<Self>, aggregate: &Aggregate) -> (FloatTensor<Self>, IntTensor<Self>) {
        with_type_of!(x, aggregate_forward_argmax(&x, aggregate))
    }

    fn aggregate_backward(
        grad: FloatTensor<Self>,
        argmax: Option<IntTensor<Self>>,
        aggregate: &Aggregate,
    ) -> FloatTensor<Self> {
        with_type_of!(grad, aggregate_backward(&grad, argmax.as_ref(), aggregate))
    }

    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        with_type_of!(x, linear_forward([&x, &weight, &bias], activation))
    }

    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
        wants_x: bool,
    ) -> LinearGradients<Self> {
        let SavedLinear { x, weight, output } = &saved;
        let (x, weight, bias) = with_type_of!(grad, linear_backward([x, weight, output], &grad, activation, wants_x));
        LinearGradients { x, weight, bias }
    }

    fn batch_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        with_type_of!(x, batch_norm_forward([&x, &gamma, &beta], normalization))
    }

    fn batch_norm_backward(
        saved: SavedBatchNorm<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> [FloatTensor<Self>; 3] {
        let SavedBatchNorm { x, gamma, output, statistics } = &saved;
        with_type_of!(grad, batch_norm_backward([x, gamma, output, statistics], &grad, normalization))
    }

    fn attention_forward(
        inputs: &AttentionTensors<Self>,
        attention: &Attention,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        with_type_of!(inputs[0], attention_forward(inputs, attention))
    }

    fn attention_backward(
        saved: SavedAttention<Self>,
        grad: FloatTensor<Self>,
        attention: &Attention,
    ) -> AttentionTensors<Self> {
        with_type_of!(grad, attention_backward(&saved.inputs, &saved.weights, &grad, attention))
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>) {
        let (judged, log_sums) = with_type_of!(logits, cross_entropy_forward(&logits, &classes));
        (judged, SavedCrossEntropy { logits, classes, log_sums })
    }

    fn cross_entropy_backward(saved: SavedCrossEntropy<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        with_type_of!(grad, cross_entropy_backward(&saved.logits, &saved.classes, &saved.log_sums, &grad))
    }

    fn dropout_multiply(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        match x {
            NdArrayTensor::F32(storage) => change_in_place!(storage, values => mask.apply::<f32>(values)),
            NdArrayTensor::F64(storage) => change_in_place!(storage, values => mask.apply::<f64>(values)),
            other => unreachable!("float tensors of burn-ndarray are f32 or f64, got {other:?}"),
        }
    }

    fn relu_forward(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        match x {
            NdArrayTensor::F32(storage) => change_in_place!(storage, values => dense::activate::<f32>(values, mask)),
            NdArrayTensor::F64(storage) => change_in_place!(storage, values => dense::activate::<f64>(values, mask)),
            other => unreachable!("float tensors of burn-ndarray are f32 or f64, got {other:?}"),
        }
    }

    fn relu_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        with_type_of!(grad, relu_backward(&output, &grad, mask))
    }
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> GnnBackend for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>>,
    NdArrayTensor: From<SharedArray<I>>,
{
    by_own_kernels!();
}

fn tensor<T: Real>(values: Vec<T>, shape: impl Into<Vec<usize>>) -> NdArrayTensor {
    NdArrayTensor::from_data(TensorData::new(values, shape.into()))
}

fn columns(matrix: &NdArrayTensor) -> usize {
    matrix.shape()[1]
}

fn aggregate_forward<T: Elements>(x: &NdArrayTensor, aggregate: &Aggregate) -> NdArrayTensor {
    let width = columns(x);
    let output = kernels::forward(&T::of(x), width, aggregate);
    tensor(output, [aggregate.block().num_dst(), aggregate.output_width(width)])
}

fn aggregate_forward_argmax<T: Elements>(x: &NdArrayTensor, aggregate: &Aggregate) -> (NdArrayTensor, NdArrayTensor) {
    let num_dst = aggregate.block().num_dst();
    let width = columns(x);
    let (output, argmax) = kernels::forward_argmax(&T::of(x), width, aggregate);
    let output = tensor(output, [num_dst, aggregate.output_width(width)]);
    (output, NdArrayTensor::from_data(TensorData::new(argmax, [num_dst, width])))
}

fn aggregate_backward<T: Elements>(
    grad: &NdArrayTensor,
    argmax: Option<&NdArrayTensor>,
    aggregate: &Aggregate,
) -> NdArrayTensor {
    let width = if aggregate.appends_self() { columns(grad) / 2 } else { columns(grad) };
    let argmax = match argmax {
        Some(NdArrayTensor::U32(storage)) => Some(storage.view()),
        _ => None,
    };
    let argmax = argmax.as_ref().and_then(|view| view.as_slice());
    let output = kernels::backward(&T::of(grad), argmax, width, aggregate);
    tensor(output, [aggregate.block().num_src(), width])
}

fn attention_forward<T: Elements>(
    inputs: &[NdArrayTensor; 3],
    attention: &Attention,
) -> (NdArrayTensor, NdArrayTensor) {
    let width = columns(&inputs[0]);
    let heads = attention.heads();
    let values = inputs.each_ref().map(T::of);
    let (output, weights) = attention_kernels::forward(values.each_ref().map(|v| &**v), width, attention);
    let entries = weights.len() / heads;
    (tensor(output, [attention.block().num_dst(), width]), tensor(weights, [entries, heads]))
}

fn attention_backward<T: Elements>(
    inputs: &[NdArrayTensor; 3],
    weights: &NdArrayTensor,
    grad: &NdArrayTensor,
    attention: &Attention,
) -> [NdArrayTensor; 3] {
    let block = attention.block();
    let width = columns(grad);
    let heads = attention.heads();
    let values = inputs.each_ref().map(T::of);
    let values = values.each_ref().map(|v| &**v);
    let [z, second, third] = attention_kernels::backward(values, &T::of(weights), &T::of(grad), width, attention);
    let z = tensor(z, [block.num_src(), width]);
    match attention.version() {
        AttentionVersion::V1 => [z, tensor(second, [block.num_src(), heads]), tensor(third, [block.num_dst(), heads])],
        AttentionVersion::V2 => [z, tensor(second, [block.num_dst(), width]), tensor(third, [width])],
    }
}

fn batch_norm_forward<T: Elements>(
    inputs: [&NdArrayTensor; 3],
    normalization: BatchNormalization,
) -> (NdArrayTensor, NdArrayTensor) {
    let [x, gamma, beta] = inputs.map(T::of);
    let (output, statistics) = batch_norm_kernels::forward(&x, &gamma, &beta, normalization);
    let channels = gamma.len();
    (tensor(output, [inputs[0].shape()[0], channels]), tensor(statistics, [2, channels]))
}

fn batch_norm_backward<T: Elements>(
    saved: [&NdArrayTensor; 4],
    grad: &NdArrayTensor,
    normalization: BatchNormalization,
) -> [NdArrayTensor; 3] {
    let shape = [grad.shape()[0], columns(grad)];
    let [x, gamma, output, statistics] = saved.map(T::of);
    let saved = batch_norm_kernels::Saved { x: &x, gamma: &gamma, output: &output, statistics: &statistics };
    let [x, gamma, beta] = batch_norm_kernels::backward(saved, &T::of(grad), normalization);
    [tensor(x, shape), tensor(gamma, [shape[1]]), tensor(beta, [shape[1]])]
}

fn linear_shape(x: &NdArrayTensor, weight: &NdArrayTensor) -> Shape {
    Shape { rows: x.shape()[0], fan_in: weight.shape()[0], fan_out: weight.shape()[1] }
}

fn linear_forward<T: Elements>([x, weight, bias]: [&NdArrayTensor; 3], activation: Activation) -> NdArrayTensor {
    let shape = linear_shape(x, weight);
    let output = dense::forward(&T::of(x), &T::of(weight), &T::of(bias), shape, activation);
    tensor(output, [shape.rows, shape.fan_out])
}

fn linear_backward<T: Elements>(
    saved: [&NdArrayTensor; 3],
    grad: &NdArrayTensor,
    activation: Activation,
    wants_x: bool,
) -> (Option<NdArrayTensor>, NdArrayTensor, NdArrayTensor) {
    let shape = linear_shape(saved[0], saved[1]);
    let [x, weight, output] = saved.map(T::of);
    let slices = dense::Saved { x: &x, weight: &weight, output: &output };
    let gradients = dense::backward(slices, &T::of(grad), shape, activation, wants_x);
    let x = gradients.x.map(|x| tensor(x, [shape.rows, shape.fan_in]));
    (x, tensor(gradients.weight, [shape.fan_in, shape.fan_out]), tensor(gradients.bias, [shape.fan_out]))
}

fn relu_backward<T: Elements>(output: &NdArrayTensor, grad: &NdArrayTensor, mask: DropoutMask) -> NdArrayTensor {
    let shape: Vec<usize> = grad.shape().iter().copied().collect();
    tensor(dense::before_activation(&T::of(output), &T::of(grad), mask), shape)
}

/// Returns the values of an integer tensor.
fn integers(tensor: &NdArrayTensor) -> Vec<usize> {
    match tensor {
        NdArrayTensor::I64(storage) => storage.view().iter().map(|&value| value as usize).collect(),
        NdArrayTensor::I32(storage) => storage.view().iter().map(|&value| value as usize).collect(),
        other => unreachable!("classes are integers of 32 or 64 bits, got {other:?}"),
    }
}

fn cross_entropy_forward<T: Elements>(
    logits: &NdArrayTensor,
    classes: &NdArrayTensor,
) -> (NdArrayTensor, NdArrayTensor) {
    let rows = logits.shape()[0];
    let (judged, log_sums) = cross_entropy::forward(&T::of(logits), &integers(classes));
    (tensor(judged.to_vec(), [2]), tensor(log_sums, [rows]))
}

fn cross_entropy_backward<T: Elements>(
    logits: &NdArrayTensor,
    classes: &NdArrayTensor,
    log_sums: &NdArrayTensor,
    grad: &NdArrayTensor,
) -> NdArrayTensor {
    let shape = [logits.shape()[0], columns(logits)];
    let gradient = cross_entropy::backward(&T::of(logits), &integers(classes), &T::of(log_sums), T::of(grad)[0]);
    tensor(gradient, shape)
}

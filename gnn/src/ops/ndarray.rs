//! The operations on burn's CPU backend, by the kernels of this module's siblings.

use std::borrow::Cow;

use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{TensorData, TensorMetadata};
use burn_ndarray::{FloatNdArrayElement, IntNdArrayElement, NdArray, NdArrayTensor, QuantElement, SharedArray};

use super::aggregate::Aggregate;
use super::aggregate_kernels;
use super::attention::{Attention, AttentionTensors, SavedAttention};
use super::attention_kernels;
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::batch_norm_kernels;
use super::block::Block;
use super::cross_entropy::{self, SavedCrossEntropy};
use super::dense::{self, Shape};
use super::dropout::DropoutMask;
use super::gnn_kernels::GnnKernels;
use super::head_kernels::{self, HeadRows};
use super::linear::{Linear, LinearGradients, SavedLinear};
use super::real::Real;
use super::row_statistics::RowStatistics;
use super::synced_batch_norm::NormalizedRows;

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

/// Evaluates `$value` with `$type` as the element type of `$tensor`.
macro_rules! with_type_of {
    ($tensor:expr, $type:ident => $value:expr) => {
        match &$tensor {
            NdArrayTensor::F32(_) => {
                type $type = f32;
                $value
            }
            NdArrayTensor::F64(_) => {
                type $type = f64;
                $value
            }
            other => unreachable!("float tensors of burn-ndarray are f32 or f64, got {other:?}"),
        }
    };
}

/// Evaluates `$change` on the `$values` of a tensor, in place if the tensor's memory is not shared, otherwise on a
/// copy.
macro_rules! change_in_place {
    ($tensor:expr, $values:ident => $change:expr) => {
        match $tensor {
            NdArrayTensor::F32(storage) => change_array(storage.into_shared(), |$values: &mut [f32]| $change),
            NdArrayTensor::F64(storage) => change_array(storage.into_shared(), |$values: &mut [f64]| $change),
            other => unreachable!("float tensors of burn-ndarray are f32 or f64, got {other:?}"),
        }
    };
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> GnnKernels for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>>,
    NdArrayTensor: From<SharedArray<I>>,
{
    const FUSES_HEADS: bool = true;

    fn aggregate_forward(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
        let width = columns(&x);
        let shape = [aggregate.block().num_dst(), aggregate.output_width(width)];
        with_type_of!(x, T => tensor(aggregate_kernels::forward(&T::of(&x), width, aggregate), shape))
    }

    fn aggregate_forward_argmax(x: FloatTensor<Self>, aggregate: &Aggregate) -> (FloatTensor<Self>, IntTensor<Self>) {
        let width = columns(&x);
        let num_dst = aggregate.block().num_dst();
        let (output, argmax) = with_type_of!(x, T => {
            let (output, argmax) = aggregate_kernels::forward_argmax(&T::of(&x), width, aggregate);
            (tensor(output, [num_dst, aggregate.output_width(width)]), argmax)
        });
        (output, NdArrayTensor::from_data(TensorData::new(argmax, [num_dst, width])))
    }

    fn aggregate_backward(
        grad: FloatTensor<Self>,
        argmax: Option<IntTensor<Self>>,
        aggregate: &Aggregate,
    ) -> FloatTensor<Self> {
        let width = if aggregate.appends_self() { columns(&grad) / 2 } else { columns(&grad) };
        let argmax = match &argmax {
            Some(NdArrayTensor::U32(storage)) => Some(storage.view()),
            _ => None,
        };
        let argmax = argmax.as_ref().and_then(|view| view.as_slice());
        let shape = [aggregate.block().num_src(), width];
        with_type_of!(grad, T => tensor(aggregate_kernels::backward(&T::of(&grad), argmax, width, aggregate), shape))
    }

    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        linear: Linear,
    ) -> FloatTensor<Self> {
        let shape = linear_shape(&x, &weight);
        with_type_of!(x, T => {
            let output = dense::forward(&T::of(&x), &T::of(&weight), &T::of(&bias), shape, linear);
            tensor(output, [shape.rows, shape.fan_out])
        })
    }

    fn linear_backward(
        saved: SavedLinear<Self>,
        grad: FloatTensor<Self>,
        linear: Linear,
        wants_x: bool,
    ) -> LinearGradients<Self> {
        let SavedLinear { x, weight, output } = &saved;
        let shape = linear_shape(x, weight);
        with_type_of!(grad, T => {
            let saved = dense::Saved { x: &T::of(x), weight: &T::of(weight), output: &T::of(output) };
            let gradients = dense::backward(saved, &T::of(&grad), shape, linear, wants_x);
            LinearGradients {
                x: gradients.x.map(|x| tensor(x, [shape.rows, shape.fan_in])),
                weight: tensor(gradients.weight, [shape.fan_in, shape.fan_out]),
                bias: tensor(gradients.bias, [shape.fan_out]),
            }
        })
    }

    fn batch_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let rows = x.shape()[0];
        let channels = gamma.shape()[0];
        with_type_of!(x, T => {
            let (output, statistics) =
                batch_norm_kernels::forward(&T::of(&x), &T::of(&gamma), &T::of(&beta), normalization);
            (tensor(output, [rows, channels]), tensor(statistics, [2, channels]))
        })
    }

    fn batch_norm_backward(
        saved: SavedBatchNorm<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> [FloatTensor<Self>; 3] {
        let SavedBatchNorm { x, gamma, output, statistics } = &saved;
        let rows = grad.shape()[0];
        let channels = columns(&grad);
        with_type_of!(grad, T => {
            let saved = batch_norm_kernels::Saved {
                x: &T::of(x),
                gamma: &T::of(gamma),
                output: &T::of(output),
                statistics: &T::of(statistics),
            };
            let [x, gamma, beta] = batch_norm_kernels::backward(saved, &T::of(&grad), normalization);
            [tensor(x, [rows, channels]), tensor(gamma, [channels]), tensor(beta, [channels])]
        })
    }

    fn row_statistics(x: FloatTensor<Self>) -> RowStatistics {
        let channels = columns(&x);
        let values = with_type_of!(x, T => in_f64(&batch_norm_kernels::statistics(&T::of(&x), channels)));
        RowStatistics::from_values(x.shape()[0], values)
    }

    fn normalize_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        statistics: &RowStatistics,
        normalization: BatchNormalization,
    ) -> FloatTensor<Self> {
        let shape = [x.shape()[0], columns(&x)];
        with_type_of!(x, T => {
            let statistics: Vec<T> = statistics.values().map(T::from_f64).collect();
            let [x, gamma, beta] = [&x, &gamma, &beta].map(T::of);
            tensor(batch_norm_kernels::normalize(&x, &gamma, &beta, &statistics, normalization), shape)
        })
    }

    fn gradient_sums(
        rows: &NormalizedRows<Self>,
        grad: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> Vec<f64> {
        with_type_of!(grad, T => {
            let statistics: Vec<T> = rows.statistics.values().map(T::from_f64).collect();
            let saved = batch_norm_kernels::Saved {
                x: &T::of(&rows.x),
                gamma: &T::of(&rows.gamma),
                output: &T::of(&rows.output),
                statistics: &statistics,
            };
            in_f64(&batch_norm_kernels::gradient_sums(saved, &T::of(&grad), normalization))
        })
    }

    fn gradient_of_rows(
        rows: NormalizedRows<Self>,
        grad: FloatTensor<Self>,
        means: &[f64],
        normalization: BatchNormalization,
    ) -> FloatTensor<Self> {
        let shape = [grad.shape()[0], columns(&grad)];
        with_type_of!(grad, T => {
            let statistics: Vec<T> = rows.statistics.values().map(T::from_f64).collect();
            let means: Vec<T> = means.iter().map(|&mean| T::from_f64(mean)).collect();
            let saved = batch_norm_kernels::Saved {
                x: &T::of(&rows.x),
                gamma: &T::of(&rows.gamma),
                output: &T::of(&rows.output),
                statistics: &statistics,
            };
            tensor(batch_norm_kernels::gradient_of_rows(saved, &T::of(&grad), &means, normalization), shape)
        })
    }

    fn attention_forward(
        inputs: &AttentionTensors<Self>,
        attention: &Attention,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let width = columns(&inputs[0]);
        let heads = attention.heads();
        with_type_of!(inputs[0], T => {
            let values = inputs.each_ref().map(T::of);
            let (output, weights) = attention_kernels::forward(values.each_ref().map(|v| &**v), width, attention);
            let entries = weights.len() / heads;
            (tensor(output, [attention.block().num_dst(), width]), tensor(weights, [entries, heads]))
        })
    }

    fn attention_backward(
        saved: SavedAttention<Self>,
        grad: FloatTensor<Self>,
        attention: &Attention,
    ) -> AttentionTensors<Self> {
        let width = columns(&grad);
        with_type_of!(grad, T => {
            let values = saved.inputs.each_ref().map(T::of);
            let values = values.each_ref().map(|v| &**v);
            let weights = T::of(&saved.weights);
            let gradients = attention_kernels::backward(values, &weights, &T::of(&grad), width, attention);
            let mut shapes = saved.inputs.iter().map(|input| input.shape().iter().copied().collect::<Vec<_>>());
            gradients.map(|gradient| tensor(gradient, shapes.next().expect("one gradient per input")))
        })
    }

    fn edge_scores(
        of_dst: FloatTensor<Self>,
        of_src: FloatTensor<Self>,
        heads: usize,
        block: &Block,
    ) -> FloatTensor<Self> {
        let width = columns(&of_src);
        with_type_of!(of_src, T => {
            let rows = [T::of(&of_dst), T::of(&of_src)];
            let [of_dst, of_src] = rows.each_ref().map(|values| HeadRows { values, width, heads });
            tensor(head_kernels::edge_scores(of_dst, of_src, block), [block.num_edges(), heads])
        })
    }

    fn weigh_sources(weights: FloatTensor<Self>, of_src: FloatTensor<Self>, block: &Block) -> FloatTensor<Self> {
        let heads = columns(&weights);
        let width = columns(&of_src);
        with_type_of!(of_src, T => {
            let of_src = HeadRows { values: &T::of(&of_src), width, heads };
            tensor(head_kernels::weigh_sources(&T::of(&weights), of_src, block), [block.num_dst(), width])
        })
    }

    fn weigh_destinations(weights: FloatTensor<Self>, of_dst: FloatTensor<Self>, block: &Block) -> FloatTensor<Self> {
        let heads = columns(&weights);
        let width = columns(&of_dst);
        with_type_of!(of_dst, T => {
            let of_dst = HeadRows { values: &T::of(&of_dst), width, heads };
            tensor(head_kernels::weigh_destinations(&T::of(&weights), of_dst, block), [block.num_src(), width])
        })
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, SavedCrossEntropy<Self>) {
        let rows = logits.shape()[0];
        let (judged, log_sums) = with_type_of!(logits, T => {
            let (judged, log_sums) = cross_entropy::forward(&T::of(&logits), &integers(&classes));
            (tensor(judged.to_vec(), [2]), tensor(log_sums, [rows]))
        });
        (judged, SavedCrossEntropy { logits, classes, log_sums })
    }

    fn cross_entropy_backward(saved: SavedCrossEntropy<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let SavedCrossEntropy { logits, classes, log_sums } = &saved;
        let shape = [logits.shape()[0], columns(logits)];
        with_type_of!(grad, T => {
            let classes = integers(classes);
            tensor(cross_entropy::backward(&T::of(logits), &classes, &T::of(log_sums), T::of(&grad)[0]), shape)
        })
    }

    fn dropout_multiply(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        change_in_place!(x, values => mask.apply(values))
    }

    fn relu_forward(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        change_in_place!(x, values => dense::activate(values, mask))
    }

    fn relu_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        let shape: Vec<usize> = grad.shape().iter().copied().collect();
        with_type_of!(grad, T => tensor(dense::before_activation(&T::of(&output), &T::of(&grad), mask), shape))
    }
}

fn tensor<T: Real>(values: Vec<T>, shape: impl Into<Vec<usize>>) -> NdArrayTensor {
    NdArrayTensor::from_data(TensorData::new(values, shape.into()))
}

/// Changes the elements of an array in row-major order.
fn change_array<T: Real>(array: SharedArray<T>, change: impl FnOnce(&mut [T])) -> NdArrayTensor
where
    NdArrayTensor: From<SharedArray<T>>,
{
    let mut owned = match array.try_into_owned_nocopy() {
        Ok(owned) if owned.is_standard_layout() => owned,
        Ok(owned) => owned.as_standard_layout().into_owned(),
        Err(shared) => shared.as_standard_layout().into_owned(),
    };
    change(owned.as_slice_mut().expect("an array in standard layout is contiguous"));
    NdArrayTensor::from(owned.into_shared())
}

fn in_f64<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.elem::<f64>()).collect()
}

fn columns(matrix: &NdArrayTensor) -> usize {
    matrix.shape()[1]
}

fn linear_shape(x: &NdArrayTensor, weight: &NdArrayTensor) -> Shape {
    Shape { rows: x.shape()[0], fan_in: weight.shape()[0], fan_out: weight.shape()[1] }
}

/// Returns the values of an integer tensor.
fn integers(tensor: &NdArrayTensor) -> Vec<usize> {
    match tensor {
        NdArrayTensor::I64(storage) => storage.view().iter().map(|&value| value as usize).collect(),
        NdArrayTensor::I32(storage) => storage.view().iter().map(|&value| value as usize).collect(),
        other => unreachable!("classes are integers of 32 or 64 bits, got {other:?}"),
    }
}

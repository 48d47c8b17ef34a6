//! The kernels on burn's CPU backend.

use burn::tensor::TensorData;
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn_ndarray::{FloatNdArrayElement, IntNdArrayElement, NdArray, NdArrayTensor, QuantElement, SharedArray};

use super::aggregate::{Aggregate, GnnBackend, GnnKernels};
use super::dropout::DropoutMask;
use super::kernels;

/// Calls `$body` with `$slice` bound to the tensor's elements in row-major order, copied only if they lie otherwise.
macro_rules! with_slice {
    ($tensor:expr, $slice:ident => $body:expr) => {
        match $tensor {
            NdArrayTensor::F32(storage) => {
                let view = storage.view();
                let array = view.as_standard_layout();
                let $slice = array.as_slice().expect("the standard layout is contiguous");
                $body
            }
            NdArrayTensor::F64(storage) => {
                let view = storage.view();
                let array = view.as_standard_layout();
                let $slice = array.as_slice().expect("the standard layout is contiguous");
                $body
            }
            other => unreachable!("burn-ndarray has no float tensor such as {other:?}"),
        }
    };
}

/// Applies a mask in the tensor's own memory if nobody else holds it, in a copy otherwise.
macro_rules! mask_in_place {
    ($storage:expr, $mask:expr) => {{
        let array = $storage.into_shared();
        let mut owned = match array.try_into_owned_nocopy() {
            Ok(owned) if owned.is_standard_layout() => owned,
            Ok(owned) => owned.as_standard_layout().into_owned(),
            Err(shared) => shared.as_standard_layout().into_owned(),
        };
        let values = owned.as_slice_mut().expect("the standard layout is contiguous");
        $mask.apply(values);
        NdArrayTensor::from(owned.into_shared())
    }};
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> GnnKernels for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>>,
    NdArrayTensor: From<SharedArray<I>>,
{
    fn aggregate_forward(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
        let width = columns(&x);
        let shape = [aggregate.block().num_dst(), aggregate.output_width(width)];
        let data = with_slice!(x, x => TensorData::new(kernels::forward(x, width, aggregate), shape));
        NdArrayTensor::from_data(data)
    }

    fn aggregate_forward_argmax(x: FloatTensor<Self>, aggregate: &Aggregate) -> (FloatTensor<Self>, IntTensor<Self>) {
        let width = columns(&x);
        let num_dst = aggregate.block().num_dst();
        let (output, argmax) = with_slice!(x, x => {
            let (output, argmax) = kernels::forward_argmax(x, width, aggregate);
            (TensorData::new(output, [num_dst, aggregate.output_width(width)]), argmax)
        });
        (NdArrayTensor::from_data(output), NdArrayTensor::from_data(TensorData::new(argmax, [num_dst, width])))
    }

    fn aggregate_backward(
        grad: FloatTensor<Self>,
        argmax: Option<IntTensor<Self>>,
        aggregate: &Aggregate,
    ) -> FloatTensor<Self> {
        let width = if aggregate.appends_self() { columns(&grad) / 2 } else { columns(&grad) };
        let shape = [aggregate.block().num_src(), width];
        let argmax_view = match &argmax {
            Some(NdArrayTensor::U32(storage)) => Some(storage.view()),
            _ => None,
        };
        let argmax = argmax_view.as_ref().and_then(|view| view.as_slice());
        let data = with_slice!(grad, grad => TensorData::new(kernels::backward(grad, argmax, width, aggregate), shape));
        NdArrayTensor::from_data(data)
    }

    fn dropout_multiply(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        match x {
            NdArrayTensor::F32(storage) => mask_in_place!(storage, mask),
            NdArrayTensor::F64(storage) => mask_in_place!(storage, mask),
            other => unreachable!("burn-ndarray has no float tensor such as {other:?}"),
        }
    }
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> GnnBackend for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>>,
    NdArrayTensor: From<SharedArray<I>>,
{
    fn gnn_aggregate(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
        Self::aggregate_forward(x, aggregate)
    }

    fn gnn_dropout(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        Self::dropout_multiply(x, mask)
    }
}

fn columns(matrix: &NdArrayTensor) -> usize {
    use burn::tensor::TensorMetadata;
    matrix.shape()[1]
}

//! The interface between models and backends.

use burn::tensor::backend::{AutodiffBackend, Backend, BackendTypes};
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorPrimitive};

use super::gnn_kernels::GnnKernels;
use super::operation::Operation;

/// A backend that the models of this crate run on.
///
/// Every backend that implements [`GnnKernels`] implements it, and so does `Autodiff` of such a backend. There, the
/// outputs of operations have gradients.
///
/// ```
/// use burn::backend::{Autodiff, NdArray};
/// use edgecut_gnn::ops::{GnnBackend, GnnKernels};
/// fn has_own_memory<B: GnnBackend>() -> bool {
///     B::Kernels::HAS_OWN_MEMORY
/// }
/// assert!(!has_own_memory::<NdArray>() && !has_own_memory::<Autodiff<NdArray>>());
/// ```
pub trait GnnBackend: Backend {
    /// The plain backend with the kernels.
    type Kernels: GnnKernels<Device = Self::Device, IntTensorPrimitive = Self::IntTensorPrimitive>;

    /// Computes a fused operation of this crate. Returns its output, and its outputs without gradients.
    fn compute<O, const N: usize>(operation: O, inputs: [FloatTensor<Self>; N]) -> (FloatTensor<Self>, O::Extra)
    where
        O: Operation<Self::Kernels, N>;

    /// Converts a tensor of the plain backend into a tensor without gradient.
    fn from_plain(tensor: FloatTensor<Self::Kernels>) -> FloatTensor<Self>;

    /// Converts a tensor into one of the plain backend, which has no gradient.
    fn into_plain(tensor: FloatTensor<Self>) -> FloatTensor<Self::Kernels>;
}

impl<K: GnnKernels> GnnBackend for K {
    type Kernels = Self;

    fn compute<O, const N: usize>(operation: O, inputs: [FloatTensor<Self>; N]) -> (FloatTensor<Self>, O::Extra)
    where
        O: Operation<Self, N>,
    {
        let forward = operation.forward(inputs, false);
        (forward.output, forward.extra)
    }

    fn from_plain(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        tensor
    }

    fn into_plain(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        tensor
    }
}

/// Computes an operation on the primitives of tensors, and returns its output as a tensor with `D` dimensions.
pub(super) fn compute<B: GnnBackend, O, const N: usize, const D: usize>(
    operation: O,
    inputs: [TensorPrimitive<B>; N],
) -> (Tensor<B, D>, O::Extra)
where
    O: Operation<B::Kernels, N>,
{
    let (output, extra) = B::compute(operation, inputs.map(TensorPrimitive::tensor));
    (Tensor::from_primitive(TensorPrimitive::Float(output)), extra)
}

/// Returns a tensor of the plain backend as a tensor without gradient.
pub fn constant<B: GnnBackend, const D: usize>(tensor: FloatTensor<B::Kernels>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(B::from_plain(tensor)))
}

/// An autodiff backend of a GNN backend on the same device, which training needs.
pub trait AutodiffGnnBackend:
    GnnBackend + AutodiffBackend<InnerBackend: GnnBackend + Backend<Device = <Self as BackendTypes>::Device>>
{
}

impl<B> AutodiffGnnBackend for B where
    B: GnnBackend + AutodiffBackend<InnerBackend: GnnBackend + Backend<Device = <B as BackendTypes>::Device>>
{
}

//! An operation with gradients, stated once for all backends.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use std::fmt::Debug;

use super::gnn_kernels::GnnKernels;

/// An operation with `N` float tensors as input, computed by the kernels of a plain backend `K`.
///
/// The value that implements the trait holds the settings of the operation and its inputs without gradients.
/// `GnnBackend::compute` runs the operation, and `Autodiff` calls the backward pass.
pub trait Operation<K: GnnKernels, const N: usize>: Clone + Debug + Send + 'static {
    /// The tensors that the forward pass keeps for the backward pass.
    type Saved: Clone + Debug + Send + 'static;
    /// The outputs without gradients.
    type Extra;

    /// Computes the output. `for_backward` is true if a backward pass may follow.
    fn forward(&self, inputs: [FloatTensor<K>; N], for_backward: bool) -> Forward<K, Self::Saved, Self::Extra>;

    /// Computes the gradients of the inputs from the gradient of the output. `wanted` tells which inputs need one.
    fn backward(self, saved: Self::Saved, grad: FloatTensor<K>, wanted: [bool; N]) -> [Option<FloatTensor<K>>; N];
}

/// The result of the forward pass of an [`Operation`].
#[derive(Debug)]
pub struct Forward<K: Backend, S, E = ()> {
    /// The output with gradients.
    pub output: FloatTensor<K>,
    /// See [`Operation::Extra`].
    pub extra: E,
    /// See [`Operation::Saved`]. It is read only if the pass was computed `for_backward`.
    pub saved: S,
}

//! A dense layer as one operation: product, bias, activation and dropout.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;

use super::dropout::DropoutMask;
use super::gnn_backend::{GnnBackend, compute};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};
use super::precision::Precision;

/// The elementwise function that a dense layer applies to its sums.
///
/// ```
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_gnn::ops::{Activation, DropoutKey, DropoutMask};
/// let relu = Activation::Relu(DropoutMask::new(0.0, DropoutKey::new(0, 0, 0)));
/// let x = Tensor::<NdArray, 1>::from_data([-1.0, 2.0], &Default::default());
/// assert_eq!(relu.apply(x).into_data(), TensorData::from([0.0f32, 2.0]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// No change.
    Identity,
    /// ReLU, then dropout. NaN stays NaN.
    Relu(DropoutMask),
}

impl Activation {
    /// Applies the activation to a tensor. [`linear`] applies it to its own output.
    ///
    /// # Shapes
    /// - `x` and output: any
    pub fn apply<B: GnnBackend, const D: usize>(self, x: Tensor<B, D>) -> Tensor<B, D> {
        match self {
            Self::Identity => x,
            // burn's ReLU turns NaN into zero on the CPU, which would hide a diverged model.
            Self::Relu(mask) => compute(Relu(mask), [x.into_primitive()]).0,
        }
    }
}

/// ReLU, then dropout by the mask.
#[derive(Debug, Clone, Copy)]
struct Relu(DropoutMask);

impl<K: GnnKernels> Operation<K, 1> for Relu {
    /// The output. Its positive elements are those that ReLU passed and dropout kept.
    type Saved = FloatTensor<K>;
    type Extra = ();

    fn forward(&self, [x]: [FloatTensor<K>; 1], _: bool) -> Forward<K, Self::Saved> {
        let output = K::relu_forward(x, self.0);
        Forward { output: output.clone(), extra: (), saved: output }
    }

    fn backward(self, output: Self::Saved, grad: FloatTensor<K>, _: [bool; 1]) -> [Option<FloatTensor<K>>; 1] {
        [Some(<K as GnnKernels>::relu_backward(output, grad, self.0))]
    }
}

/// The settings of a dense layer's operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    /// The function of the sums.
    pub activation: Activation,
    /// The type of the factors of products, forwards and backwards.
    pub precision: Precision,
}

impl From<Activation> for Linear {
    /// Returns the settings with this activation and products in `f32`.
    fn from(activation: Activation) -> Self {
        Self { activation, precision: Precision::F32 }
    }
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

impl<K: GnnKernels> Operation<K, 3> for Linear {
    type Saved = SavedLinear<K>;
    type Extra = ();

    fn forward(&self, [x, weight, bias]: [FloatTensor<K>; 3], _: bool) -> Forward<K, Self::Saved> {
        let output = K::linear_forward(x.clone(), weight.clone(), bias, *self);
        Forward { output: output.clone(), extra: (), saved: SavedLinear { x, weight, output } }
    }

    fn backward(self, saved: Self::Saved, grad: FloatTensor<K>, wanted: [bool; 3]) -> [Option<FloatTensor<K>>; 3] {
        let [wants_x, ..] = wanted;
        let LinearGradients { x, weight, bias } = K::linear_backward(saved, grad, self, wants_x);
        [x, Some(weight), Some(bias)]
    }
}

/// Computes `activation(x · weight + bias)` in one pass over the rows while they are in cache. The backward pass is one
/// pass as well. Without a bias, zeros are added.
///
/// # Shapes
/// - `x`: `[rows, in]`
/// - `weight`: `[in, out]`
/// - `bias`: `[out]`
/// - output: `[rows, out]`
///
/// # Panics
/// If the shapes do not match.
pub fn linear<B: GnnBackend>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
    settings: impl Into<Linear>,
) -> Tensor<B, 2> {
    let [_, width] = x.dims();
    let [fan_in, fan_out] = weight.dims();
    assert_eq!(width, fan_in, "linear: columns of x against rows of the weight");
    let bias = bias.unwrap_or_else(|| Tensor::zeros([fan_out], (&x.device(), weight.dtype())));
    assert_eq!(bias.dims(), [fan_out], "linear: length of the bias against columns of the weight");
    compute(settings.into(), [x.into_primitive(), weight.into_primitive(), bias.into_primitive()]).0
}

/// Computes `a · b` and its gradients in full `f32` precision, also on GPUs whose tensor cores would round `f32`.
///
/// # Shapes
/// - `a`: `[rows, inner]`
/// - `b`: `[inner, columns]`
/// - output: `[rows, columns]`
pub fn matmul<B: GnnBackend>(a: Tensor<B, 2>, b: Tensor<B, 2>) -> Tensor<B, 2> {
    if B::Kernels::HAS_OWN_MEMORY { linear(a, b, None, Activation::Identity) } else { a.matmul(b) }
}

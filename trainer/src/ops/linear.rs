//! A dense layer as one operation: product, bias, activation and dropout.

use burn::tensor::{Tensor, TensorPrimitive};

use super::aggregate::GnnBackend;
use super::dropout::DropoutMask;
use super::precision::{Precision, multiplying_in};

/// The elementwise function that a dense layer applies to its sums.
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
            Self::Relu(mask) => {
                Tensor::from_primitive(TensorPrimitive::Float(B::gnn_relu(x.into_primitive().tensor(), mask)))
            }
        }
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
///
/// ```
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_trainer::ops::{Activation, DropoutKey, DropoutMask, linear};
/// let device = Default::default();
/// let x = Tensor::<NdArray, 2>::from_data([[1.0, 2.0], [0.0, -1.0]], &device);
/// let weight = Tensor::from_data([[1.0], [1.0]], &device);
/// let relu = Activation::Relu(DropoutMask::new(0.0, DropoutKey::new(0, 0, 0)));
/// let y = linear(x, weight, Some(Tensor::from_data([0.5], &device)), relu);
/// assert_eq!(y.into_data(), TensorData::from([[3.5f32], [0.0]]));
/// ```
pub fn linear<B: GnnBackend>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
    activation: Activation,
) -> Tensor<B, 2> {
    let [_, width] = x.dims();
    let [fan_in, fan_out] = weight.dims();
    assert_eq!(width, fan_in, "linear: columns of x against rows of the weight");
    let bias = bias.unwrap_or_else(|| Tensor::zeros([fan_out], &x.device()));
    assert_eq!(bias.dims(), [fan_out], "linear: length of the bias against columns of the weight");
    let float = |primitive: TensorPrimitive<B>| primitive.tensor();
    let x = float(x.into_primitive());
    let weight = float(weight.into_primitive());
    let bias = float(bias.into_primitive());
    Tensor::from_primitive(TensorPrimitive::Float(B::gnn_linear(x, weight, bias, activation)))
}

/// Computes `a · b` and its gradients in full `f32` precision.
///
/// This holds even if dense layers multiply in a lower precision ([`multiply_in`](super::multiply_in)), and on GPUs
/// whose tensor cores would round `f32`.
///
/// # Shapes
/// - `a`: `[rows, inner]`
/// - `b`: `[inner, columns]`
/// - output: `[rows, columns]`
pub(crate) fn matmul<B: GnnBackend>(a: Tensor<B, 2>, b: Tensor<B, 2>) -> Tensor<B, 2> {
    if B::HAS_OWN_MEMORY {
        multiplying_in(Precision::F32, || linear(a, b, None, Activation::Identity))
    } else {
        a.matmul(b)
    }
}

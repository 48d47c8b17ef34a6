//! A dense layer as one operation: product, bias, activation and dropout.

use burn::tensor::{Tensor, TensorPrimitive};

use super::aggregate::GnnBackend;
use super::dropout::DropoutMask;
use super::precision::{Precision, multiplying_in};

/// What a dense layer does to its sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// Nothing.
    Identity,
    /// The positive part, then dropout; a NaN stays one.
    Relu(DropoutMask),
}

impl Activation {
    /// Applies it to a tensor that no [`linear`] has made.
    ///
    /// # Shapes
    /// - `x` and output: any
    pub fn apply<B: GnnBackend, const D: usize>(self, x: Tensor<B, D>) -> Tensor<B, D> {
        match self {
            Self::Identity => x,
            // burn's own ReLU makes zeros of NaNs on the CPU.
            Self::Relu(mask) => {
                Tensor::from_primitive(TensorPrimitive::Float(B::gnn_relu(x.into_primitive().tensor(), mask)))
            }
        }
    }
}

/// `activation(x · weight + bias)`, in one pass over the rows while they are in cache, and so its backward pass.
///
/// # Shapes
/// - `x`: `[rows, in]`
/// - `weight`: `[in, out]`
/// - `bias`: `[out]`
/// - output: `[rows, out]`
///
/// # Panics
/// If the shapes do not fit each other.
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
    let ([_, width], [fan_in, fan_out]) = (x.dims(), weight.dims());
    assert_eq!(width, fan_in, "linear: columns of x against rows of the weight");
    let bias = bias.unwrap_or_else(|| Tensor::zeros([fan_out], &x.device()));
    assert_eq!(bias.dims(), [fan_out], "linear: length of the bias against columns of the weight");
    let float = |primitive: TensorPrimitive<B>| primitive.tensor();
    let (x, weight, bias) = (float(x.into_primitive()), float(weight.into_primitive()), float(bias.into_primitive()));
    Tensor::from_primitive(TensorPrimitive::Float(B::gnn_linear(x, weight, bias, activation)))
}

/// `a · b` in the precision of `f32`, and its gradients too, also where dense layers multiply in less
/// ([`multiply_in`](super::multiply_in)), and on GPUs whose tensor cores would round.
///
/// # Shapes
/// - `a`: `[rows, inner]`
/// - `b`: `[inner, columns]`
/// - output: `[rows, columns]`
pub(crate) fn matmul<B: GnnBackend>(a: Tensor<B, 2>, b: Tensor<B, 2>) -> Tensor<B, 2> {
    match B::HAS_OWN_MEMORY {
        true => multiplying_in(Precision::F32, || linear(a, b, None, Activation::Identity)),
        false => a.matmul(b),
    }
}

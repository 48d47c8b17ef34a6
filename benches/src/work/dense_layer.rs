//! The dense layers to compare: the fused layer of the models, and a sequence of burn's operations.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use edgecut_gnn::ops::{Activation, DropoutKey, DropoutMask, GnnBackend, Linear, Precision, dropout, linear};

/// A dense layer with ReLU and dropout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenLayer {
    /// The probability of dropout.
    pub(crate) dropout: f64,
    /// The type in which the fused layer multiplies.
    pub(crate) precision: Precision,
}

impl HiddenLayer {
    fn key() -> DropoutKey {
        DropoutKey::new(0, 0, 0)
    }

    /// Computes `dropout(relu(x · weight + bias))` as one operation.
    ///
    /// # Shapes
    /// - `x`: `[rows, in]`, `weight`: `[in, out]`, `bias`: `[out]`
    /// - output: `[rows, out]`
    pub(crate) fn fused<B: GnnBackend>(
        self,
        x: Tensor<B, 2>,
        weight: Tensor<B, 2>,
        bias: Tensor<B, 1>,
    ) -> Tensor<B, 2> {
        let activation = Activation::Relu(DropoutMask::new(self.dropout, Self::key()));
        linear(x, weight, Some(bias), Linear { activation, precision: self.precision })
    }

    /// Computes the same with separate operations.
    pub(crate) fn plain<B: GnnBackend>(
        self,
        x: Tensor<B, 2>,
        weight: Tensor<B, 2>,
        bias: Tensor<B, 1>,
    ) -> Tensor<B, 2> {
        dropout(relu(x.matmul(weight) + bias.unsqueeze()), self.dropout, Self::key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::synthetic::{Cpu, random_tensor};

    #[test]
    fn both_ways_give_the_same() {
        let x = random_tensor::<Cpu>(30, 20, 1);
        let weight = random_tensor::<Cpu>(20, 10, 2);
        let bias = random_tensor::<Cpu>(1, 10, 3).reshape([10]);
        let layer = HiddenLayer { dropout: 0.5, precision: Precision::F32 };
        let fused = layer.fused(x.clone(), weight.clone(), bias.clone());
        let difference = (fused - layer.plain(x, weight, bias)).abs().max();
        assert!(difference.into_scalar() < 1e-5);
    }
}

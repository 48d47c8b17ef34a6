//! RotatE.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

use super::{DecoderSettings, EdgeEnd, LinkDecoder, LinkDecoderShape, check_even, complex_product, halves};
use crate::nn::WeightInit;
use crate::ops::{GnnBackend, select_rows};

/// Added to squared moduli, so that their roots have gradients at 0.
const EPSILON: f64 = 1e-12;

/// The settings of [`RotatEDecoder`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RotatE {
    /// The score of a pair without distance.
    pub margin: f64,
}

impl Default for RotatE {
    fn default() -> Self {
        Self { margin: 12.0 }
    }
}

impl Named for RotatE {
    const NAME: &'static str = "rotate";
    const ABOUT: &'static str = "`margin` [12] minus the distance from the source, rotated by the relation, to the \
                                 destination as complex numbers (RotatE)";

    fn check(&self) -> Result<(), String> {
        if self.margin.is_finite() { Ok(()) } else { Err(format!("margin {} is not a finite number", self.margin)) }
    }
}

impl DecoderSettings for RotatE {
    fn check_channels(channels: usize) -> Result<(), String> {
        check_even(Self::NAME, channels)
    }
}

/// `margin - Σ |source · relation - destination|` of complex numbers, with a learned angle per edge type and complex
/// number (Sun et al., "RotatE: Knowledge graph embedding by relational rotation in complex space", ICLR 2019). The first
/// half of a row are real parts, the second half imaginary parts.
#[derive(Module, Debug)]
pub struct RotatEDecoder<B: Backend> {
    /// The angles in radians, `[edge types, channels / 2]`.
    pub relations: Param<Tensor<B, 2>>,
    margin: f64,
}

impl<B: Backend> RotatEDecoder<B> {
    pub(super) fn new(kind: RotatE, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let LinkDecoderShape { edge_types, channels } = shape;
        let relations = init.uniform([edge_types, channels / 2], std::f32::consts::PI, device);
        Self { relations, margin: kind.margin }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for RotatEDecoder<B> {
    const IS_PRODUCT: bool = false;

    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> Tensor<B, 2> {
        let angles = select_rows(&self.relations.val(), edge_types);
        let rotations = Tensor::cat(vec![angles.clone().cos(), angles.sin()], 1);
        // A rotation of the source has the same distance as the opposite rotation of the destination.
        complex_product(given, rotations, compared == EdgeEnd::Source)
    }

    fn compare(&self, queries: Tensor<B, 3>, rows: Tensor<B, 3>, _: EdgeEnd) -> Tensor<B, 2> {
        let [real, imaginary] = halves(queries - rows);
        let moduli = (real.powi_scalar(2) + imaginary.powi_scalar(2)).add_scalar(EPSILON).sqrt();
        moduli.sum_dim(2).squeeze_dim::<2>(2).neg().add_scalar(self.margin)
    }

    fn relations(&self) -> Option<Tensor<B, 2>> {
        Some(self.relations.val())
    }
}

//! ComplEx.

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

/// The settings of [`ComplExDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComplEx {}

impl Named for ComplEx {
    const NAME: &'static str = "complex";
    const ABOUT: &'static str = "product of source, relation and conjugate destination as complex numbers (ComplEx)";
}

impl DecoderSettings for ComplEx {
    const HAS_N3: bool = true;

    fn check_channels(channels: usize) -> Result<(), String> {
        check_even(Self::NAME, channels)
    }
}

/// `Re(Σ source · relation · conj(destination))` of complex numbers, with a learned row per edge type (Trouillon et al.,
/// "Complex embeddings for simple link prediction", ICML 2016). The first half of a row are real parts, the second half
/// imaginary parts. The N3 penalty has the moduli (Lacroix et al., "Canonical tensor decomposition for knowledge base
/// completion", ICML 2018).
#[derive(Module, Debug)]
pub struct ComplExDecoder<B: Backend> {
    /// `[edge types, channels]`
    pub relations: Param<Tensor<B, 2>>,
}

impl<B: Backend> ComplExDecoder<B> {
    pub(super) fn new(_: ComplEx, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        // Real parts around 1 give initial scores the magnitude of plain dot products, as for DistMult.
        let LinkDecoderShape { edge_types, channels } = shape;
        let real: Param<Tensor<B, 2>> = init.uniform_around([edge_types, channels / 2], 1.0, 1.0, device);
        let imaginary: Param<Tensor<B, 2>> = init.uniform([edge_types, channels / 2], 1.0, device);
        // From data, because a parameter must not be computed from other parameters.
        let relations = Tensor::cat(vec![real.val(), imaginary.val()], 1).into_data();
        Self { relations: Param::from_data(relations, device) }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for ComplExDecoder<B> {
    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> Tensor<B, 2> {
        // The score is the real product of `source · relation` and the destination, and of `destination ·
        // conj(relation)` and the source.
        let relations = select_rows(&self.relations.val(), edge_types);
        complex_product(given, relations, compared == EdgeEnd::Source)
    }

    fn relations(&self) -> Option<Tensor<B, 2>> {
        Some(self.relations.val())
    }

    fn cubes(&self, vectors: Tensor<B, 2>) -> Tensor<B, 1> {
        let [real, imaginary] = halves(vectors);
        let squares = real.powi_scalar(2) + imaginary.powi_scalar(2);
        let moduli = squares.clone().add_scalar(EPSILON).sqrt();
        (squares * moduli).sum_dim(1).squeeze_dim(1)
    }
}

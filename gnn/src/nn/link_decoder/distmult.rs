//! DistMult.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

use super::{DecoderSettings, EdgeEnd, LinkDecoder, LinkDecoderShape};
use crate::nn::WeightInit;
use crate::ops::{GnnBackend, select_rows};

/// The settings of [`DistMultDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DistMult {}

impl Named for DistMult {
    const NAME: &'static str = "distmult";
    const ABOUT: &'static str = "product of source, relation and destination, with a learned vector per edge type";
}

impl DecoderSettings for DistMult {
    const HAS_N3: bool = true;
}

/// `Σ source · relation · destination` with a learned row per edge type (Yang et al., "Embedding entities and relations
/// for learning and inference in knowledge bases", ICLR 2015).
#[derive(Module, Debug)]
pub struct DistMultDecoder<B: Backend> {
    /// `[edge types, channels]`
    pub relations: Param<Tensor<B, 2>>,
}

impl<B: Backend> DistMultDecoder<B> {
    pub(super) fn new(_: DistMult, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        // Relations are drawn around 1, so that the initial scores have the magnitude of plain dot products.
        Self { relations: init.uniform_around([shape.edge_types, shape.channels], 1.0, 1.0, device) }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for DistMultDecoder<B> {
    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], _: EdgeEnd) -> Tensor<B, 2> {
        given * select_rows(&self.relations.val(), edge_types)
    }

    fn relations(&self) -> Option<Tensor<B, 2>> {
        Some(self.relations.val())
    }
}

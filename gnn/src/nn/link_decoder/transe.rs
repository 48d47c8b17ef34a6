//! TransE.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

use super::{DecoderSettings, EdgeEnd, LinkDecoder, LinkDecoderShape};
use crate::nn::WeightInit;
use crate::ops::{GnnBackend, select_rows};

/// Added to squared distances, so that their roots have gradients at 0.
const EPSILON: f64 = 1e-12;

/// The settings of [`TransEDecoder`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransE {
    /// The score of a pair without distance.
    pub margin: f64,
    /// The norm of the distance, 1 or 2.
    pub norm: u8,
}

impl Default for TransE {
    fn default() -> Self {
        Self { margin: 12.0, norm: 1 }
    }
}

impl Named for TransE {
    const NAME: &'static str = "transe";
    const ABOUT: &'static str = "`margin` [12] minus the distance from source plus relation to destination, by the norm \
                                 `norm` [1] (TransE)";

    fn check(&self) -> Result<(), String> {
        if !matches!(self.norm, 1 | 2) {
            return Err(format!("norm {} is neither 1 nor 2", self.norm));
        }
        if !self.margin.is_finite() {
            return Err(format!("margin {} is not a finite number", self.margin));
        }
        Ok(())
    }
}

impl DecoderSettings for TransE {}

/// `margin - ‖source + relation - destination‖` with a learned row per edge type (Bordes et al., "Translating embeddings
/// for modeling multi-relational data", NIPS 2013).
#[derive(Module, Debug)]
pub struct TransEDecoder<B: Backend> {
    /// `[edge types, channels]`
    pub relations: Param<Tensor<B, 2>>,
    margin: f64,
    norm: u8,
}

impl<B: Backend> TransEDecoder<B> {
    pub(super) fn new(kind: TransE, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let LinkDecoderShape { edge_types, channels } = shape;
        let bound = WeightInit::kaiming_bound(channels);
        let relations = init.uniform([edge_types, channels], bound, device);
        Self { relations, margin: kind.margin, norm: kind.norm }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for TransEDecoder<B> {
    const IS_PRODUCT: bool = false;

    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> Tensor<B, 2> {
        let relations = select_rows(&self.relations.val(), edge_types);
        match compared {
            EdgeEnd::Destination => given + relations,
            EdgeEnd::Source => given - relations,
        }
    }

    fn compare(&self, queries: Tensor<B, 3>, rows: Tensor<B, 3>, _: EdgeEnd) -> Tensor<B, 2> {
        let differences = queries - rows;
        let distances = if self.norm == 1 {
            differences.abs().sum_dim(2)
        } else {
            differences.powi_scalar(2).sum_dim(2).add_scalar(EPSILON).sqrt()
        };
        distances.squeeze_dim::<2>(2).neg().add_scalar(self.margin)
    }

    fn relations(&self) -> Option<Tensor<B, 2>> {
        Some(self.relations.val())
    }
}

//! The decoder with a hidden layer.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

use super::{DecoderSettings, EdgeEnd, LinkDecoder, LinkDecoderShape};
use crate::nn::WeightInit;
use crate::ops::{GnnBackend, matmul, select_rows};

/// The settings of [`MlpDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MlpLink {}

impl Named for MlpLink {
    const NAME: &'static str = "mlp";
    const ABOUT: &'static str =
        "network with a hidden layer over both rows and their product, with a bias per edge type";
}

impl DecoderSettings for MlpLink {}

/// `relu(source · A + destination · B + (source ∘ destination) · C + bias) · output`, with a learned bias of the hidden
/// layer per edge type. Each pair multiplies its product of rows with `C`, so that scores of all pairs cost more than
/// with other decoders.
#[derive(Module, Debug)]
pub struct MlpDecoder<B: Backend> {
    /// `A`, `[channels, channels]`
    pub source: Param<Tensor<B, 2>>,
    /// `B`, `[channels, channels]`
    pub destination: Param<Tensor<B, 2>>,
    /// `C`, `[channels, channels]`
    pub product: Param<Tensor<B, 2>>,
    /// The biases of the hidden layer, `[edge types, channels]`.
    pub relations: Param<Tensor<B, 2>>,
    /// The weights of the hidden layer in the score, `[channels, 1]`.
    pub output: Param<Tensor<B, 2>>,
}

impl<B: Backend> MlpDecoder<B> {
    pub(super) fn new(_: MlpLink, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let LinkDecoderShape { edge_types, channels } = shape;
        // The bounds of a layer over all three inputs.
        let bound = WeightInit::kaiming_bound(channels.saturating_mul(3));
        Self {
            source: init.uniform([channels, channels], bound, device),
            destination: init.uniform([channels, channels], bound, device),
            product: init.uniform([channels, channels], bound, device),
            relations: init.uniform([edge_types, channels], bound, device),
            output: init.uniform([channels, 1], WeightInit::kaiming_bound(channels), device),
        }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for MlpDecoder<B> {
    const IS_PRODUCT: bool = false;

    /// Returns the given rows, and beside them their share of the hidden layer.
    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> Tensor<B, 2> {
        let weight = match compared {
            EdgeEnd::Destination => &self.source,
            EdgeEnd::Source => &self.destination,
        };
        let hidden = matmul(given.clone(), weight.val()) + select_rows(&self.relations.val(), edge_types);
        Tensor::cat(vec![given, hidden], 1)
    }

    fn compare(&self, queries: Tensor<B, 3>, rows: Tensor<B, 3>, compared: EdgeEnd) -> Tensor<B, 2> {
        let [edges, _, width] = queries.dims();
        let [groups, num, channels] = rows.dims();
        let weight = match compared {
            EdgeEnd::Destination => &self.destination,
            EdgeEnd::Source => &self.source,
        };
        let given = queries.clone().narrow(2, 0, channels);
        let of_given = queries.narrow(2, channels, width - channels);
        let of_rows = matmul(rows.clone().reshape([groups * num, channels]), weight.val());
        let products = (given * rows).reshape([edges * num, channels]);
        let of_products = matmul(products, self.product.val()).reshape([edges, num, channels]);
        let hidden = relu(of_products + of_rows.reshape([groups, num, channels]) + of_given);
        matmul(hidden.reshape([edges * num, channels]), self.output.val()).reshape([edges, num])
    }

    fn relations(&self) -> Option<Tensor<B, 2>> {
        Some(self.relations.val())
    }
}

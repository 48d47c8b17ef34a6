//! The dot product.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use super::{DecoderSettings, EdgeEnd, LinkDecoder, LinkDecoderShape};
use crate::nn::WeightInit;
use crate::ops::GnnBackend;

/// The settings of [`DotDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dot {}

impl Named for Dot {
    const NAME: &'static str = "dot";
    const ABOUT: &'static str = "dot product of both rows, for every edge type";
}

impl DecoderSettings for Dot {
    const IS_RELATIONAL: bool = false;
    const HAS_N3: bool = true;
}

/// The dot product of both rows, for every edge type.
#[derive(Module, Debug)]
pub struct DotDecoder<B: Backend> {
    backend: PhantomData<B>,
}

impl<B: Backend> DotDecoder<B> {
    pub(super) fn new(_: Dot, _: LinkDecoderShape, _: &mut WeightInit, _: &B::Device) -> Self {
        Self { backend: PhantomData }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for DotDecoder<B> {
    fn query(&self, given: Tensor<B, 2>, _: &[u16], _: EdgeEnd) -> Tensor<B, 2> {
        given
    }
}

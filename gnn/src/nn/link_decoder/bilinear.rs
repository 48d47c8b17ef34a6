//! The bilinear decoder.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

use super::{DecoderSettings, EdgeEnd, LinkDecoder, LinkDecoderShape};
use crate::nn::WeightInit;
use crate::ops::{GnnBackend, matmul, select_rows};

/// The settings of [`BilinearDecoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bilinear {}

impl Named for Bilinear {
    const NAME: &'static str = "bilinear";
    const ABOUT: &'static str = "product of source, a learned matrix per edge type, and destination (RESCAL)";
}

impl DecoderSettings for Bilinear {}

/// `source · W · destination` with a learned matrix per edge type (Nickel et al., "A three-way model for collective
/// learning on multi-relational data", ICML 2011).
#[derive(Module, Debug)]
pub struct BilinearDecoder<B: Backend> {
    /// `[edge types, channels * channels]`: the matrix of each edge type, row after row.
    pub relations: Param<Tensor<B, 2>>,
}

impl<B: Backend> BilinearDecoder<B> {
    pub(super) fn new(_: Bilinear, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let LinkDecoderShape { edge_types, channels } = shape;
        let bound = WeightInit::kaiming_bound(channels);
        Self { relations: init.uniform([edge_types, channels.saturating_mul(channels)], bound, device) }
    }
}

impl<B: GnnBackend> LinkDecoder<B> for BilinearDecoder<B> {
    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> Tensor<B, 2> {
        // The edges of each type are multiplied with its matrix together.
        let [edges, channels] = given.dims();
        let mut order: Vec<usize> = (0..edges).collect();
        order.sort_by_key(|&edge| edge_types[edge]);
        let mut position = vec![0_i64; edges];
        for (at, &edge) in order.iter().enumerate() {
            position[edge] = at as i64;
        }
        let mut queries = Vec::new();
        for of_type in order.chunk_by(|&a, &b| edge_types[a] == edge_types[b]) {
            let wanted: Vec<i64> = of_type.iter().map(|&edge| edge as i64).collect();
            let rows = select_rows(&given, &wanted);
            let edge_type = usize::from(edge_types[of_type[0]]);
            let matrix = self.relations.val().narrow(0, edge_type, 1).reshape([channels, channels]);
            let matrix = if compared == EdgeEnd::Source { matrix.transpose() } else { matrix };
            queries.push(matmul(rows, matrix));
        }
        match queries.len() {
            0 => given,
            1 => queries.remove(0),
            _ => select_rows(&Tensor::cat(queries, 0), &position),
        }
    }

    fn relations(&self) -> Option<Tensor<B, 2>> {
        Some(self.relations.val())
    }
}

//! The decoder of link prediction: scores of node pairs.

use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

use super::weight_init::WeightInit;

/// The formula of the score of a node pair.
///
/// ```
/// use edgecut_gnn::nn::DecoderKind;
/// assert_eq!("distmult".parse(), Ok(DecoderKind::DistMult));
/// assert_eq!(DecoderKind::Dot.to_string(), "dot");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecoderKind {
    /// The dot product of both rows, for every edge type.
    Dot,
    /// `Σ source · relation · destination` with a learned row per edge type (Yang et al., "Embedding entities and
    /// relations for learning and inference in knowledge bases", ICLR 2015).
    DistMult,
}

impl DecoderKind {
    /// Returns whether the score of a pair depends on the type of the edge.
    pub fn is_relational(self) -> bool {
        match self {
            Self::Dot => false,
            Self::DistMult => true,
        }
    }
}

words!(DecoderKind, "decoder", Dot = "dot", DistMult = "distmult");

/// The decoder of a link model, which scores node pairs.
///
/// Both kinds are the dot product of a destination's row with a query vector. The query depends on the source and the
/// edge type only, so many destinations are scored by one matrix product.
///
/// ```
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_gnn::nn::{DecoderKind, LinkDecoder, WeightInit};
/// let device = Default::default();
/// let decoder = LinkDecoder::<NdArray>::new(DecoderKind::Dot, 1, 2, &mut WeightInit::new(0), &device);
/// let source = Tensor::from_data([[1.0, 2.0]], &device);
/// let destinations = Tensor::from_data([[3.0, 1.0], [0.0, 1.0]], &device);
/// let query = decoder.query(source, &[0]);
/// assert_eq!(query.matmul(Tensor::transpose(destinations)).into_data(), TensorData::from([[5.0f32, 2.0]]));
/// ```
#[derive(Module, Debug)]
pub struct LinkDecoder<B: Backend> {
    /// `[edge types, channels]`, for [`DecoderKind::DistMult`] only.
    pub relations: Option<Param<Tensor<B, 2>>>,
}

impl<B: Backend> LinkDecoder<B> {
    /// Makes a decoder of rows with `channels` columns.
    pub fn new(
        kind: DecoderKind,
        num_edge_types: usize,
        channels: usize,
        init: &mut WeightInit,
        device: &B::Device,
    ) -> Self {
        // Relations are drawn around 1, so that the initial scores have the magnitude of plain dot products.
        let relations = || init.uniform_around([num_edge_types, channels], 1.0, 1.0, device);
        Self { relations: (kind == DecoderKind::DistMult).then(relations) }
    }

    /// Returns the query vector of each edge. The score of an edge is its dot product with the destination's row.
    ///
    /// # Shapes
    /// - `src`: `[edges, channels]`, the sources' rows
    /// - `edge_types`: `[edges]`
    /// - output: `[edges, channels]`
    pub fn query(&self, src: Tensor<B, 2>, edge_types: &[u16]) -> Tensor<B, 2> {
        match self.relation_rows(edge_types, &src.device()) {
            Some(rows) => src * rows,
            None => src,
        }
    }

    /// Returns the learned row of each edge's type, or `None` for [`DecoderKind::Dot`].
    ///
    /// # Shapes
    /// - output: `[edges, channels]`
    ///
    /// ```
    /// use edgecut_trainer::Cpu;
    /// use edgecut_gnn::nn::{DecoderKind, LinkDecoder, WeightInit};
    /// let device = Default::default();
    /// let decoder = |kind| LinkDecoder::<Cpu>::new(kind, 3, 8, &mut WeightInit::new(0), &device);
    /// assert!(decoder(DecoderKind::Dot).relation_rows(&[2, 0], &device).is_none());
    /// let rows = decoder(DecoderKind::DistMult).relation_rows(&[2, 0], &device).expect("relations");
    /// assert_eq!(rows.dims(), [2, 8]);
    /// ```
    pub fn relation_rows(&self, edge_types: &[u16], device: &B::Device) -> Option<Tensor<B, 2>> {
        let relations = self.relations.as_ref()?;
        let types: Vec<i64> = edge_types.iter().map(|&edge_type| i64::from(edge_type)).collect();
        Some(relations.val().select(0, Tensor::<B, 1, Int>::from_data(&types[..], device)))
    }
}

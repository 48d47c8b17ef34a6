//! A network that tells edges from pairs that are none.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::de::Error;
use serde::{Deserialize, Serialize};

use super::model_error::ModelError;
use super::model_input::{Mode, ModelInput};
use super::relational_config::RelationalConfig;
use super::relational_net::RelationalNet;
use crate::nn::{DecoderKind, LinkDecoder, WeightInit};
use crate::ops::GnnBackend;

/// Mixed into the seed of the decoder's initial weights.
const DECODER: u64 = 0x6465_636f_6465_7200;

/// Settings of a [`LinkModel`]; what its model file holds beside the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkModelConfig {
    /// What makes a row of each node; without outputs of its own.
    pub encoder: RelationalConfig,
    /// What scores a pair of rows.
    pub decoder: DecoderKind,
}

/// A network over typed edges that gives each node a row, and a decoder that scores pairs of rows.
#[derive(Module, Debug)]
pub struct LinkModel<B: Backend> {
    /// Makes a row of each node.
    pub encoder: RelationalNet<B>,
    /// Scores pairs of rows.
    pub decoder: LinkDecoder<B>,
}

impl LinkModelConfig {
    /// Reads what serialising has written.
    ///
    /// # Errors
    /// Text that is no JSON or holds other entries.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        if value.get("kind").is_some() {
            return Err(serde_json::Error::custom("it describes a model for nodes, which train node reads"));
        }
        serde_json::from_value(value)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// As [`RelationalConfig::validate`].
    pub fn validate(&self) -> Result<(), ModelError> {
        self.encoder.validate()
    }

    /// The model with its initial weights, which depend on the seed alone.
    ///
    /// # Errors
    /// As [`LinkModelConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<LinkModel<B>, ModelError> {
        let encoder = self.encoder.init(seed, device)?;
        let (edge_types, channels) = (self.encoder.graph.edge_types.len(), self.encoder.hidden_channels);
        let decoder =
            LinkDecoder::new(self.decoder, edge_types, channels, &mut WeightInit::new(seed ^ DECODER), device);
        Ok(LinkModel { encoder, decoder })
    }

    /// Number of parameters of the model; `None` if their bytes cannot be addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        let relations = match self.decoder {
            DecoderKind::Dot => 0,
            DecoderKind::DistMult => self.encoder.graph.edge_types.len().checked_mul(self.encoder.hidden_channels)?,
        };
        self.encoder.num_parameters()?.checked_add(relations)
    }
}

impl<B: GnnBackend> LinkModel<B> {
    /// The rows of the batch's seeds of all types, one type after the other.
    ///
    /// # Shapes
    /// - output: `[seeds of all types, hidden_channels]`
    ///
    /// # Errors
    /// As [`RelationalNet::forward_by_type`].
    pub fn encode(&self, input: &ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let rows: Vec<Tensor<B, 2>> = self.encoder.forward_by_type(input, mode)?.into_iter().flatten().collect();
        Ok(match rows.len() {
            1 => rows.into_iter().next().expect("one type"),
            0 => Tensor::empty([0, self.encoder.config().hidden_channels], &input.device()),
            _ => Tensor::cat(rows, 0),
        })
    }
}

//! Settings of any of the models.

use burn::tensor::backend::Backend;
use serde::Serialize;
use serde::de::Error;

use super::model_error::ModelError;
use super::model_kind::ModelKind;
use super::node_model::NodeModel;
use super::node_model_config::NodeModelConfig;
use super::relational_config::RelationalConfig;

/// Settings of a [`NodeModel`]; what a model file holds beside the weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ModelConfig {
    /// A stack of convolutions over a homogeneous graph.
    Stack(NodeModelConfig),
    /// A network over typed edges.
    Relational(RelationalConfig),
}

impl ModelConfig {
    /// Reads what serialising has written. Which of the two it is follows from whether it describes a graph, so that errors
    /// name the entry that is wrong.
    ///
    /// # Errors
    /// Text that is no JSON or holds other entries.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        if value.get("decoder").is_some() {
            return Err(serde_json::Error::custom("it describes a model for links, which train link reads"));
        }
        if value.get("conv").is_some() {
            return Err(serde_json::Error::custom("it describes a model for whole graphs, which train graph reads"));
        }
        if value.get("graph").is_some() {
            serde_json::from_value(value).map(Self::Relational)
        } else {
            serde_json::from_value(value).map(Self::Stack)
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// As [`NodeModelConfig::validate`] and [`RelationalConfig::validate`].
    pub fn validate(&self) -> Result<(), ModelError> {
        match self {
            Self::Stack(config) => config.validate(),
            Self::Relational(config) => config.validate(),
        }
    }

    /// The model with its initial weights, which depend on the seed alone.
    ///
    /// # Errors
    /// As [`ModelConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<NodeModel<B>, ModelError> {
        match self {
            Self::Stack(config) => config.init(seed, device),
            Self::Relational(config) => Ok(NodeModel::Relational(config.init(seed, device)?)),
        }
    }

    /// Number of parameters of the model; `None` if their bytes cannot be addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        match self {
            Self::Stack(config) => config.num_parameters(),
            Self::Relational(config) => config.num_parameters(),
        }
    }

    /// Which network.
    pub fn kind(&self) -> ModelKind {
        match self {
            Self::Stack(config) => config.kind,
            Self::Relational(config) => config.kind,
        }
    }

    /// Whether feature rows are divided by their sums.
    pub fn normalize_features(&self) -> bool {
        match self {
            Self::Stack(config) => config.normalize_features,
            Self::Relational(config) => config.normalize_features,
        }
    }
}

impl From<NodeModelConfig> for ModelConfig {
    fn from(config: NodeModelConfig) -> Self {
        Self::Stack(config)
    }
}

impl From<RelationalConfig> for ModelConfig {
    fn from(config: RelationalConfig) -> Self {
        Self::Relational(config)
    }
}

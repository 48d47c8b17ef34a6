//! The settings of any model for node classification.

use burn::tensor::backend::Backend;
use serde::Serialize;

use super::link_model::not_of_task;
use super::model_error::ModelError;
use super::node_model::NodeModel;
use super::node_model_config::NodeModelConfig;
use super::relational_config::RelationalConfig;
use crate::nn::ConvKind;

/// The settings of a [`NodeModel`], which its model file stores in addition to the weights.
///
/// ```
/// use edgecut_trainer::models::{ConvKind, GcnSettings, ModelConfig, NodeModelConfig};
/// let config: ModelConfig = NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, 2).into();
/// assert_eq!(config.kind(), ConvKind::Gcn(GcnSettings));
/// assert_eq!(ModelConfig::from_json(&serde_json::to_string(&config)?)?, config);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ModelConfig {
    /// A stack of convolutions over a homogeneous graph.
    Stack(NodeModelConfig),
    /// A network over typed edges.
    Relational(RelationalConfig),
}

impl ModelConfig {
    /// Parses the settings from the JSON that serialising writes.
    ///
    /// An entry `graph` marks a [`RelationalConfig`]. The variant is chosen by this entry instead of by trying both, so
    /// that errors name the wrong entry.
    ///
    /// # Errors
    /// If the text is not JSON or has other entries.
    ///
    /// ```
    /// use edgecut_trainer::models::ModelConfig;
    /// let error = ModelConfig::from_json(r#"{"conv": "gcn"}"#).expect_err("a model for graphs");
    /// assert!(error.to_string().contains("it describes a model for whole graphs"));
    /// ```
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        if value.get("kind").is_none() {
            not_of_task(&value)?;
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
    /// The errors of [`NodeModelConfig::validate`] and [`RelationalConfig::validate`].
    pub fn validate(&self) -> Result<(), ModelError> {
        match self {
            Self::Stack(config) => config.validate(),
            Self::Relational(config) => config.validate(),
        }
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`ModelConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<NodeModel<B>, ModelError> {
        match self {
            Self::Stack(config) => config.init(seed, device),
            Self::Relational(config) => Ok(NodeModel::Relational(config.init(seed, device)?)),
        }
    }

    /// Returns the number of parameters of the model, or `None` if their bytes cannot be addressed.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GcnSettings, ModelConfig, NodeModelConfig};
    /// let config: ModelConfig = NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, 2).into();
    /// assert_eq!(config.num_parameters(), Some((16 * 8 + 8) + (8 * 3 + 3)));
    /// ```
    pub fn num_parameters(&self) -> Option<usize> {
        match self {
            Self::Stack(config) => config.num_parameters(),
            Self::Relational(config) => config.num_parameters(),
        }
    }

    /// Returns the kind of the model.
    pub fn kind(&self) -> ConvKind {
        match self {
            Self::Stack(config) => config.kind,
            Self::Relational(config) => config.kind,
        }
    }

    /// Returns whether feature rows are divided by their sums.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GcnSettings, ModelConfig, NodeModelConfig};
    /// let config = NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, 2).with_normalize_features(true);
    /// assert!(ModelConfig::from(config).normalize_features());
    /// ```
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

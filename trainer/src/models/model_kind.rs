//! The kinds of models.

use serde::{Deserialize, Serialize};

use super::model_error::ModelError;
use crate::nn::{Aggregation, Decomposition};
use crate::ops::AttentionVersion;

/// The kind of a model: its convolution.
///
/// ```
/// use edgecut_trainer::models::ModelKind;
/// use edgecut_trainer::nn::Aggregation;
/// let kind = ModelKind::Sage { aggregation: Aggregation::Mean };
/// assert_eq!(serde_json::to_string(&kind)?, r#"{"sage":{"aggregation":"mean"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// GraphSAGE.
    Sage {
        /// Aggregation of the neighbors.
        aggregation: Aggregation,
    },
    /// A graph convolutional network.
    Gcn,
    /// A graph attention network.
    Gat(GatSettings),
    /// A relational graph convolutional network.
    Rgcn {
        /// Decomposition of the weights of edge types.
        decomposition: Decomposition,
    },
}

/// The settings of a graph attention network.
///
/// ```
/// use edgecut_trainer::models::{GatSettings, ModelKind, NodeModelConfig};
/// use edgecut_trainer::ops::AttentionVersion;
/// let version = AttentionVersion::V2;
/// let gat = |heads| GatSettings { heads, version, attention_dropout: 0.0, projection_bias: true };
/// let config = |heads| NodeModelConfig::new(ModelKind::Gat(gat(heads)), 16, 8, 3, 2);
/// assert!(config(4).validate().is_ok());
/// assert!(config(3).validate().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatSettings {
    /// Number of attention heads of hidden layers. It must divide the hidden channels.
    pub heads: usize,
    /// Formula of the edges' scores.
    pub version: AttentionVersion,
    /// Probability of dropout of the attention weights.
    pub attention_dropout: f64,
    /// True if the two projections of [`AttentionVersion::V2`] have biases, as in PyG. Older model files lack this
    /// entry; their projections have no biases.
    #[serde(default)]
    pub projection_bias: bool,
}

impl ModelKind {
    /// Checks the settings that are specific to this kind.
    pub(super) fn validate(self, hidden_channels: usize) -> Result<(), ModelError> {
        match self {
            Self::Sage { .. } | Self::Gcn => Ok(()),
            Self::Gat(GatSettings { heads: 0, .. }) => Err(ModelError::Zero { setting: "heads" }),
            Self::Gat(GatSettings { heads, .. }) if !hidden_channels.is_multiple_of(heads) => {
                let what = format!("{heads} heads do not divide {hidden_channels} hidden channels");
                Err(ModelError::Settings { what })
            }
            Self::Gat(gat) => ModelError::check_probability("attention_dropout", gat.attention_dropout),
            Self::Rgcn { decomposition } => match decomposition.problem(hidden_channels, hidden_channels) {
                Some(what) => Err(ModelError::Settings { what }),
                None => Ok(()),
            },
        }
    }
}

//! The kinds of networks.

use serde::{Deserialize, Serialize};

use super::model_error::ModelError;
use crate::nn::{Aggregation, Decomposition};
use crate::ops::AttentionVersion;

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// GraphSAGE.
    Sage {
        /// How it combines neighbors.
        aggregation: Aggregation,
    },
    /// A graph convolutional network.
    Gcn,
    /// A graph attention network.
    Gat(GatSettings),
    /// A relational graph convolutional network.
    Rgcn {
        /// How the weights of edge types are kept few.
        decomposition: Decomposition,
    },
}

/// Settings of a graph attention network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatSettings {
    /// Attention heads of hidden layers, which divide the hidden channels.
    pub heads: usize,
    /// How edges are scored.
    pub version: AttentionVersion,
    /// Probability of dropout of the attention's weights.
    pub attention_dropout: f64,
    /// True if the two projections of the second version have biases, as PyG's have. Model files that do not say so were
    /// written before and have none.
    #[serde(default)]
    pub projection_bias: bool,
}

impl ModelKind {
    /// Checks what of the settings concerns this kind alone.
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

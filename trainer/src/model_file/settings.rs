//! The settings of a model that its file stores.

use super::saved_task::TaskKind;
use crate::error::ModelError;
use crate::models::{Network, NetworkConfig};
use burn::module::Module;
use burn::tensor::backend::Backend;
use edgecut_gnn::nn::PygLayer;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The settings of a model that its file stores as JSON.
pub trait ModelSettings: Serialize {
    /// Returns the number of parameters of a model with these settings, which is checked when the model is saved. A
    /// number that overflows is `usize::MAX`. The default `None` skips the check.
    fn num_parameters(&self) -> Option<usize> {
        None
    }

    /// Returns the task of the model, which its file names; `None` by default.
    fn task(&self) -> Option<TaskKind> {
        None
    }

    /// Returns the settings of the model's network of this crate, which has its convolutions and reads its embeddings; `None`
    /// for other models.
    fn network(&self) -> Option<&NetworkConfig> {
        None
    }

    /// Returns the layers of PyG that compute the same as the model's convolutions, if the Python package needs their
    /// description.
    fn pyg_layers(&self) -> Vec<PygLayer> {
        self.network().map_or_else(Vec::new, NetworkConfig::pyg_layers)
    }
}

/// No settings.
impl ModelSettings for () {}

/// The settings of a model that can be made again from its file.
pub trait LoadableConfig: ModelSettings + DeserializeOwned + 'static {
    /// The model.
    type Model<B: Backend>: Module<B> + 'static;

    /// Parses the settings from the JSON of a file. The default knows no forms of earlier versions.
    ///
    /// # Errors
    /// JSON of other settings.
    fn from_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Settings that contradict each other.
    fn validate(&self) -> Result<(), ModelError>;

    /// Creates the model, whose parameters the file's then replace.
    ///
    /// # Errors
    /// The errors of [`validate`](Self::validate).
    fn init<B: Backend>(&self, device: &B::Device) -> Result<Self::Model<B>, ModelError>;

    /// Returns the node types whose embeddings the model reads, each with the number of values per node.
    fn embedded(&self) -> Vec<(&str, usize)> {
        match self.network() {
            Some(network) => network.graph.embedding_widths(network.hidden_channels),
            None => Vec::new(),
        }
    }
}

impl ModelSettings for NetworkConfig {
    fn num_parameters(&self) -> Option<usize> {
        Some(self.num_parameters().unwrap_or(usize::MAX))
    }

    fn task(&self) -> Option<TaskKind> {
        Some(if self.pooling.is_some() { TaskKind::GRAPH } else { TaskKind::NODE })
    }

    fn network(&self) -> Option<&NetworkConfig> {
        Some(self)
    }
}

impl LoadableConfig for NetworkConfig {
    type Model<B: Backend> = Network<B>;

    fn from_json(json: &str) -> serde_json::Result<Self> {
        NetworkConfig::from_json(json)
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.validate()
    }

    fn init<B: Backend>(&self, device: &B::Device) -> Result<Network<B>, ModelError> {
        self.init(0, device)
    }
}

/// Implements the traits of this module for the settings of a model of this crate whose network is an encoder.
macro_rules! encoder_settings {
    ($config:ident, $model:ident, $kind:expr) => {
        impl $crate::model_file::ModelSettings for $config {
            fn num_parameters(&self) -> Option<usize> {
                Some(self.num_parameters().unwrap_or(usize::MAX))
            }

            fn task(&self) -> Option<$crate::model_file::TaskKind> {
                Some($kind)
            }

            fn network(&self) -> Option<&$crate::models::NetworkConfig> {
                Some(&self.encoder)
            }
        }

        impl $crate::model_file::LoadableConfig for $config {
            type Model<B: burn::tensor::backend::Backend> = $model<B>;

            fn validate(&self) -> Result<(), $crate::error::ModelError> {
                self.validate()
            }

            fn init<B: burn::tensor::backend::Backend>(
                &self,
                device: &B::Device,
            ) -> Result<$model<B>, $crate::error::ModelError> {
                self.init(0, device)
            }
        }
    };
}

pub(crate) use encoder_settings;

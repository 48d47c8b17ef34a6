//! The settings of a model that its file stores.

use super::saved_task::ModelTask;
use crate::error::ModelError;
use crate::models::{EdgeModel, EdgeModelConfig, LinkModel, LinkModelConfig, Network, NetworkConfig};
use burn::module::Module;
use burn::tensor::backend::Backend;
use edgecut_gnn::nn::PygLayer;
use serde::Serialize;

/// The settings of a model that its file stores as JSON.
pub trait ModelSettings: Serialize {
    /// Returns the number of parameters of a model with these settings, which is checked when the model is saved. A
    /// number that overflows is `usize::MAX`. The default `None` skips the check.
    fn num_parameters(&self) -> Option<usize> {
        None
    }

    /// Returns the task of the model, which its file names; `None` by default.
    fn task(&self) -> Option<ModelTask> {
        None
    }

    /// Returns the layers of PyG that compute the same as the model's convolutions, if the Python package needs their
    /// description.
    fn pyg_layers(&self) -> Vec<PygLayer> {
        Vec::new()
    }
}

/// No settings.
impl ModelSettings for () {}

/// The settings of a model that can be made again from its file.
pub trait LoadableConfig: ModelSettings + Sized {
    /// The model.
    type Model<B: Backend>: Module<B>;

    /// Parses the settings from the JSON of a file.
    ///
    /// # Errors
    /// JSON of other settings.
    fn from_json(json: &str) -> serde_json::Result<Self>;

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
    fn embedded(&self) -> Vec<(&str, usize)>;
}

impl ModelSettings for NetworkConfig {
    fn num_parameters(&self) -> Option<usize> {
        Some(self.num_parameters().unwrap_or(usize::MAX))
    }

    fn task(&self) -> Option<ModelTask> {
        Some(if self.pooling.is_some() { ModelTask::Graph } else { ModelTask::Node })
    }

    fn pyg_layers(&self) -> Vec<PygLayer> {
        self.pyg_layers()
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

    fn embedded(&self) -> Vec<(&str, usize)> {
        self.graph.embedding_widths(self.hidden_channels)
    }
}

impl ModelSettings for LinkModelConfig {
    fn num_parameters(&self) -> Option<usize> {
        Some(self.num_parameters().unwrap_or(usize::MAX))
    }

    fn task(&self) -> Option<ModelTask> {
        Some(ModelTask::Link)
    }

    fn pyg_layers(&self) -> Vec<PygLayer> {
        self.encoder.pyg_layers()
    }
}

impl LoadableConfig for LinkModelConfig {
    type Model<B: Backend> = LinkModel<B>;

    fn from_json(json: &str) -> serde_json::Result<Self> {
        LinkModelConfig::from_json(json)
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.validate()
    }

    fn init<B: Backend>(&self, device: &B::Device) -> Result<LinkModel<B>, ModelError> {
        self.init(0, device)
    }

    fn embedded(&self) -> Vec<(&str, usize)> {
        self.encoder.embedded()
    }
}

impl ModelSettings for EdgeModelConfig {
    fn num_parameters(&self) -> Option<usize> {
        Some(self.num_parameters().unwrap_or(usize::MAX))
    }

    fn task(&self) -> Option<ModelTask> {
        Some(ModelTask::Edge)
    }

    fn pyg_layers(&self) -> Vec<PygLayer> {
        self.encoder.pyg_layers()
    }
}

impl LoadableConfig for EdgeModelConfig {
    type Model<B: Backend> = EdgeModel<B>;

    fn from_json(json: &str) -> serde_json::Result<Self> {
        EdgeModelConfig::from_json(json)
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.validate()
    }

    fn init<B: Backend>(&self, device: &B::Device) -> Result<EdgeModel<B>, ModelError> {
        self.init(0, device)
    }

    fn embedded(&self) -> Vec<(&str, usize)> {
        self.encoder.embedded()
    }
}

//! The models: node classification, link prediction and graph classification.
//!
//! A [`Network`] predicts for nodes or for whole graphs. [`LinkModel`] scores node pairs and [`EdgeModel`] predicts for
//! edges, by the rows that a network computes.

mod edge_model;
mod graph_input;
mod graph_schema;
mod layered_model;
mod link_model;
mod model_input;
mod network;
mod network_config;
mod network_sync;
mod node_embedding;
mod node_model;
mod old_settings;

pub use crate::error::ModelError;
pub use edge_model::{EdgeModel, EdgeModelConfig, TargetEdges};
pub use edgecut_gnn::nn::{ConvKind, GatSettings, GcnSettings, GinSettings, Mode, RgcnSettings, SageSettings};
pub use graph_input::{GraphClassifier, GraphInput};
pub use graph_schema::{EdgeTypeSchema, GraphSchema, NodeTypeSchema};
pub use layered_model::LayeredModel;
pub use link_model::{LinkModel, LinkModelConfig};
pub(crate) use model_input::InputRows;
pub use model_input::{ModelInput, NodeInput};
pub use network::{Layer, Network, Norm};
pub use network_config::{NetworkConfig, NetworkOutput, Pooling, Readout};
pub use node_embedding::{EmbeddingMode, NodeEmbedding};
pub use node_model::NodeClassifier;

//! The models: node classification, link prediction and graph classification.
//!
//! [`NodeModel`] classifies nodes. On a homogeneous graph it is a stack of `[convolution, activation, dropout]` that
//! ends in a convolution to the classes; on a heterogeneous graph it is a [`RelationalNet`]. [`LinkModel`] scores node
//! pairs, [`EdgeModel`] classifies edges, and [`GraphNet`] classifies whole graphs.

mod conv_stack;
mod edge_model;
mod graph_input;
mod graph_net;
mod graph_net_config;
mod graph_schema;
mod layered_model;
mod link_model;
mod model_config;
mod model_error;
mod model_input;
mod node_model;
mod node_model_config;
mod relational_config;
mod relational_net;

pub use crate::nn::{ConvKind, GatSettings, GcnSettings, GinSettings, Mode, RgcnSettings, SageSettings};
pub use conv_stack::ConvStack;
pub use edge_model::{EdgeModel, EdgeModelConfig, TargetEdges};
pub use graph_input::{GraphClassifier, GraphInput};
pub use graph_net::GraphNet;
pub use graph_net_config::{GraphNetConfig, Readout};
pub use graph_schema::{EdgeTypeSchema, GraphSchema, NodeTypeSchema};
pub use layered_model::LayeredModel;
pub use link_model::{LinkModel, LinkModelConfig};
pub use model_config::ModelConfig;
pub use model_error::ModelError;
pub use model_input::{ModelInput, NodeInput};
pub use node_model::{NodeClassifier, NodeModel};
pub use node_model_config::NodeModelConfig;
pub use relational_config::{RelationalConfig, RelationalOutput};
pub use relational_net::{RelationalLayer, RelationalNet};

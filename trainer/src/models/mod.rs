//! The models: node classification, link prediction and graph classification.
//!
//! [`NodeModel`] classifies nodes. On a homogeneous graph it is a stack of `[convolution, activation, dropout]` that
//! ends in a convolution to the classes; on a heterogeneous graph it is a [`RelationalNet`]. [`LinkModel`] scores node
//! pairs, and [`GraphNet`] classifies whole graphs.

mod gat;
mod gcn;
mod graph_input;
mod graph_net;
mod graph_net_config;
mod graph_sage;
mod graph_schema;
mod layer_stack;
mod link_model;
mod model_config;
mod model_error;
mod model_input;
mod model_kind;
mod node_model;
mod node_model_config;
mod relational_config;
mod relational_net;

pub use crate::nn::Mode;
pub use gat::Gat;
pub use gcn::Gcn;
pub use graph_input::{GraphClassifier, GraphInput};
pub use graph_net::{GraphConv, GraphNet};
pub use graph_net_config::{GraphConvKind, GraphNetConfig, Readout};
pub use graph_sage::GraphSage;
pub use graph_schema::{EdgeTypeSchema, GraphSchema, NodeTypeSchema};
pub use link_model::{LinkModel, LinkModelConfig};
pub use model_config::ModelConfig;
pub use model_error::ModelError;
pub use model_input::{ModelInput, NodeInput};
pub use model_kind::{GatSettings, ModelKind};
pub use node_model::{NodeClassifier, NodeModel};
pub use node_model_config::NodeModelConfig;
pub use relational_config::{RelationalConfig, RelationalOutput};
pub use relational_net::{RelationalLayer, RelationalNet};

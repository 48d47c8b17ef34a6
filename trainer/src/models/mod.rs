//! Networks for node classification.
//!
//! All are stacks of `[convolution, ReLU, dropout]`, ending in a convolution to the classes.

mod gcn;
mod graph_sage;
mod layer_stack;
mod model_error;
mod model_input;
mod node_model;
mod node_model_config;

pub use gcn::Gcn;
pub use graph_sage::GraphSage;
pub use model_error::ModelError;
pub use model_input::{Mode, ModelInput};
pub use node_model::{NodeClassifier, NodeModel};
pub use node_model_config::{ModelKind, NodeModelConfig};

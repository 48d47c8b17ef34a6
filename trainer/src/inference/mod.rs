//! Inference over all nodes of a graph.
//!
//! [`layer_wise`] computes each layer over all nodes with all neighbors before the next one, so that no row is computed
//! twice. The result is that of a full-neighbor evaluation.

mod layer_wise;
mod layered_model;
mod predict;
mod progress;

pub use layer_wise::{LayerWiseConfig, LayerWiseInput, layer_wise};
pub(crate) use layer_wise::{layer_wise_of_types, write_rows};
pub use layered_model::LayeredModel;
pub use predict::{Neighborhoods, PredictionConfig, PredictionJob, WantedRows, predict_link_rows, predict_node};
pub use progress::{InferenceProgress, InferenceStep};

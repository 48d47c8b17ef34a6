//! The commands that train.

pub(crate) mod edge;
pub(crate) mod graph;
pub(crate) mod link;
pub(crate) mod model_bytes;
pub(crate) mod node;
pub(crate) mod saved_model;

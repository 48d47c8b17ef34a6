//! The loader of batches around nodes.

pub(crate) mod node_batches;
pub(crate) mod node_loader;

//! The loader of batches of whole small graphs.

pub(crate) mod graph_batch;
pub(crate) mod graph_loader;
pub(crate) mod graph_plan;

//! Batches of labeled edges.

pub(crate) mod edge_loader;
pub(crate) mod labeled_edges;

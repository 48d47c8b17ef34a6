//! Sampling of the neighborhood of one batch over all parts.

mod batch_builder;
mod csr;
pub(crate) mod encoding;
mod hop_plan;
pub(crate) mod hop_times;
mod on_server;
pub(crate) mod sampler;
pub(crate) mod seeds;
pub(crate) mod subgraph;

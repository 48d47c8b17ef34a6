//! Sampling of the neighborhood of one batch over all parts.

mod batch_builder;
pub(crate) mod batch_key;
mod csr;
mod hop_plan;
pub(crate) mod hop_times;
pub(crate) mod sampler;
pub(crate) mod seeds;
pub(crate) mod subgraph;

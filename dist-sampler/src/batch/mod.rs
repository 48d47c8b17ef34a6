//! Sampling of the neighborhood of one batch over all parts.

pub(crate) mod batch_key;
mod csr;
mod draft;
mod hop_plan;
pub(crate) mod hop_times;
pub(crate) mod sampler;
pub(crate) mod seeds;
pub(crate) mod subgraph;

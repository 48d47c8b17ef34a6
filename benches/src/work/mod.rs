//! Data, batches and models that benchmarks measure.

pub(crate) mod dense_layer;
pub(crate) mod local_job;
pub(crate) mod plain_graphs;
pub(crate) mod sampled;
pub(crate) mod seed_batches;
pub(crate) mod slow_aggregation;
pub(crate) mod synthetic;
pub(crate) mod trainee;

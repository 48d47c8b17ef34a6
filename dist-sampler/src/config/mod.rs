//! The configuration of a process and of its samplers.

pub(crate) mod cache_size;
pub(crate) mod dist_graph_config;
pub(crate) mod fan_out;
pub(crate) mod labor;
pub(crate) mod node_fields;
pub(crate) mod num_neighbors;
pub(crate) mod sampler_config;
pub(crate) mod sampling_policy;
pub(crate) mod server_list;

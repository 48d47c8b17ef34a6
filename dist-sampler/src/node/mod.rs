//! The membership of a process in distributed sampling, and requests over all parts.

mod cache_features;
pub(crate) mod dist_graph;
pub(crate) mod edge_attributes;
pub(crate) mod edge_lookups;
pub(crate) mod node_attributes;
pub(crate) mod original_ids;
mod part_request;
pub(crate) mod routing;
pub(crate) mod rows_in_flight;
mod seed_edges;
mod split_nodes;

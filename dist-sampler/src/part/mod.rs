//! The part that this process holds: hops, attributes and lookups.

pub(crate) mod constrained_hop;
pub(crate) mod directory;
mod directory_lookups;
pub(crate) mod disk_waits;
mod edge_attributes;
mod edge_lookups;
pub(crate) mod embedding_rows;
pub(crate) mod embedding_shard;
pub(crate) mod embedding_shards;
mod hop;
pub(crate) mod hop_reply;
mod hub_index;
pub(crate) mod layer_variates;
pub(crate) mod local_part;
pub(crate) mod node_attributes;
pub(crate) mod requests;
pub(crate) mod row_table;
pub(crate) mod seed_edges;
pub(crate) mod source_ids;
pub(crate) mod sparse_adam;
mod split_nodes;
pub(crate) mod uniform_hop;
mod work_size;

//! Multi-hop neighbor sampling over a partitioned graph.
//!
//! A [`DistGraph`] is the membership of one process in distributed sampling: the part that it holds, the service
//! that answers its peers, and the connections to its peers. A [`DistNeighborSampler`] samples on a node. It groups the
//! frontier of a hop by owner, sends each peer one request for all of the peer's nodes, expands its own nodes
//! meanwhile, and stitches the replies in the order of the frontier. Features are fetched afterwards, once per distinct
//! node, or once per node and neighborhood if neighborhoods are disjoint.
//!
//! A dataset that is not partitioned is a graph of one part, which the processes of a machine share
//! ([`share_dataset`]).
//!
//! The neighbors drawn for a node depend only on the batch key, the hop, the edge type and the node's *original* id, and in
//! layer-neighbor sampling on the original ids of its neighbors. A batch is therefore the same for any number of parts, threads or processes.
//! `dist-loader/tests/partition_independence.rs` and its neighbors test this over real sockets.
//!
//! Public functions that wait for peers return boxed futures, so that this crate alone compiles their bodies.
#![forbid(unsafe_op_in_unsafe_fn)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arrays;
mod batch;
mod batch_key;
mod cache;
mod config;
mod dist_graph;
mod embedding;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod numbering;
mod part;
mod payload;
mod rows;
mod rpc;
mod servers;
mod shared_dataset;
mod timeouts;
mod workers;

pub use batch::hop_times::HopTimes;
pub use batch::sampler::DistNeighborSampler;
pub use batch::seeds::{ExcludedEdge, SampleSeeds};
pub use batch::subgraph::{SampledEdges, SampledNodes, SampledSubgraph};
pub use batch_key::BatchKey;
pub use cache::cached_features::CacheContents;
pub use cache::hotness::Hotness;
pub use config::cache_size::CacheSize;
pub use config::dist_graph_config::DistGraphConfig;
pub use config::fan_out::{Fanout, parse_num_neighbors};
pub use config::labor::{Labor, SamplingMethod};
pub use config::node_fields::{EdgeFields, NodeFields};
pub use config::num_neighbors::NumNeighbors;
pub use config::sampler_config::SamplerConfig;
pub use config::sampling_policy::{Temporal, TemporalStrategy, TimeAttr};
pub use config::server_list::ServerList;
pub use dist_graph::edge_attributes::SampledEdgeAttributes;
pub use dist_graph::look_ahead::{CachedFetch, LookAhead, LookAheadEpoch};
pub use dist_graph::node_attributes::NodeAttributes;
pub use dist_graph::{DistGraph, SeedShare};
pub use embedding::dist_embedding::{DistEmbedding, EmbeddingConfig, ShardState, ShardValues};
pub use error::{PeerName, SampleError};
pub use part::embedding_shard::SetRow;
pub use part::sparse_adam::SparseAdam;
pub use rows::dist_rows::{DistRows, RowsWriter};
pub use rpc::served::ServedCount;
pub use rpc::traffic::{EdgeTraffic, FeatureTraffic, PeerTraffic, Traffic, TrafficCount};
pub use shared_dataset::converted_features::convert_features;
pub use shared_dataset::share::{share_dataset, share_graphs};
pub use shared_dataset::space::temporary_folder_in_memory;
pub use shared_dataset::temporary_folder::remove_abandoned;

#[cfg(target_endian = "big")]
compile_error!("arrays on disk and on the wire are little-endian and used in place");

//! Multi-hop neighbor sampling over a partitioned graph.
//!
//! A [`SamplingNode`] is one process's place in the job: the part it holds, the service through which its peers ask for
//! that part, and its connections to theirs. A [`DistNeighborSampler`] samples on it: the nodes of a hop are grouped by
//! owner, every peer gets one request for all of its nodes while the process's own are expanded here, and the replies
//! are stitched in the order of the frontier. Features follow, once per distinct node (and neighborhood, where each seed has
//! its own).
//!
//! A dataset that nobody has partitioned is one part, which the processes of a machine share: [`share_dataset`].
//!
//! What is drawn for a node depends on the batch key, the hop, the edge type and the node's *original* id alone, so a
//! batch is the same whatever the number of parts, threads or processes.
#![forbid(unsafe_op_in_unsafe_fn)]

mod batch_key;
mod config;
mod connection;
mod constrained;
mod dialer;
mod directory;
mod embedding;
mod error;
mod fetch;
mod fetch_edges;
mod find;
mod has_edges;
mod hop_times;
mod hub_index;
mod kernel;
mod local;
mod node;
mod node_table;
mod num_neighbors;
mod peer;
mod received;
mod relabel;
mod reply;
mod route;
mod rule;
mod sampler;
mod scratch;
mod seeds;
mod service;
mod share;
mod subgraph;
mod traffic;
mod transport;
mod wire;
mod workers;

pub use batch_key::BatchKey;
pub use config::{Fanout, SamplerConfig, SamplingNodeConfig, parse_num_neighbors};
pub use embedding::{DistEmbedding, EmbeddingConfig, SetRow, ShardValues, SparseAdam};
pub use error::SampleError;
pub use fetch::NodeAttributes;
pub use fetch_edges::SampledEdgeAttributes;
pub use hop_times::HopTimes;
pub use node::SamplingNode;
pub use num_neighbors::NumNeighbors;
pub use rule::{Temporal, TemporalStrategy, TimeAttr};
pub use sampler::DistNeighborSampler;
pub use scratch::remove_abandoned;
pub use seeds::SampleSeeds;
pub use share::{share_dataset, share_graphs};
pub use subgraph::{SampledEdges, SampledNodes, SampledSubgraph};
pub use traffic::{Traffic, TrafficCount};
pub use wire::{Wanted, WantedOfEdges};

#[cfg(target_endian = "big")]
compile_error!("arrays on disk and on the wire are little-endian and used in place");

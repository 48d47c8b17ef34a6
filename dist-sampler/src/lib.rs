//! Multi-hop neighbor sampling over a partitioned graph.
//!
//! A [`SamplingNode`] is the membership of one process in distributed sampling: the part that it holds, the service
//! that answers its peers, and the connections to its peers. A [`DistNeighborSampler`] samples on a node. It groups the
//! frontier of a hop by owner, sends each peer one request for all of the peer's nodes, expands its own nodes
//! meanwhile, and stitches the replies in the order of the frontier. Features are fetched afterwards, once per distinct
//! node, or once per node and neighborhood if neighborhoods are disjoint.
//!
//! A dataset that is not partitioned is a graph of one part, which the processes of a machine share
//! ([`share_dataset`]).
//!
//! The neighbors drawn for a node depend only on the batch key, the hop, the edge type and the node's *original* id. A
//! batch is therefore the same for any number of parts, threads or processes.
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

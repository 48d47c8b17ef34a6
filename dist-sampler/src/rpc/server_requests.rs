//! Requests of clients to servers.

use crate::batch_key::BatchKey;
use crate::config::fan_out::Fanout;
use crate::config::sampling_policy::SamplingPolicy;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A request for the description of a server and its graph.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct DescribeRequest {
    /// Delays the answer until the server reaches all other servers.
    pub(crate) when_connected: bool,
}

/// A request for the neighborhood of a batch over all parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SampleRequest {
    pub(crate) key: BatchKey,
    pub(crate) sampler: WireSampler,
    pub(crate) lengths: SeedLengths,
    /// The seeds, in the order of [`SeedLengths`], `u32` values.
    #[serde(skip)]
    pub(crate) seeds: Bytes,
}

/// The settings of a sampler that matter to a neighborhood.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireSampler {
    /// `[hop][edge type]`.
    pub(crate) fanouts: Vec<Vec<Fanout>>,
    pub(crate) rule: SamplingPolicy,
    pub(crate) disjoint: bool,
    /// True if the reply includes the positions of the edges among the in-edges of their destinations.
    pub(crate) positions: bool,
}

/// The lengths of the lists of a batch's seeds, in the order in which the payload holds them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SeedLengths {
    /// By node type: the seeds.
    pub(crate) nodes: Vec<u32>,
    /// By node type: the seeds' neighborhoods.
    pub(crate) batch: Vec<u32>,
    /// The times, the low and the high half of each.
    pub(crate) times: u32,
    /// By edge type: excluded edges, the source, the destination and the neighborhood of each.
    pub(crate) excluded: Vec<u32>,
}

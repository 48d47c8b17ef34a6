//! Requests of clients to servers.

use crate::batch::batch_key::BatchKey;
use crate::config::fan_out::Fanout;
use crate::config::sampling_policy::SamplingPolicy;
use crate::rpc::peer_request::{Class, PeerRequest};
use crate::rpc::wire::Request;
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, Meta, NodeTypeId, SeedEdgeSet, Split};
use serde::{Deserialize, Serialize};

/// A request for the description of a server and its graph.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct DescribeRequest {
    /// Delays the answer until the server reaches all other servers.
    pub(crate) when_connected: bool,
}

/// A request for the nodes of a split that the part owns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SplitRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) split: Split,
    /// The number of nodes to skip, which earlier replies held.
    pub(crate) start: u64,
}

/// A request for seed edges of the part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SeedEdgesRequest {
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) set: SeedEdgeSet,
    /// Positions among the seed edges of this type and set, `u32` each.
    #[serde(skip)]
    pub(crate) positions: Bytes,
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
    /// `[hop][edge type]`. `None` draws nothing.
    pub(crate) fanouts: Vec<Vec<Option<Fanout>>>,
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
    /// By edge type: excluded edges, the source and the destination of each.
    pub(crate) excluded: Vec<u32>,
}

impl PeerRequest for DescribeRequest {
    const CLASS: Class = Class::Sampling;

    fn into_message(self) -> Request {
        Request::Describe(self)
    }

    fn payload_bytes(&self) -> usize {
        0
    }

    fn operation(&self, _: &Meta) -> String {
        "describe the graph".into()
    }
}

impl PeerRequest for SplitRequest {
    const CLASS: Class = Class::Bulk;

    fn into_message(self) -> Request {
        Request::Split(self)
    }

    fn payload_bytes(&self) -> usize {
        0
    }

    fn operation(&self, meta: &Meta) -> String {
        let name = &meta.node_types[self.node_type.index()].name;
        format!("list the {} nodes of {name}", self.split.name())
    }
}

impl PeerRequest for SeedEdgesRequest {
    const CLASS: Class = Class::Sampling;

    fn into_message(self) -> Request {
        Request::SeedEdges(self)
    }

    fn payload_bytes(&self) -> usize {
        self.positions.len()
    }

    fn operation(&self, meta: &Meta) -> String {
        let name = &meta.edge_types[self.edge_type.index()].relation;
        let (kind, split) = match self.set {
            SeedEdgeSet::Links(split) => ("", split),
            SeedEdgeSet::Labeled(split) => ("labeled ", split),
        };
        format!("read {} {kind}{} edges of {name}", self.positions.len() / size_of::<u32>(), split.name())
    }
}

impl PeerRequest for SampleRequest {
    const CLASS: Class = Class::Sampling;

    fn into_message(self) -> Request {
        Request::Sample(self)
    }

    fn payload_bytes(&self) -> usize {
        self.seeds.len()
    }

    fn operation(&self, _: &Meta) -> String {
        format!("sample batch {} of epoch {}", self.key.batch, self.key.epoch + 1)
    }
}

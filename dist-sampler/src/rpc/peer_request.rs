//! The requests that a process can send to its peers: the connection, the budget and the description of each.

use crate::part::requests::{
    EdgeIdsRequest, FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, LookUpRequest,
    OriginalsRequest, PullRequest, PushRequest, SeedEdgesRequest, SplitRequest,
};
use crate::rpc::messages::Request;
use crate::rpc::server_requests::{DescribeRequest, SampleRequest};
use edgecut_graph::{Meta, SeedEdgeSet};

/// The class of a request, which decides its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Hops and lookups, for whose replies sampling waits.
    Sampling,
    /// Features and embeddings, with replies and requests of megabytes.
    Bulk,
}

/// The bytes that a request counts against the bytes in flight of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    Unlimited,
    /// The bytes of the reply.
    Reply,
    /// The bytes of the payload that is sent.
    Payload,
}

/// A request to a peer. Clones share the payload.
pub(crate) trait PeerRequest: Clone + Into<Request> {
    const CLASS: Class;
    const BUDGET: Budget = Budget::Unlimited;

    /// Describes the request in errors. `meta` describes the graph.
    fn operation(&self, meta: &Meta) -> String;
}

impl PeerRequest for HopRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, _: &Meta) -> String {
        format!("sample {} rows", self.rows.len() / size_of::<u32>() / self.words_per_row())
    }
}

impl PeerRequest for FetchRequest {
    const CLASS: Class = Class::Bulk;
    const BUDGET: Budget = Budget::Reply;

    fn operation(&self, meta: &Meta) -> String {
        let name = &meta.node_types[self.node_type.index()].name;
        format!("fetch {} rows of {name}", self.rows.len() / size_of::<u32>())
    }
}

impl PeerRequest for FindRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, _: &Meta) -> String {
        format!("find {} original ids", self.originals.len() / size_of::<u32>())
    }
}

impl PeerRequest for OriginalsRequest {
    const CLASS: Class = Class::Bulk;

    fn operation(&self, _: &Meta) -> String {
        format!("list original ids from {} to {}", self.start, self.end)
    }
}

impl PeerRequest for LookUpRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, _: &Meta) -> String {
        format!("look up {} nodes", self.keys.len() / size_of::<u32>() / self.by.words_per_key())
    }
}

impl PeerRequest for FetchEdgesRequest {
    const CLASS: Class = Class::Bulk;

    fn operation(&self, _: &Meta) -> String {
        format!("fetch attributes of {} edges", self.edges.len() / (2 * size_of::<u32>()))
    }
}

impl PeerRequest for EdgeIdsRequest {
    const CLASS: Class = Class::Bulk;

    fn operation(&self, meta: &Meta) -> String {
        let name = &meta.edge_types[self.edge_type.index()].relation;
        format!("read the ids of {} edges of {name}", self.edges.len() / (2 * size_of::<u32>()))
    }
}

impl PeerRequest for HasEdgesRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, _: &Meta) -> String {
        format!("look for {} edges", self.pairs.len() / (2 * size_of::<u32>()))
    }
}

impl PeerRequest for PullRequest {
    const CLASS: Class = Class::Bulk;

    fn operation(&self, _: &Meta) -> String {
        format!("pull {} rows of embeddings or layers", self.rows.len() / size_of::<u32>())
    }
}

impl PeerRequest for PushRequest {
    const CLASS: Class = Class::Bulk;
    const BUDGET: Budget = Budget::Payload;

    fn operation(&self, _: &Meta) -> String {
        format!("push {} gradients of an embedding", self.num_rows)
    }
}

impl PeerRequest for DescribeRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, _: &Meta) -> String {
        "describe the graph".into()
    }
}

impl PeerRequest for SplitRequest {
    const CLASS: Class = Class::Bulk;

    fn operation(&self, meta: &Meta) -> String {
        let name = &meta.node_types[self.node_type.index()].name;
        format!("list the {} nodes of {name}", self.split.name())
    }
}

impl PeerRequest for SeedEdgesRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, meta: &Meta) -> String {
        let name = &meta.edge_types[self.edge_type.index()].relation;
        let (kind, split) = match self.set {
            SeedEdgeSet::Links(split) => ("", split),
            SeedEdgeSet::Labeled(split) => ("labeled ", split),
            SeedEdgeSet::Negatives(split) => ("negatives of ", split),
        };
        format!("read {} {kind}{} edges of {name}", self.positions.len() / size_of::<u32>(), split.name())
    }
}

impl PeerRequest for SampleRequest {
    const CLASS: Class = Class::Sampling;

    fn operation(&self, _: &Meta) -> String {
        // Errors of loaders name the batch.
        "sample a batch".to_owned()
    }
}

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

/// Declares for each request its connection, its budget if it has one, and its description.
macro_rules! peer_requests {
    ($($type:ident($class:ident $(, $budget:ident)?): |$request:ident, $meta:pat_param| $operation:expr;)+) => {
        $(impl PeerRequest for $type {
            const CLASS: Class = Class::$class;
            $(const BUDGET: Budget = Budget::$budget;)?

            fn operation(&self, $meta: &Meta) -> String {
                let $request = self;
                $operation
            }
        })+
    };
}

peer_requests! {
    HopRequest(Sampling): |hop, _| {
        format!("sample {} rows", hop.rows.len() / size_of::<u32>() / hop.words_per_row())
    };
    FetchRequest(Bulk, Reply): |fetch, meta| {
        let name = &meta.node_types[fetch.node_type.index()].name;
        format!("fetch {} rows of {name}", fetch.rows.len() / size_of::<u32>())
    };
    FindRequest(Sampling): |find, _| format!("find {} original ids", find.originals.len() / size_of::<u32>());
    OriginalsRequest(Bulk): |range, _| format!("list original ids from {} to {}", range.start, range.end);
    LookUpRequest(Sampling): |look_up, _| {
        format!("look up {} nodes", look_up.keys.len() / size_of::<u32>() / look_up.by.words_per_key())
    };
    FetchEdgesRequest(Bulk): |fetch, _| {
        format!("fetch attributes of {} edges", fetch.edges.len() / (2 * size_of::<u32>()))
    };
    EdgeIdsRequest(Bulk): |ids, meta| {
        let name = &meta.edge_types[ids.edge_type.index()].relation;
        format!("read the ids of {} edges of {name}", ids.edges.len() / (2 * size_of::<u32>()))
    };
    HasEdgesRequest(Sampling): |look_up, _| format!("look for {} edges", look_up.pairs.len() / (2 * size_of::<u32>()));
    PullRequest(Bulk): |pull, _| {
        format!("pull {} rows of embeddings or layers", pull.rows.len() / size_of::<u32>())
    };
    PushRequest(Bulk, Payload): |push, _| format!("push {} gradients of an embedding", push.num_rows);
    DescribeRequest(Sampling): |_describe, _| "describe the graph".to_owned();
    SplitRequest(Bulk): |list, meta| {
        let name = &meta.node_types[list.node_type.index()].name;
        format!("list the {} nodes of {name}", list.split.name())
    };
    SeedEdgesRequest(Sampling): |read, meta| {
        let name = &meta.edge_types[read.edge_type.index()].relation;
        let (kind, split) = match read.set {
            SeedEdgeSet::Links(split) => ("", split),
            SeedEdgeSet::Labeled(split) => ("labeled ", split),
            SeedEdgeSet::Negatives(split) => ("negatives of ", split),
        };
        format!("read {} {kind}{} edges of {name}", read.positions.len() / size_of::<u32>(), split.name())
    };
    // Errors of loaders name the batch.
    SampleRequest(Sampling): |_sample, _| "sample a batch".to_owned();
}

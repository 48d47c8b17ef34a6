//! Messages between processes. `docs/src/wire.md` describes their encoding, which depends on the order of all variants
//! and fields.

use crate::part::requests::{
    EdgeIdsRequest, FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, LookUpRequest,
    OriginalsRequest, PullRequest, PushRequest, Refusal, SeedEdgesRequest, SplitRequest,
};
use crate::payload::Payload;
use crate::rpc::served::{CountedPieces, Current};
use crate::rpc::server_requests::{DescribeRequest, SampleRequest};
use crate::rpc::transport::CarriesPayload;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tarpc::{RequestName, Response};
use tokio::sync::OwnedSemaphorePermit;

/// Declares the requests and their methods, in the order of their numbers on the wire. A row has a method, the type and the
/// payload of its request, and its name in traces.
macro_rules! requests {
    ($($(#[$doc:meta])+ $method:ident($request:ident $(, $payload:ident)?) = $name:literal;)+) => {
        /// A request to the service that every process runs for its part.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub(crate) enum Request {
            $($(#[$doc])+ $method($request),)+
            /// Asks for a sign of life.
            Ping,
        }

        /// The method that a request calls, in the order of the variants of [`Request`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum Method {
            $($method,)+
            Ping,
        }

        impl Request {
            /// Returns the method that the request calls.
            pub(crate) fn method(&self) -> Method {
                match self {
                    $(Self::$method(_) => Method::$method,)+
                    Self::Ping => Method::Ping,
                }
            }

            fn payload(&self) -> Option<&Bytes> {
                match self {
                    $(Self::$method(_request) => [$(&_request.$payload)?].into_iter().next(),)+
                    Self::Ping => None,
                }
            }

            fn payload_mut(&mut self) -> Option<&mut Bytes> {
                match self {
                    $(Self::$method(_request) => [$(&mut _request.$payload)?].into_iter().next(),)+
                    Self::Ping => None,
                }
            }
        }

        impl RequestName for Request {
            fn name(&self) -> &str {
                match self {
                    $(Self::$method(_) => concat!("Sampling.", $name),)+
                    Self::Ping => "Sampling.ping",
                }
            }
        }

        $(
            impl From<$request> for Request {
                fn from(request: $request) -> Self {
                    Self::$method(request)
                }
            }
        )+
    };
}

requests! {
    /// Expands one hop.
    SampleHop(HopRequest, rows) = "sample_hop";
    /// Returns attributes of nodes.
    Fetch(FetchRequest, rows) = "fetch";
    /// Translates original ids to global ids.
    Find(FindRequest, originals) = "find";
    /// Returns the original ids in a range that the part owns.
    Originals(OriginalsRequest) = "originals";
    /// Translates keys in the part's share of the directory to global ids.
    LookUp(LookUpRequest, keys) = "look_up";
    /// Returns attributes of edges.
    FetchEdges(FetchEdgesRequest, edges) = "fetch_edges";
    /// Tests which pairs of nodes are edges.
    HasEdges(HasEdgesRequest, pairs) = "has_edges";
    /// Returns rows of an embedding.
    Pull(PullRequest, rows) = "pull";
    /// Receives gradients of rows of an embedding.
    Push(PushRequest, data) = "push";
    /// Describes a server and its graph.
    Describe(DescribeRequest) = "describe";
    /// Returns the nodes of a split that the part owns.
    Split(SplitRequest) = "split";
    /// Samples the neighborhood of a batch over all parts.
    Sample(SampleRequest, seeds) = "sample";
    /// Returns seed edges of the part.
    SeedEdges(SeedEdgesRequest, positions) = "seed_edges";
    /// Returns the ids of edges.
    EdgeIds(EdgeIdsRequest, edges) = "edge_ids";
}

/// The answer to a [`Request`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) method: Method,
    pub(crate) result: Result<ArrayReply, Refusal>,
}

/// The reply to a request, an array whose layout depends on the request.
///
/// - `sample_hop`: for each section, the number of neighbors of each row, then the neighbors of all rows (`u32`, global
///   ids), then, if requested, the position of each neighbor in its list.
/// - `fetch`: for each wanted attribute, in the order of the fields of [`NodeFields`], one value per row. Feature rows are
///   as stored, `f32` or `f16`.
/// - `fetch_edges`: the same by [`EdgeFields`], one value per edge.
/// - `find`: one global id per original id, `u32::MAX` for nodes that the part does not own.
/// - `originals`: the number of nodes in the range that the part owns, then the original ids of as many as fit in the
///   reply, ascending, then their rows, then, if requested, their in-degrees (`u32`).
/// - `look_up`: one global id per key.
/// - `has_edges`: one byte per pair, 1 if it is an edge.
/// - `pull`: the rows, `f32`.
/// - `push`: nothing.
/// - `describe`: the server and its graph, as JSON.
/// - `split`: the number of nodes of the split that the part owns, then the rows of as many as fit in the reply,
///   ascending.
/// - `sample`: the neighborhood, see [`encode_subgraph`](crate::batch::encoding::encode_subgraph).
/// - `seed_edges`: the low and the high half of the number of these edges that the part has, then per edge the source,
///   the destination, the low and the high half of its time, 0 if it has none, and its position among the in-edges of the
///   destination, 2^32 - 1 for a held-out edge and for a negative.
/// - `edge_ids`: one `i64` per edge; for texts, the number of bytes of each (`u32`), then the bytes of all.
/// - `ping`: nothing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ArrayReply {
    #[serde(skip)]
    pub(crate) data: Payload,
    /// The permit to work on the request. The server holds it until the connection takes the reply, so that replies to
    /// a slow connection take bounded memory.
    #[serde(skip)]
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
    /// Counts the request as in progress until then, unless the pieces of the reply do.
    #[serde(skip)]
    pub(crate) _in_progress: Option<Current>,
}

impl ArrayReply {
    pub(crate) fn new(data: impl Into<Payload>) -> Self {
        Self { data: data.into(), _permit: None, _in_progress: None }
    }

    /// Counts the request as in progress until the connection takes the reply and its last piece is made.
    pub(crate) fn count_in_progress(&mut self, in_progress: Current) {
        match self.data.pieces.take() {
            Some(pieces) => self.data.pieces = Some(Box::new(CountedPieces { pieces, _in_progress: in_progress })),
            None => self._in_progress = Some(in_progress),
        }
    }
}

impl Request {
    /// Returns the size of the payload in bytes.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload().map_or(0, Bytes::len)
    }
}

impl CarriesPayload for Request {
    fn take_payload(&mut self) -> Payload {
        self.payload_mut().map(std::mem::take).unwrap_or_default().into()
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Some(empty) = self.payload_mut() {
            *empty = payload;
        }
    }
}

impl CarriesPayload for Answer {
    fn take_payload(&mut self) -> Payload {
        self.result.as_mut().map(|reply| std::mem::take(&mut reply.data)).unwrap_or_default()
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Ok(reply) = &mut self.result {
            reply.data = payload.into();
        }
    }
}

impl CarriesPayload for Response<Answer> {
    fn take_payload(&mut self) -> Payload {
        self.message.as_mut().map(CarriesPayload::take_payload).unwrap_or_default()
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Ok(message) = &mut self.message {
            message.put_payload(payload);
        }
    }
    fn answered_request(&self) -> Option<u64> {
        Some(self.request_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_key::BatchKey;
    use crate::config::node_fields::{EdgeFields, NodeFields};
    use crate::config::sampling_policy::SamplingPolicy;
    use crate::part::requests::LookUpBy;
    use crate::payload::PieceSource;
    use crate::rpc::frame_writer::FrameWriter;
    use crate::rpc::served::Served;
    use crate::rpc::server_requests::{SeedLengths, WireSampler};
    use bytes::BytesMut;
    use edgecut_graph::{EdgeTypeId, Fanout, NodeTypeId, SeedEdgeSet, Split};
    use std::io;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    /// Returns a request of each method, in the order of their numbers on the wire.
    fn one_of_each() -> [Request; 15] {
        let none = Bytes::new;
        let node_type = NodeTypeId(3);
        let edge_type = EdgeTypeId(4);
        let rule = SamplingPolicy::default();
        let key = BatchKey { seed: 1, epoch: 2, batch: 3 };
        let sections = Vec::new();
        let positions = false;
        let disjoint = false;
        let wanted = NodeFields::default();
        let of_edges = EdgeFields::default();
        [
            Request::SampleHop(HopRequest { key, hop: 2, rule, disjoint, positions, sections, rows: none() }),
            Request::Fetch(FetchRequest::new(node_type, wanted, none())),
            Request::Find(FindRequest { node_type, originals: none() }),
            Request::Originals(OriginalsRequest { node_type, start: 0, end: 1, max_rows: 1, degrees: false }),
            Request::LookUp(LookUpRequest { node_type, by: LookUpBy::InEdge, keys: none() }),
            Request::FetchEdges(FetchEdgesRequest { edge_type, wanted: of_edges, edges: none() }),
            Request::HasEdges(HasEdgesRequest { edge_type, held_out: false, pairs: none() }),
            Request::Pull(PullRequest { table: 0, version: 5, rows: none() }),
            Request::Push(PushRequest { table: 0, version: 5, piece: 0, num_rows: 0, data: none() }),
            Request::Describe(DescribeRequest { when_connected: true }),
            Request::Split(SplitRequest { node_type, split: Split::Valid, start: 7 }),
            Request::Sample(SampleRequest {
                key,
                sampler: WireSampler { fanouts: vec![vec![Fanout::All]], rule, disjoint, positions },
                lengths: SeedLengths::default(),
                seeds: none(),
            }),
            Request::SeedEdges(SeedEdgesRequest {
                edge_type,
                set: SeedEdgeSet::Labeled(Split::Train),
                positions: none(),
            }),
            Request::EdgeIds(EdgeIdsRequest { edge_type, edges: none() }),
            Request::Ping,
        ]
    }

    #[test]
    fn requests_and_answers_begin_with_the_number_of_their_method() {
        for (number, request) in (0_u32..).zip(one_of_each()) {
            let head = bincode::serialize(&request).expect("a request");
            assert_eq!(head[..4], number.to_le_bytes(), "{request:?}");
            let method = request.method();
            let done = Answer { method, result: Ok(ArrayReply::new(Bytes::new())) };
            // The variant of the answer, then the variant `Ok` of its result.
            let expected = [number.to_le_bytes(), [0; 4]].concat();
            assert_eq!(bincode::serialize(&done).expect("an answer"), expected);
            let refused = Answer { method, result: Err(Refusal::TooLarge) };
            let expected = [number.to_le_bytes(), 1_u32.to_le_bytes(), [0; 4]].concat();
            assert_eq!(bincode::serialize(&refused).expect("an answer"), expected);
        }
    }

    #[test]
    fn payloads_are_not_part_of_the_head() {
        for mut request in one_of_each() {
            let empty = bincode::serialize(&request).expect("a request");
            request.put_payload(Bytes::from_static(&[7; 8]));
            assert_eq!(bincode::serialize(&request).expect("a request"), empty);
            let has_none =
                matches!(request.method(), Method::Originals | Method::Describe | Method::Split | Method::Ping);
            let expected = if has_none { 0 } else { 8 };
            assert_eq!(request.payload_bytes(), expected);
            assert_eq!(request.take_payload().len(), expected);
            assert_eq!(request.payload_bytes(), 0);
        }
    }

    /// The number of pieces of three bytes that are left.
    struct Pieces(usize);

    impl PieceSource for Pieces {
        fn bytes_left(&self) -> usize {
            3 * self.0
        }

        fn poll_piece(&mut self, _: &mut Context<'_>, _: &mut BytesMut) -> Poll<io::Result<Bytes>> {
            self.0 -= 1;
            Poll::Ready(Ok(Bytes::from_static(&[7; 3])))
        }
    }

    #[tokio::test]
    async fn a_request_is_in_progress_until_its_reply_is_made() {
        let served = Arc::new(Served::default());
        for num_pieces in [0, 1, 2] {
            let payload = Payload { bytes: Bytes::from_static(&[1; 8]), pieces: Some(Box::new(Pieces(num_pieces))) };
            let mut reply = ArrayReply::new(payload);
            reply.count_in_progress(served.request(0));
            let mut answer = Answer { method: Method::Fetch, result: Ok(reply) };
            let mut writer = FrameWriter::default();
            writer.push(Bytes::from_static(&[2; 16]), answer.take_payload());
            drop(answer);
            assert_eq!(served.count().in_progress, u64::from(num_pieces > 0));
            std::future::poll_fn(|cx| writer.poll_drain(&mut tokio::io::sink(), cx, 0)).await.expect("a sink");
            assert_eq!(served.count().in_progress, 0);
        }
        let mut reply = ArrayReply::new(Bytes::new());
        reply.count_in_progress(served.request(0));
        assert_eq!(served.count().in_progress, 1);
        drop(reply);
        assert_eq!(served.count().in_progress, 0);
    }
}

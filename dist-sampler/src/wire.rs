//! What processes ask each other, and the arrays that go with it.

use crate::config::Fanout;
use crate::constrained::Query;
use crate::received::ReceivedMessage;
use crate::rule::Rule;
use crate::transport::CarriesPayload;
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;

/// The service that every process runs for the part that it holds.
#[tarpc::service]
pub(crate) trait Sampling {
    /// Expands one hop.
    async fn sample_hop(request: HopRequest) -> Result<ArrayReply, Refusal>;
    /// Sends attributes of rows.
    async fn fetch(request: FetchRequest) -> Result<ArrayReply, Refusal>;
    /// Translates original ids to global ids.
    async fn find(request: FindRequest) -> Result<ArrayReply, Refusal>;
    /// Sends the original ids of a range that the part owns.
    async fn originals(request: OriginalsRequest) -> Result<ArrayReply, Refusal>;
    /// Translates keys of the part's share of the original ids to global ids.
    async fn look_up(request: LookUpRequest) -> Result<ArrayReply, Refusal>;
    /// Sends what edges carry.
    async fn fetch_edges(request: FetchEdgesRequest) -> Result<ArrayReply, Refusal>;
    /// Says which of some pairs of nodes are edges.
    async fn has_edges(request: HasEdgesRequest) -> Result<ArrayReply, Refusal>;
    /// Sends rows of an embedding.
    async fn pull(request: PullRequest) -> Result<ArrayReply, Refusal>;
    /// Takes gradients of rows of an embedding.
    async fn push(request: PushRequest) -> Result<ArrayReply, Refusal>;
}

/// All rows of one part that a hop expands, of all edge types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HopRequest {
    /// [`BatchKey::stream`](crate::BatchKey::stream) of the batch.
    pub(crate) stream: u64,
    /// The hop, counted from 0 at the seeds.
    pub(crate) hop: u16,
    /// Which neighbors may be drawn.
    pub(crate) rule: Rule,
    /// Whether each seed has a neighborhood of its own.
    pub(crate) disjoint: bool,
    /// Whether the positions of the neighbors in their lists are wanted.
    pub(crate) positions: bool,
    /// What to draw, an entry per edge type.
    pub(crate) sections: Vec<HopSection>,
    /// Rows of all sections end to end, [`HopRequest::words_per_row`] times `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

impl HopRequest {
    /// Whether any two neighbors are equally likely, nothing but its node decides what a row draws, and neighbors are all
    /// that is wanted.
    pub(crate) fn is_plain(&self) -> bool {
        !self.disjoint && !self.positions && !self.rule.weighted && self.rule.temporal.is_none()
    }

    /// What a row is followed by: its seed where neighborhoods are disjoint, then the two halves of the seed's time where
    /// times count, the low one first.
    pub(crate) fn words_per_row(&self) -> usize {
        words_per_row(self.disjoint, self.rule)
    }

    /// One row out of its words.
    pub(crate) fn query(&self, words: &[u32]) -> Query {
        let time = self.rule.temporal.and_then(|_| words.last_chunk::<2>());
        Query {
            row: words[0],
            group: self.disjoint.then(|| words[1]),
            time: time.map(|&[low, high]| (u64::from(high) << 32 | u64::from(low)) as i64),
        }
    }
}

/// See [`HopRequest::words_per_row`].
pub(crate) fn words_per_row(disjoint: bool, rule: Rule) -> usize {
    1 + usize::from(disjoint) + if rule.temporal.is_some() { 2 } else { 0 }
}

/// One edge type of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HopSection {
    pub(crate) edge_type: EdgeTypeId,
    /// `None` for all neighbors.
    pub(crate) fanout: Option<u32>,
    pub(crate) num_rows: u32,
}

impl HopSection {
    pub(crate) fn fanout(&self) -> Fanout {
        self.fanout.map_or(Fanout::All, Fanout::Count)
    }
}

/// Rows whose attributes are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FetchRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) wanted: Wanted,
    /// `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

/// Edges whose attributes are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FetchEdgesRequest {
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) wanted: WantedOfEdges,
    /// Per edge the destination's row and the edge's position among its in-edges, `u32`.
    #[serde(skip)]
    pub(crate) edges: Bytes,
}

/// Original ids that are looked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FindRequest {
    pub(crate) node_type: NodeTypeId,
    /// `u32` each.
    #[serde(skip)]
    pub(crate) originals: Bytes,
}

/// A range of original ids, of which those are wanted that the part owns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OriginalsRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The most nodes of a reply; the rest is asked for again.
    pub(crate) max_rows: u32,
    /// True if the in-degrees are wanted too, over all edge types.
    pub(crate) degrees: bool,
}

impl OriginalsRequest {
    /// Words of the reply per node.
    pub(crate) fn words_per_row(&self) -> usize {
        1 + usize::from(self.degrees)
    }
}

/// Keys of nodes that are looked for in the part's share of the original ids.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LookUpRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) by: LookUpBy,
    /// [`LookUpBy::words_per_key`] times `u32` each.
    #[serde(skip)]
    pub(crate) keys: Bytes,
}

/// The kind of key that nodes are looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LookUpBy {
    /// An original id of the share.
    OriginalId,
    /// The number of an in-edge of the share's nodes, counted node by node in the order of the original ids; its low and its
    /// high half.
    InEdge,
}

impl LookUpBy {
    pub(crate) fn words_per_key(self) -> usize {
        match self {
            Self::OriginalId => 1,
            Self::InEdge => 2,
        }
    }
}

/// Pairs of nodes that may be edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HasEdgesRequest {
    pub(crate) edge_type: EdgeTypeId,
    /// Whether held-out edges count as edges.
    pub(crate) held_out: bool,
    /// Per pair the destination's row and the source's global id, `u32`.
    #[serde(skip)]
    pub(crate) pairs: Bytes,
}

/// Rows of an embedding that are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PullRequest {
    pub(crate) table: u16,
    /// Steps that the rows have to have gone through.
    pub(crate) version: u64,
    /// `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

/// Gradients of rows of an embedding, for the step that follows a version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PushRequest {
    pub(crate) table: u16,
    pub(crate) version: u64,
    pub(crate) rank: u32,
    /// Which of this rank's pieces it is: one that comes twice counts once.
    pub(crate) piece: u32,
    pub(crate) num_rows: u32,
    /// The rows, `u32`, then their gradients, `f32`.
    #[serde(skip)]
    pub(crate) data: Bytes,
}

/// The arrays that answer a request.
///
/// - Of `sample_hop`: per section, the count of each row, then the neighbors of all rows (`u32`, global ids), then where
///   wanted the position of each in its list.
/// - Of `fetch`: per wanted attribute, in the order of [`Wanted`]'s fields, a value a row; feature rows as stored, `f32` or
///   `f16`. Of `fetch_edges`: the same by [`WantedOfEdges`], a value an edge.
/// - Of `find`: a global id per original id, `u32::MAX` where the part does not own it.
/// - Of `originals`: the nodes of the range that the part owns, the row of the first, then the original ids of as many as the
///   reply may hold, ascending, then where wanted their in-degrees (`u32`). Of `look_up`: a global id per key.
/// - Of `has_edges`: per pair a byte, 1 if it is an edge.
/// - Of `pull`: the rows, `f32`. Of `push`: nothing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ArrayReply {
    #[serde(skip)]
    pub(crate) data: Bytes,
    /// The permission to work on the request. The server holds it until the connection takes the reply, so that a slow
    /// connection bounds the replies in memory.
    #[serde(skip)]
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

/// Which attributes of nodes are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Labels, `i64`.
    pub labels: bool,
    /// Times, `i64`.
    pub times: bool,
    /// Original ids, `u32`.
    pub original_ids: bool,
    /// In-degrees in the whole graph, over all edge types into the node's type and at all times, `u32`.
    pub degrees: bool,
    /// Features, as stored.
    pub features: bool,
}

/// Which attributes of edges are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedOfEdges {
    /// Times, `i64`.
    pub times: bool,
    /// Weights, `f32`.
    pub weights: bool,
    /// Features, as stored.
    pub features: bool,
}

impl WantedOfEdges {
    /// Whether anything is.
    pub fn any(self) -> bool {
        self.times || self.weights || self.features
    }

    /// Bytes that an edge takes in a reply.
    pub(crate) fn bytes_per_edge(self, feature_bytes: usize) -> usize {
        let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        size(self.times, 8) + size(self.weights, 4) + size(self.features, feature_bytes)
    }
}

/// Why a request was not answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The reply would be larger than a message may be: ask for less.
    TooLarge,
    /// The request names something that is not there: the two processes hold parts of different graphs, or one is wrong.
    Invalid(String),
    /// The server failed.
    Failed(String),
}

impl CarriesPayload for SamplingRequest {
    fn take_payload(&mut self) -> Bytes {
        self.payload().map(std::mem::take).unwrap_or_default()
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Some(place) = self.payload() {
            *place = payload;
        }
    }
}

impl SamplingRequest {
    /// The response that refuses this request.
    pub(crate) fn refused(&self, refusal: Refusal) -> SamplingResponse {
        match self {
            Self::SampleHop { .. } => SamplingResponse::SampleHop(Err(refusal)),
            Self::Fetch { .. } => SamplingResponse::Fetch(Err(refusal)),
            Self::Find { .. } => SamplingResponse::Find(Err(refusal)),
            Self::Originals { .. } => SamplingResponse::Originals(Err(refusal)),
            Self::LookUp { .. } => SamplingResponse::LookUp(Err(refusal)),
            Self::FetchEdges { .. } => SamplingResponse::FetchEdges(Err(refusal)),
            Self::HasEdges { .. } => SamplingResponse::HasEdges(Err(refusal)),
            Self::Pull { .. } => SamplingResponse::Pull(Err(refusal)),
            Self::Push { .. } => SamplingResponse::Push(Err(refusal)),
        }
    }

    /// Bytes of the payload.
    pub(crate) fn payload_bytes(&self) -> usize {
        let payload = match self {
            Self::SampleHop { request } => &request.rows,
            Self::Fetch { request } => &request.rows,
            Self::Find { request } => &request.originals,
            Self::Originals { .. } => return 0,
            Self::LookUp { request } => &request.keys,
            Self::FetchEdges { request } => &request.edges,
            Self::HasEdges { request } => &request.pairs,
            Self::Pull { request } => &request.rows,
            Self::Push { request } => &request.data,
        };
        payload.len()
    }

    fn payload(&mut self) -> Option<&mut Bytes> {
        Some(match self {
            Self::SampleHop { request } => &mut request.rows,
            Self::Fetch { request } => &mut request.rows,
            Self::Find { request } => &mut request.originals,
            Self::Originals { .. } => return None,
            Self::LookUp { request } => &mut request.keys,
            Self::FetchEdges { request } => &mut request.edges,
            Self::HasEdges { request } => &mut request.pairs,
            Self::Pull { request } => &mut request.rows,
            Self::Push { request } => &mut request.data,
        })
    }
}

impl CarriesPayload for SamplingResponse {
    fn take_payload(&mut self) -> Bytes {
        let reply = self.reply();
        reply.as_mut().map(|reply| std::mem::take(&mut reply.data)).unwrap_or_default()
    }
    fn put_payload(&mut self, payload: Bytes) {
        let reply = self.reply();
        if let Ok(reply) = reply {
            reply.data = payload;
        }
    }
}

impl SamplingResponse {
    fn reply(&mut self) -> &mut Result<ArrayReply, Refusal> {
        let (Self::SampleHop(reply)
        | Self::Fetch(reply)
        | Self::Find(reply)
        | Self::Originals(reply)
        | Self::LookUp(reply)
        | Self::FetchEdges(reply)
        | Self::HasEdges(reply)
        | Self::Pull(reply)
        | Self::Push(reply)) = self;
        reply
    }
}

impl CarriesPayload for tarpc::ClientMessage<SamplingRequest> {
    fn take_payload(&mut self) -> Bytes {
        match self {
            Self::Request(request) => request.message.take_payload(),
            _ => Bytes::new(),
        }
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Self::Request(request) = self {
            request.message.put_payload(payload);
        }
    }
    fn from_head(head: &[u8]) -> bincode::Result<Self> {
        bincode::deserialize::<ReceivedMessage>(head).map(Self::from)
    }
}

impl CarriesPayload for tarpc::Response<SamplingResponse> {
    fn take_payload(&mut self) -> Bytes {
        self.message.as_mut().map(CarriesPayload::take_payload).unwrap_or_default()
    }
    fn put_payload(&mut self, payload: Bytes) {
        if let Ok(message) = &mut self.message {
            message.put_payload(payload);
        }
    }
}

//! Requests between processes, and the arrays that they carry.

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
    /// Returns attributes of nodes.
    async fn fetch(request: FetchRequest) -> Result<ArrayReply, Refusal>;
    /// Translates original ids to global ids.
    async fn find(request: FindRequest) -> Result<ArrayReply, Refusal>;
    /// Returns the original ids in a range that the part owns.
    async fn originals(request: OriginalsRequest) -> Result<ArrayReply, Refusal>;
    /// Translates keys in the part's share of the directory to global ids.
    async fn look_up(request: LookUpRequest) -> Result<ArrayReply, Refusal>;
    /// Returns attributes of edges.
    async fn fetch_edges(request: FetchEdgesRequest) -> Result<ArrayReply, Refusal>;
    /// Tests which pairs of nodes are edges.
    async fn has_edges(request: HasEdgesRequest) -> Result<ArrayReply, Refusal>;
    /// Returns rows of an embedding.
    async fn pull(request: PullRequest) -> Result<ArrayReply, Refusal>;
    /// Receives gradients of rows of an embedding.
    async fn push(request: PushRequest) -> Result<ArrayReply, Refusal>;
}

/// A request to expand one hop: all rows of one part, over all edge types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HopRequest {
    /// [`BatchKey::stream`](crate::BatchKey::stream) of the batch.
    pub(crate) stream: u64,
    /// The hop, counted from 0 at the seeds.
    pub(crate) hop: u16,
    /// The rule by which neighbors are drawn.
    pub(crate) rule: Rule,
    /// True if each seed has a separate neighborhood.
    pub(crate) disjoint: bool,
    /// True if the reply includes the positions of the neighbors in their lists.
    pub(crate) positions: bool,
    /// The fan-out and number of rows of each edge type.
    pub(crate) sections: Vec<HopSection>,
    /// Rows of all sections end to end, [`HopRequest::words_per_row`] `u32` values each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

impl HopRequest {
    /// Returns whether the hop is plain: neighborhoods are shared, neighbors are drawn uniformly without regard to
    /// times, and positions are not requested.
    pub(crate) fn is_plain(&self) -> bool {
        !self.disjoint && !self.positions && !self.rule.weighted && self.rule.temporal.is_none()
    }

    /// Returns the number of `u32` values per row: the row, then its seed if neighborhoods are disjoint, then the low
    /// and the high half of the seed's time in temporal sampling.
    pub(crate) fn words_per_row(&self) -> usize {
        words_per_row(self.disjoint, self.rule)
    }

    /// Decodes one row from its words.
    pub(crate) fn query(&self, words: &[u32]) -> Query {
        let time = self.rule.temporal.and_then(|_| words.last_chunk::<2>());
        Query {
            row: words[0],
            group: self.disjoint.then(|| words[1]),
            time: time.map(|&[low, high]| (u64::from(high) << 32 | u64::from(low)) as i64),
        }
    }
}

/// Returns [`HopRequest::words_per_row`] for a sampler's settings.
pub(crate) fn words_per_row(disjoint: bool, rule: Rule) -> usize {
    1 + usize::from(disjoint) + if rule.temporal.is_some() { 2 } else { 0 }
}

/// The rows of one edge type in a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HopSection {
    pub(crate) edge_type: EdgeTypeId,
    /// The number of neighbors to draw per row, `None` for all.
    pub(crate) fanout: Option<u32>,
    pub(crate) num_rows: u32,
}

impl HopSection {
    pub(crate) fn fanout(&self) -> Fanout {
        self.fanout.map_or(Fanout::All, Fanout::Count)
    }
}

/// A request for attributes of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FetchRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) wanted: Wanted,
    /// Rows in the part, `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

/// A request for attributes of edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FetchEdgesRequest {
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) wanted: WantedOfEdges,
    /// Per edge, the destination's row and the edge's position among its in-edges, `u32` each.
    #[serde(skip)]
    pub(crate) edges: Bytes,
}

/// A request for the global ids of original ids.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FindRequest {
    pub(crate) node_type: NodeTypeId,
    /// Original ids, `u32` each.
    #[serde(skip)]
    pub(crate) originals: Bytes,
}

/// A request for the original ids in a range that the part owns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OriginalsRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The most nodes in a reply. Further requests ask for the rest.
    pub(crate) max_rows: u32,
    /// True if the reply includes in-degrees over all edge types.
    pub(crate) degrees: bool,
}

impl OriginalsRequest {
    /// Returns the number of `u32` values per node in the reply.
    pub(crate) fn words_per_row(&self) -> usize {
        1 + usize::from(self.degrees)
    }
}

/// A request for the global ids of keys in the part's share of the directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LookUpRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) by: LookUpBy,
    /// Keys, [`LookUpBy::words_per_key`] `u32` values each.
    #[serde(skip)]
    pub(crate) keys: Bytes,
}

/// The kind of key in a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LookUpBy {
    /// An original id of the share, one word.
    OriginalId,
    /// The number of an in-edge of the share's nodes, counted node by node in the order of the original ids. Two words,
    /// the low half first.
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

/// A request to test which pairs of nodes are edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HasEdgesRequest {
    pub(crate) edge_type: EdgeTypeId,
    /// True if held-out edges count as edges.
    pub(crate) held_out: bool,
    /// Per pair, the destination's row and the source's global id, `u32` each.
    #[serde(skip)]
    pub(crate) pairs: Bytes,
}

/// A request for rows of an embedding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PullRequest {
    pub(crate) table: u16,
    /// The number of steps that the rows must have taken.
    pub(crate) version: u64,
    /// Rows in the part, `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

/// Gradients of rows of an embedding, for the step after a version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PushRequest {
    pub(crate) table: u16,
    pub(crate) version: u64,
    pub(crate) rank: u32,
    /// The number of this piece among the pieces of the rank. A piece that arrives twice counts once.
    pub(crate) piece: u32,
    pub(crate) num_rows: u32,
    /// The rows (`u32`), then their gradients (`f32`).
    #[serde(skip)]
    pub(crate) data: Bytes,
}

/// The reply to a request, an array whose layout depends on the request.
///
/// - `sample_hop`: for each section, the number of neighbors of each row, then the neighbors of all rows (`u32`, global
///   ids), then, if requested, the position of each neighbor in its list.
/// - `fetch`: for each wanted attribute, in the order of the fields of [`Wanted`], one value per row. Feature rows are
///   as stored, `f32` or `f16`.
/// - `fetch_edges`: the same by [`WantedOfEdges`], one value per edge.
/// - `find`: one global id per original id, `u32::MAX` for nodes that the part does not own.
/// - `originals`: the number of nodes in the range that the part owns, the row of the first, then the original ids of
///   as many as fit in the reply, ascending, then, if requested, their in-degrees (`u32`).
/// - `look_up`: one global id per key.
/// - `has_edges`: one byte per pair, 1 if it is an edge.
/// - `pull`: the rows, `f32`.
/// - `push`: nothing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ArrayReply {
    #[serde(skip)]
    pub(crate) data: Bytes,
    /// The permit to work on the request. The server holds it until the connection takes the reply, so that replies to
    /// a slow connection take bounded memory.
    #[serde(skip)]
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

/// The attributes of nodes to fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Labels, `i64`.
    pub labels: bool,
    /// Times, `i64`.
    pub times: bool,
    /// Original ids, `u32`.
    pub original_ids: bool,
    /// In-degrees in the whole graph, over all edge types into the node's type and over all times, `u32`.
    pub degrees: bool,
    /// Features, as stored.
    pub features: bool,
}

/// The attributes of edges to fetch.
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
    /// Returns whether any attribute is wanted.
    pub fn any(self) -> bool {
        self.times || self.weights || self.features
    }

    /// Returns the bytes of an edge in a reply.
    pub(crate) fn bytes_per_edge(self, feature_bytes: usize) -> usize {
        let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        size(self.times, 8) + size(self.weights, 4) + size(self.features, feature_bytes)
    }
}

/// The reason for refusing a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The reply would exceed the largest message. The client should ask for less.
    TooLarge,
    /// The request is invalid. The two processes hold parts of different graphs, or one of them is faulty.
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
    /// Returns the response that refuses this request.
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

    /// Returns the size of the payload in bytes.
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

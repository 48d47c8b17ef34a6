//! What processes ask each other, and the arrays that go with it.

use crate::config::Fanout;
use crate::transport::CarriesPayload;
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use serde::{Deserialize, Serialize};

/// The service that every process runs for the part that it holds.
#[tarpc::service]
pub(crate) trait Sampling {
    /// Expands one hop.
    async fn sample_hop(request: HopRequest) -> Result<ArrayReply, Refusal>;
    /// Sends attributes of rows.
    async fn fetch(request: FetchRequest) -> Result<ArrayReply, Refusal>;
    /// Translates original ids to global ids.
    async fn find(request: FindRequest) -> Result<ArrayReply, Refusal>;
}

/// All rows of one part that a hop expands, of all edge types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HopRequest {
    /// [`BatchKey::stream`](crate::BatchKey::stream) of the batch.
    pub(crate) stream: u64,
    /// The hop, counted from 0 at the seeds.
    pub(crate) hop: u16,
    /// What to draw, an entry per edge type.
    pub(crate) sections: Vec<HopSection>,
    /// Rows of all sections end to end, `u32`.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

/// One edge type of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HopSection {
    pub(crate) edge_type: EdgeTypeId,
    /// `None` for all neighbors.
    pub(crate) fanout: Option<u32>,
    pub(crate) replace: bool,
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

/// Original ids that are looked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FindRequest {
    pub(crate) node_type: NodeTypeId,
    /// `u32` each.
    #[serde(skip)]
    pub(crate) originals: Bytes,
}

/// The arrays that answer a request.
///
/// Of `sample_hop`: per section, the count of each row, then the neighbors of all rows (`u32`, global ids). Of `fetch`:
/// per wanted attribute, in the order of [`Wanted`]'s fields, a value a row; feature rows as stored, `f32` or `f16`. Of
/// `find`: a global id per original id, `u32::MAX` where the part does not own it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ArrayReply {
    #[serde(skip)]
    pub(crate) data: Bytes,
}

/// Which attributes of nodes are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Labels, `i64`.
    pub labels: bool,
    /// Original ids, `u32`.
    pub original_ids: bool,
    /// In-degrees in the whole graph, over all edge types into the node's type, `u32`.
    pub degrees: bool,
    /// Features, as stored.
    pub features: bool,
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
        std::mem::take(self.payload())
    }
    fn put_payload(&mut self, payload: Bytes) {
        *self.payload() = payload;
    }
}

impl SamplingRequest {
    fn payload(&mut self) -> &mut Bytes {
        match self {
            Self::SampleHop { request } => &mut request.rows,
            Self::Fetch { request } => &mut request.rows,
            Self::Find { request } => &mut request.originals,
        }
    }
}

impl CarriesPayload for SamplingResponse {
    fn take_payload(&mut self) -> Bytes {
        let (Self::SampleHop(reply) | Self::Fetch(reply) | Self::Find(reply)) = self;
        reply.as_mut().map(|reply| std::mem::take(&mut reply.data)).unwrap_or_default()
    }
    fn put_payload(&mut self, payload: Bytes) {
        let (Self::SampleHop(reply) | Self::Fetch(reply) | Self::Find(reply)) = self;
        if let Ok(reply) = reply {
            reply.data = payload;
        }
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

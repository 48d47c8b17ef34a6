//! Requests about one part, and the reasons to refuse them.

use crate::batch_key::BatchKey;
use crate::config::fan_out::Fanout;
use crate::config::node_fields::{EdgeFields, NodeFields};
use crate::config::sampling_policy::SamplingPolicy;
use crate::error::SampleError;
use crate::part::constrained_hop::Query;
use crate::payload::PayloadSink;
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, NodeTypeId, SeedEdgeSet, Split};
use serde::{Deserialize, Serialize};
use std::sync::Weak;

/// A request to expand one hop: all rows of one part, over all edge types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HopRequest {
    /// The key of the batch.
    pub(crate) key: BatchKey,
    /// The hop, counted from 0 at the seeds.
    pub(crate) hop: u16,
    /// The rule by which neighbors are drawn.
    pub(crate) rule: SamplingPolicy,
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
    /// Returns whether the hop is plain: neighborhoods are shared, the neighbors of each node are drawn uniformly and
    /// independently without regard to times and parts, and positions are not requested.
    pub(crate) fn is_plain(&self) -> bool {
        let SamplingPolicy { replace: _, weighted, temporal, labor, isolated } = self.rule;
        !self.disjoint && !self.positions && !weighted && temporal.is_none() && labor.is_none() && !isolated
    }

    /// Returns the number of `u32` values per row: the row, then the number that the draws for its seed depend on if
    /// neighborhoods are disjoint, then the low and the high half of the seed's time in temporal sampling.
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
pub(crate) fn words_per_row(disjoint: bool, rule: SamplingPolicy) -> usize {
    1 + usize::from(disjoint) + if rule.temporal.is_some() { 2 } else { 0 }
}

/// The rows of one edge type in a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HopSection {
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) fanout: Fanout,
    pub(crate) num_rows: u32,
}

/// A request for attributes of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FetchRequest {
    pub(crate) node_type: NodeTypeId,
    pub(crate) wanted: NodeFields,
    /// Rows in the part, `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
    /// The receiver of the reply while it arrives.
    #[serde(skip)]
    pub(crate) sink: Option<Weak<dyn PayloadSink>>,
}

impl FetchRequest {
    /// Creates a request for a reply that is used once it is complete.
    pub(crate) fn new(node_type: NodeTypeId, wanted: NodeFields, rows: Bytes) -> Self {
        Self { node_type, wanted, rows, sink: None }
    }
}

/// A request for attributes of edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FetchEdgesRequest {
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) wanted: EdgeFields,
    /// Per edge, the destination's row and the edge's position among its in-edges, `u32` each.
    #[serde(skip)]
    pub(crate) edges: Bytes,
}

/// A request for the ids of edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EdgeIdsRequest {
    pub(crate) edge_type: EdgeTypeId,
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
        2 + usize::from(self.degrees)
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

/// A request for rows of an embedding, or for computed rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PullRequest {
    pub(crate) table: u32,
    /// The number of steps that the rows must have taken; 0 for computed rows.
    pub(crate) version: u64,
    /// Rows in the part, or of computed rows in the file of the process, `u32` each.
    #[serde(skip)]
    pub(crate) rows: Bytes,
}

/// Gradients of rows of an embedding, for the step after a version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PushRequest {
    pub(crate) table: u32,
    pub(crate) version: u64,
    /// The number of this piece among the pieces of the rank that has opened the connection. A piece that arrives twice counts once.
    pub(crate) piece: u32,
    pub(crate) num_rows: u32,
    /// The rows (`u32`), then their gradients (`f32`).
    #[serde(skip)]
    pub(crate) data: Bytes,
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

/// The reason for refusing a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The reply would exceed the largest message. The client should ask for less.
    TooLarge,
    /// The request is invalid. The two processes hold parts of different graphs, or one of them is faulty.
    Invalid(String),
    /// The server failed.
    Failed(String),
    /// The server prepares its part for the request, which takes longer than a request. The client should ask again.
    Preparing,
}

impl Refusal {
    /// Converts a refusal by this process's own part to an error.
    pub(crate) fn by_own_part(self) -> SampleError {
        let what = match self {
            Self::TooLarge => "the reply of this process's own part is larger than memory can address".into(),
            Self::Invalid(why) | Self::Failed(why) => why,
            Self::Preparing => "this process's own part is not prepared yet".into(),
        };
        SampleError::Internal { what }
    }
}

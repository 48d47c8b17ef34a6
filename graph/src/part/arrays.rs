//! The arrays of a part, per node type and per edge type.

use super::Csc;
use crate::NodeTypeId;
use crate::dataset::{EdgeAttributes, HeldOutEdges, Splits};
use crate::memory::{Buffer, Features};

/// The owned nodes of one type, in ascending order of their original ids. The *row* of a node is its global id minus
/// the start of the part's range.
#[derive(Clone, Debug)]
pub struct PartNodes {
    /// The original id of each row, strictly ascending.
    pub original_ids: Buffer<u32>,
    /// The features of each row, if the type has features.
    pub features: Option<Features>,
    /// The class of each row, -1 if unlabeled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// The rows of the training, validation and test nodes, ascending.
    pub splits: Splits,
    /// The time of each row, if the type has times.
    pub times: Option<Buffer<i64>>,
}

/// The in-edges of the owned nodes, for one edge type.
#[derive(Clone, Debug)]
pub struct PartEdges {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The in-neighbors. Rows are the owned destinations, and indices are global ids of sources.
    pub csc: Csc,
    /// The features, weights and times of the edges, in the order of the indices.
    pub attributes: EdgeAttributes,
    /// The time of each edge's source, in the order of the indices, if the source type has times.
    pub src_times: Option<Buffer<i64>>,
    /// The held-out edges into the owned destinations. Both ends are global ids.
    pub held_out: HeldOutEdges,
}

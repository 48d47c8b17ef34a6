//! The counts of overlaps.

use super::undeclared::UndeclaredReverse;
use serde::Serialize;

/// The overlaps of a graph. Only types with an overlap are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overlaps {
    /// The node types with nodes in two splits.
    pub node_types: Vec<NodeOverlap>,
    /// The edge types with held-out edges that also appear elsewhere.
    pub edge_types: Vec<EdgeOverlap>,
}

/// The nodes of one type that are in two splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeOverlap {
    /// The name of the type.
    pub node_type: String,
    /// The number of training nodes that are also validation nodes.
    pub train_valid: u64,
    /// The number of training nodes that are also test nodes.
    pub train_test: u64,
    /// The number of validation nodes that are also test nodes.
    pub valid_test: u64,
}

/// The held-out edges of one type that also appear elsewhere. Each pair of numbers counts validation and test edges.
///
/// If both training and held-out edges have times, two edges are the same only if their ends and times are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EdgeOverlap {
    /// The name of the type, such as `author__writes__paper`.
    pub edge_type: String,
    /// The number of held-out edges.
    pub held_out: [u64; 2],
    /// The number of held-out edges that are also training edges.
    pub in_train: [u64; 2],
    /// The number of held-out edges whose reverse is a training edge of the same type. In a directed graph the reverse
    /// is a separate edge; in an undirected graph it is the same edge.
    pub mirrored_in_train: [u64; 2],
    /// The number of held-out edges whose reverse is a training edge of the type declared as reverse, by the prefix
    /// `rev_` or by settings.
    pub in_reverse_type: [u64; 2],
    /// The number of held-out edges whose ends are joined by training edges, but only at other times.
    pub at_other_times: [u64; 2],
    /// The number of validation edges that are also test edges.
    pub valid_in_test: u64,
    /// The number of validation edges whose reverse is a test edge.
    pub valid_mirrored_in_test: u64,
    /// The types that hold the reverses of at least half of the held-out edges, and are not declared as reverse.
    pub undeclared_reverses: Vec<UndeclaredReverse>,
}

impl Overlaps {
    /// Returns true if there are no overlaps.
    pub fn is_empty(&self) -> bool {
        self.node_types.is_empty() && self.edge_types.is_empty()
    }
}

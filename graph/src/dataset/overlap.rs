//! Training data among the data that judges a model.

mod count;
mod remove;
mod words;

pub(crate) use count::count_in_parts;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The treatment of held-out edges that are training edges as well, and of nodes that are in two splits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlapPolicy {
    /// Reading fails, with the counts.
    #[default]
    Error,
    /// Training edges that are held out are dropped, and validation edges that are test edges. A node stays in the last
    /// of its splits: test, else validation.
    Remove,
    /// Everything stays as it is.
    Allow,
}

impl fmt::Display for OverlapPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Remove => "remove",
            Self::Allow => "allow",
        })
    }
}

impl FromStr for OverlapPolicy {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "error" => Ok(Self::Error),
            "remove" => Ok(Self::Remove),
            "allow" => Ok(Self::Allow),
            _ => Err(format!("{word:?} is none of error, remove and allow")),
        }
    }
}

/// The overlaps of a graph: only types with an overlap are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overlaps {
    /// Node types with nodes in two splits.
    pub node_types: Vec<NodeOverlap>,
    /// Edge types with held-out edges that are found elsewhere.
    pub edge_types: Vec<EdgeOverlap>,
}

/// Nodes of one type that are in two splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeOverlap {
    /// The type's name.
    pub node_type: String,
    /// Training nodes that are validation nodes.
    pub train_valid: u64,
    /// Training nodes that are test nodes.
    pub train_test: u64,
    /// Validation nodes that are test nodes.
    pub valid_test: u64,
}

/// Held-out edges of one type that are found elsewhere. Pairs of numbers count validation and test edges.
///
/// If training and held-out edges have times, two edges are the same if their ends and their times are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EdgeOverlap {
    /// The type's name, such as `author__writes__paper`.
    pub edge_type: String,
    /// Held-out edges.
    pub held_out: [u64; 2],
    /// Held-out edges that are training edges.
    pub in_train: [u64; 2],
    /// Held-out edges whose reverse is a training edge of the same type. In a directed graph that is an edge of its
    /// own; in an undirected one it is the same edge.
    pub mirrored_in_train: [u64; 2],
    /// Held-out edges whose reverse is a training edge of the type that `rev_` declares as the reverse of this one.
    pub in_reverse_type: [u64; 2],
    /// Held-out edges whose ends a training edge joins at another time only.
    pub at_other_times: [u64; 2],
    /// Validation edges that are test edges.
    pub valid_in_test: u64,
    /// Validation edges whose reverse is a test edge.
    pub valid_mirrored_in_test: u64,
}

impl Overlaps {
    /// Returns whether nothing overlaps.
    pub fn is_empty(&self) -> bool {
        self.node_types.is_empty() && self.edge_types.is_empty()
    }
}

#[cfg(test)]
mod tests;

//! Changes of the graph of existing parts: new, changed and removed nodes and edges.
//!
//! [`PartsUpdate`] applies the changes to one part after the other and writes it. New nodes get a part from the caller. No array
//! of the whole graph is made.
//!
//! Invariant: nodes that stay keep their part and their order, and new nodes come after them. The in-edges of a node keep their
//! order, and added edges come after them, except in undirected graphs, whose in-edges are sorted. The result is what writing the
//! whole graph with this assignment gives.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod added;
mod edges;
mod fit;
mod known_pairs;
mod nodes;
mod numbers;
mod parts_update;
mod write;

pub use known_pairs::known_pairs;
pub use parts_update::{Neighbor, NewNodes, PartQuantities, PartsUpdate, UpdatedEdges};
pub use write::UpdatedParts;

use crate::dataset::{EdgeData, NodeData, OverlapPolicy};
use crate::memory::Workspace;

/// Changes of the graph of existing parts. Types are those of the parts, in their order.
#[derive(Clone, Debug)]
pub struct GraphUpdate {
    /// The changes of each node type.
    pub node_types: Vec<NodeUpdate>,
    /// The changes of each edge type.
    pub edge_types: Vec<EdgeUpdate>,
}

/// Changes of the nodes of a type.
#[derive(Clone, Debug)]
pub struct NodeUpdate {
    /// True for each node that is removed, by original id.
    pub removed: Vec<bool>,
    /// The attributes of changed and new nodes, with features of the stored type of the parts. The splits have rows of nodes
    /// that are in no split yet. A changed node whose row has no label keeps its own, so that it stays in its split.
    pub rows: NodeData,
    /// The number after the update of the node of each row. Nodes that stay have the numbers from 0, in the order of their
    /// original ids. New nodes have the numbers after them.
    pub numbers: Vec<u32>,
}

/// Changes of the edges of a type.
#[derive(Clone, Debug, Default)]
pub struct EdgeUpdate {
    /// The ends of edges that are removed, as original ids before the update. All edges between the two nodes are removed.
    pub removed: Vec<[u32; 2]>,
    /// True if `removed` also removes the edges in the other direction.
    pub removes_both_directions: bool,
    /// The edges that are added, with ends in the numbers after the update.
    pub added: Option<EdgeData>,
}

/// The rules that an update follows.
#[derive(Clone, Debug, Default)]
pub struct UpdateRules {
    /// True if edges of types that join a node type to itself have their reverses.
    pub to_undirected: bool,
    /// True to keep held-out edges of such types sorted by their ends, each edge once.
    pub sorts_held_out: bool,
    /// The treatment of held-out edges that are also training edges.
    pub overlap: OverlapPolicy,
    /// Pairs of edge types that are each other's reverse, in addition to types that are named with `rev_`.
    pub reverse_types: Vec<(String, String)>,
    /// The place for the edges of a part.
    pub space: Workspace,
}

/// The numbers of edges of a type that were removed. Held-out edges count as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedCounts {
    /// The edges between two nodes that the update lists.
    pub listed: u64,
    /// The other edges, of which an end was removed.
    pub with_nodes: u64,
    /// The first pair of nodes that the update lists, but that no edge joins.
    pub first_unmatched: Option<[u32; 2]>,
    /// The number of such pairs.
    pub num_unmatched: u64,
}

//! The quality of a partitioning.

use serde::{Deserialize, Serialize};

/// The quality of a partitioning: sizes and cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The size of each part.
    pub parts: Vec<PartMeta>,
    /// The number of edges whose ends are in different parts.
    pub cut_edges: u64,
    /// `cut_edges` divided by the number of all edges.
    pub cut_fraction: f64,
    /// The expected fraction of remote nodes among a node's sampled in-neighbors: the fraction of in-neighbors that
    /// another part owns, averaged over all nodes with in-neighbors.
    pub remote_neighbor_fraction: f64,
}

/// The size of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartMeta {
    /// The number of owned nodes of all types.
    pub nodes: u64,
    /// The number of edges whose destination is owned.
    pub edges: u64,
    /// The number of owned training nodes.
    pub train_nodes: u64,
    /// The number of distinct nodes of other parts that are sources of this part's edges.
    pub halo_nodes: u64,
}

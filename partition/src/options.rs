//! What a caller may choose.

use edgecut_graph::{HoldOut, OverlapPolicy};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// How to split a graph. The same options on the same dataset give the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOptions {
    /// The number of parts; at least 1 and at most the number of nodes.
    pub num_parts: u32,
    /// Who decides where a node goes.
    pub method: Method,
    /// The seed of every random choice.
    pub seed: u64,
    /// What is to be spread evenly. What a graph lacks is left out, and with nothing left nodes are balanced. Random
    /// assignment balances nodes whatever is asked.
    pub balance: Vec<Balance>,
    /// The split scheme that the dataset was read with; only noted in `META.json`.
    pub split: Option<String>,
    /// Whether the dataset was read with the reverse of every edge added; only noted in `META.json`.
    pub to_undirected: bool,
    /// Whether the dataset was read with a reverse for each edge type; only noted in `META.json`.
    pub add_reverse_edges: bool,
    /// The edges that were held out when the dataset was read; only noted in `META.json`.
    pub hold_out_edges: Option<HoldOut>,
    /// The treatment of overlapping splits when the dataset was read; only noted in `META.json`.
    pub overlap: OverlapPolicy,
    /// Whether a partitioned graph that is there already is replaced.
    pub overwrite: bool,
}

impl PartitionOptions {
    /// METIS k-way, seed 0, nodes, edges and training nodes balanced, nothing overwritten.
    pub fn new(num_parts: u32) -> Self {
        Self {
            num_parts,
            method: Method::default(),
            seed: 0,
            balance: Balance::ALL.to_vec(),
            split: None,
            to_undirected: false,
            add_reverse_edges: false,
            hold_out_edges: None,
            overlap: OverlapPolicy::default(),
            overwrite: false,
        }
    }
}

impl Default for PartitionOptions {
    /// The options of [`PartitionOptions::new`] for two parts.
    fn default() -> Self {
        Self::new(2)
    }
}

/// Who decides which part a node goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Multilevel partitioning by METIS (Karypis & Kumar 1998): the smallest cut, and the most time and memory.
    Metis {
        /// Bisect recursively, instead of finding all parts at once (k-way). Two parts are one bisection either way,
        /// which is held to METIS's tighter balance of recursive bisection only if this is asked for.
        recursive: bool,
    },
    /// Linear deterministic greedy streaming (Stanton & Kliot 2012), five passes: faster than METIS, with a larger cut.
    Ldg,
    /// A random part for each node: the largest cut, the best balance of nodes.
    Random,
}

impl Default for Method {
    fn default() -> Self {
        Self::Metis { recursive: false }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Metis { .. } => "metis",
            Self::Ldg => "ldg",
            Self::Random => "random",
        })
    }
}

/// A quantity that parts should have equal shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Balance {
    /// Nodes, of each larger node type on its own.
    Nodes,
    /// Edges, which live with their destination.
    Edges,
    /// Training nodes.
    Train,
}

impl Balance {
    /// All quantities, in the order in which they are noted.
    pub const ALL: [Balance; 3] = [Balance::Nodes, Balance::Edges, Balance::Train];
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nodes => "nodes",
            Self::Edges => "edges",
            Self::Train => "train",
        })
    }
}

impl FromStr for Balance {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|b| b.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is none of nodes, edges, train"))
    }
}

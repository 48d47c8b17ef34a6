//! The options of partitioning.

use edgecut_graph::{HoldOut, HotnessRule, OverlapPolicy};
use edgecut_settings::words;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// The options for splitting a graph. The same options on the same dataset give the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOptions {
    /// The number of parts; at least 1 and at most the number of nodes.
    pub num_parts: u32,
    /// The method that assigns nodes to parts.
    pub method: Method,
    /// The seed of every random choice.
    pub seed: u64,
    /// The quantities to spread evenly. Quantities that the graph lacks are left out; if none is left, nodes are
    /// balanced. Random assignment always balances nodes.
    pub balance: Vec<Balance>,
    /// The split scheme that the dataset was read with; only recorded in `META.json`.
    pub split: Option<String>,
    /// True if the dataset was read with the reverse of every edge added; only recorded in `META.json`.
    pub to_undirected: bool,
    /// True if the dataset was read with a reverse edge type for each edge type; only recorded in `META.json`.
    pub add_reverse_edges: bool,
    /// The edges that were held out when the dataset was read; only recorded in `META.json`.
    pub hold_out_edges: Option<HoldOut>,
    /// The treatment of overlapping splits when the dataset was read; only recorded in `META.json`.
    pub overlap: OverlapPolicy,
    /// The pairs of edge types that were declared as each other's reverse when the dataset was read; only recorded in
    /// `META.json`.
    pub reverse_types: Vec<(String, String)>,
    /// True if the dataset was read with the positions of edges as their ids; only recorded in `META.json`.
    pub edge_ids: bool,
    /// The rule by which the nodes of other parts are ranked for each part, so that training caches the features that
    /// it reads most often. `None` writes no ranking.
    pub hotness: Option<HotnessRule>,
    /// A folder on a disk for temporary files of METIS, which then takes about half as much memory. `None`, or a limit of
    /// memory, keeps its data in memory. The folder is created if it does not exist.
    pub scratch_dir: Option<PathBuf>,
    /// True to replace an existing partitioned graph at the output folder.
    pub overwrite: bool,
    /// The limit of memory that METIS must fit into, for a run in scratch files.
    pub memory_limit: Option<MemoryLimit>,
}

/// A limit of the anonymous memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// True to replace METIS by a method of [`Method::BEYOND_METIS`] if it does not fit, instead of failing.
    pub replaces_metis: bool,
}

impl PartitionOptions {
    /// Returns the defaults: METIS k-way, seed 0, nodes, edges and training nodes balanced, nothing overwritten.
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
            reverse_types: Vec::new(),
            edge_ids: false,
            hotness: None,
            scratch_dir: None,
            overwrite: false,
            memory_limit: None,
        }
    }
}

impl Default for PartitionOptions {
    /// Returns the options of [`PartitionOptions::new`] for two parts.
    fn default() -> Self {
        Self::new(2)
    }
}

/// The method that assigns nodes to parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Multilevel partitioning by METIS (Karypis & Kumar 1998): the smallest cut, at the highest cost in time and
    /// memory.
    Metis {
        /// Bisect recursively instead of finding all parts at once (k-way). Two parts are found by one bisection in
        /// either case; only with `recursive` does METIS hold it to its tighter balance of recursive bisection.
        recursive: bool,
    },
    /// Semi-external multilevel partitioning (Akhremtsev, Sanders & Schulz 2014) by size-constrained label propagation
    /// (Meyerhenke, Sanders & Schulz 2014): a cut close to that of METIS, in memory that depends on the number of nodes but not on
    /// that of edges. Edges are streamed in some 20 passes.
    SemiExternal,
    /// Linear deterministic greedy streaming (Stanton & Kliot 2012), five passes: faster than METIS, with a larger cut.
    Ldg,
    /// A random part for each node: the largest cut, the best balance of nodes.
    Random,
}

impl Method {
    /// The methods that take less memory than METIS, in the order of their cuts.
    pub const BEYOND_METIS: [Self; 2] = [Self::SemiExternal, Self::Ldg];
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
            Self::SemiExternal => "semi-external",
            Self::Ldg => "ldg",
            Self::Random => "random",
        })
    }
}

/// A quantity of which each part should have an equal share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Balance {
    /// Nodes; the larger node types are each balanced separately.
    Nodes,
    /// Edges, which are stored with their destination.
    Edges,
    /// Training nodes.
    Train,
}

impl Balance {
    /// All quantities, in the order in which `META.json` lists them.
    pub const ALL: [Balance; 3] = [Balance::Nodes, Balance::Edges, Balance::Train];
}

words!(Balance, "quantity to balance", Nodes = "nodes", Edges = "edges", Train = "train");

//! The record of how parts were made.

use super::HotnessRule;
use crate::dataset::{HoldOutChoice, OverlapPolicy};
use serde::{Deserialize, Serialize};

/// The parameters of a partitioning. The same parameters on the same data give the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The partitioning method: `metis`, `semi-external`, `ldg` or `random`, or `whole` for a dataset
    /// that was not partitioned.
    pub method: String,
    /// True if METIS used recursive bisection.
    pub recursive: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// The balanced quantities, any of `nodes`, `edges` and `train`.
    pub balance: Vec<String>,
    /// The split scheme, for a dataset with several of them.
    pub split: Option<String>,
    /// True if the reverse of every edge was added on request. Defaults to false for older descriptions without this
    /// field.
    #[serde(default)]
    pub to_undirected: bool,
    /// True if a reverse edge type was added for each edge type.
    #[serde(default)]
    pub add_reverse_edges: bool,
    /// The shares of edges held out for validation and test. The choice uses the seed above.
    #[serde(default)]
    pub hold_out_edges: Option<[f64; 2]>,
    /// The criterion by which edges were held out.
    #[serde(default)]
    pub hold_out_choice: HoldOutChoice,
    /// The treatment of overlapping splits. Defaults to `error` for older descriptions without this field.
    #[serde(default)]
    pub overlap: OverlapPolicy,
    /// Pairs of edge types that were declared as each other's reverse when overlaps were compared, in addition to types that
    /// are named with `rev_`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverse_types: Vec<(String, String)>,
    /// True if the ids of all edges are their positions in the dataset. Otherwise edges have ids of their table, or none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edge_ids: bool,
    /// The rule by which each part's hot nodes of other parts were ranked, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hotness: Option<HotnessRule>,
    /// The updates since the partitioning, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
}

/// The updates of parts, and the quality of their partitioning before the first one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// The number of updates.
    pub number: u32,
    /// The fraction of edges whose ends were in different parts.
    pub cut_fraction: f64,
    /// The nodes of the largest part over the mean.
    pub node_balance: f64,
    /// The edges of the largest part over the mean.
    pub edge_balance: f64,
}

impl Provenance {
    /// Returns the record of a graph that was not partitioned. It does not tell how the graph was loaded.
    pub(crate) fn whole() -> Self {
        Self { method: "whole".into(), ..Self::default() }
    }
}

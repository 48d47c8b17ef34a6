//! The split of a set of graphs.

use crate::seed_task::TaskData;
use edgecut_graph::GraphDataset;
use std::sync::Arc;

/// The training, validation and test graphs, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSplit {
    /// The graphs to train on.
    pub train: Vec<u32>,
    /// The graphs that select the best epoch. If empty, the last epoch is the best.
    pub valid: Vec<u32>,
    /// The graphs that are evaluated once, at the end.
    pub test: Vec<u32>,
}

/// A set of graphs, and its split.
pub struct SplitGraphs {
    /// The graphs.
    pub graphs: Arc<GraphDataset>,
    /// Their split.
    pub split: GraphSplit,
}

impl TaskData for SplitGraphs {}

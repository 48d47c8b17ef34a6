//! The split of a set of graphs.

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

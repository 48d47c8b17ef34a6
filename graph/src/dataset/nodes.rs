//! The nodes of one type.

use super::{NodeLabel, Splits, Targets};
use crate::memory::{Buffer, Features};

/// The nodes of one type.
#[derive(Clone, Debug, Default)]
pub struct NodeData {
    /// The name of the type.
    pub name: String,
    /// The number of nodes.
    pub num_nodes: usize,
    /// The features, `[num_nodes, dim]`, if the type has features.
    pub features: Option<Features>,
    /// The class of each node, -1 if unlabeled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// The number of classes: one more than the largest label, 0 without labels.
    pub num_classes: usize,
    /// The training, validation and test nodes.
    pub splits: Splits,
    /// The creation time of each node, in the unit of all times of the graph, if the type has times.
    pub times: Option<Buffer<i64>>,
    /// Numbers to predict for each node. A type has either labels or targets, or none of them.
    pub targets: Option<Targets>,
    /// The name of the label above, if the type has several labels.
    pub label_name: Option<String>,
    /// The labels after the first one.
    pub more_labels: Vec<NodeLabel>,
}

impl NodeData {
    /// Returns true if the label or a target of the node is known, or if the type has neither labels nor targets.
    pub fn is_labeled(&self, node: u32) -> bool {
        let node = node as usize;
        match (&self.labels, &self.targets) {
            (Some(labels), _) => labels.get(node).is_some_and(|&label| label >= 0),
            (None, Some(targets)) => targets.is_known(node),
            (None, None) => true,
        }
    }
}

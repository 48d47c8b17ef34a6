//! The nodes of one type.

use super::Splits;
use crate::memory::{Buffer, Features};

/// The nodes of one type.
///
/// ```
/// use edgecut_graph::{Features, NodeData, Splits};
/// let nodes = NodeData {
///     name: "paper".into(),
///     num_nodes: 2,
///     features: Some(Features::F32 { values: vec![0.5, 1.0, 1.5, 2.0].into(), dim: 2 }),
///     labels: Some(vec![0, 1].into()),
///     num_classes: 2,
///     splits: Splits { train: vec![0].into(), test: vec![1].into(), ..Splits::default() },
///     times: None,
/// };
/// assert_eq!(nodes.features.map(|features| features.num_rows()), Some(nodes.num_nodes));
/// ```
#[derive(Clone, Debug)]
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
    /// The creation time of each node, in any unit, if the type has times.
    pub times: Option<Buffer<i64>>,
}

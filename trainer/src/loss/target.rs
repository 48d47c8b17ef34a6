//! The values that a model learns to predict.

use edgecut_dist_sampler::NodeAttributes;
use edgecut_graph::{EdgeLabelKind, EdgeTypeMeta, GraphDataset, NodeLabelMeta, NodeTypeMeta, TargetKind, TargetMeta};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The values that the outputs for a batch's seeds are compared with, a row per seed.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// The class of each seed, from 0.
    Classes(Vec<i64>),
    /// Numbers, or labels that are 1 or 0.
    Numbers {
        /// `[num_seeds, dim]`, row-major. NaN is an unknown value, which neither losses nor metrics count.
        values: Vec<f32>,
        /// The numbers of a seed, at least 1.
        dim: usize,
    },
}

impl Default for Target {
    /// Returns the target of a batch without seeds.
    fn default() -> Self {
        Self::Classes(Vec::new())
    }
}

impl Target {
    /// Returns the target of seeds with these labels, or with numbers if there are `dim` for each seed.
    pub(crate) fn new(labels: Vec<i64>, values: Vec<f32>, dim: usize) -> Self {
        if dim > 0 { Self::Numbers { values, dim } } else { Self::Classes(labels) }
    }

    /// Returns the target of nodes that were fetched with their labels.
    pub fn of_nodes(nodes: NodeAttributes) -> Self {
        Self::new(nodes.labels, nodes.targets, nodes.target_dim)
    }

    /// Adds the seeds of another target of the same kind.
    pub(crate) fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Classes(labels), Self::Classes(others)) => labels.extend(others),
            (Self::Numbers { values, .. }, Self::Numbers { values: others, .. }) => values.extend(others),
            // The batches of a task have targets of one kind.
            (Self::Classes(_), Self::Numbers { .. }) | (Self::Numbers { .. }, Self::Classes(_)) => {}
        }
    }

    /// Returns the number of seeds.
    pub fn num_seeds(&self) -> usize {
        match self {
            Self::Classes(labels) => labels.len(),
            Self::Numbers { values, dim } => values.len() / dim,
        }
    }

    /// Returns the number of known values.
    pub fn num_known(&self) -> usize {
        match self {
            Self::Classes(labels) => labels.len(),
            Self::Numbers { values, .. } => values.iter().filter(|value| !value.is_nan()).count(),
        }
    }

    /// Returns the class of each seed; empty for numbers.
    pub fn classes(&self) -> &[i64] {
        match self {
            Self::Classes(labels) => labels,
            Self::Numbers { .. } => &[],
        }
    }

    /// Returns the numbers of all seeds, row by row; empty for classes.
    pub fn numbers(&self) -> &[f32] {
        match self {
            Self::Classes(_) => &[],
            Self::Numbers { values, .. } => values,
        }
    }
}

/// The meaning of targets, or of the outputs of a model.
///
/// ```
/// use edgecut_trainer::loss::OutputKind;
/// assert_eq!(OutputKind::Labels(3).to_string(), "there are 3 labels");
/// assert_eq!(serde_json::to_string(&OutputKind::Numbers(1))?, r#"{"numbers":1}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// One of this number of classes. Outputs are a logit per class.
    Classes(usize),
    /// This number of labels; each applies or does not. Outputs are a logit per label.
    Labels(usize),
    /// This number of numbers, which the outputs approximate.
    Numbers(usize),
}

impl OutputKind {
    /// Returns the meaning of the targets of a node type; `None` if it has neither classes nor numbers.
    pub fn of_nodes(nodes: &NodeTypeMeta) -> Option<Self> {
        Self::of_label(&nodes.label(0))
    }

    /// Returns the meaning of the targets of a label; `None` if it has neither classes nor numbers.
    pub fn of_label(label: &NodeLabelMeta) -> Option<Self> {
        match label.targets {
            Some(targets) => Some(Self::of_targets(targets)),
            None if label.has_labels && label.num_classes > 0 => Some(Self::Classes(label.num_classes)),
            None => None,
        }
    }

    /// Returns the meaning of the labels of an edge type; `None` if it has none.
    pub fn of_edges(edges: &EdgeTypeMeta) -> Option<Self> {
        match edges.labels?.values {
            EdgeLabelKind::Targets(targets) => Some(Self::of_targets(targets)),
            EdgeLabelKind::NumClasses(0) => None,
            EdgeLabelKind::NumClasses(num_classes) => Some(Self::Classes(num_classes)),
        }
    }

    /// Returns the meaning of the targets of a set of graphs.
    pub fn of_graphs(graphs: &GraphDataset) -> Self {
        match graphs.targets() {
            Some(targets) => Self::of_targets(targets.meta()),
            None => Self::Classes(graphs.classes().len()),
        }
    }

    fn of_targets(TargetMeta { dim, kind }: TargetMeta) -> Self {
        match kind {
            TargetKind::MultiLabel => Self::Labels(dim),
            TargetKind::Regression => Self::Numbers(dim),
        }
    }

    /// Returns the meaning of outputs that approximate labels or numbers as numbers; `None` for classes.
    pub fn as_numbers(self) -> Option<Self> {
        match self {
            Self::Classes(_) => None,
            Self::Labels(width) | Self::Numbers(width) => Some(Self::Numbers(width)),
        }
    }

    /// Returns the number of classes, labels or numbers.
    pub fn width(self) -> usize {
        match self {
            Self::Classes(width) | Self::Labels(width) | Self::Numbers(width) => width,
        }
    }
}

impl fmt::Display for OutputKind {
    /// Writes the kind as a statement about targets, for errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, one, several) = match self {
            Self::Classes(number) => (number, "class", "classes"),
            Self::Labels(number) => (number, "label", "labels"),
            Self::Numbers(number) => (number, "number to predict", "numbers to predict"),
        };
        match number {
            1 => write!(f, "there is 1 {one}"),
            _ => write!(f, "there are {number} {several}"),
        }
    }
}

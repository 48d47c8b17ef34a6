//! Labels of edges, and the edges that train and evaluate a model.

use super::{Split, TargetMeta, Targets};
use crate::GraphError;
use crate::classes::check_num_classes;
use crate::memory::{Buffer, Workspace};
use crate::scan::first_position;
use serde::{Deserialize, Serialize};

/// The entry of [`EdgeLabels::splits`] for an edge in no split.
pub const NO_SPLIT: u8 = u8::MAX;

/// The labels of all edges of a type, and the split of each edge. Labeled edges carry messages like other edges, unlike
/// [held-out](super::HeldOutEdges) edges.
#[derive(Clone, Debug)]
pub struct EdgeLabels {
    /// The labels.
    pub values: EdgeLabelValues,
    /// The [`Split::code`] of each edge, or [`NO_SPLIT`].
    pub splits: Buffer<u8>,
}

/// The classes or the numbers that a model predicts for edges.
#[derive(Clone, Debug)]
pub enum EdgeLabelValues {
    /// Classes.
    Classes {
        /// The class of each edge, -1 if unlabeled.
        of_edges: Buffer<i64>,
        /// The number of classes: one more than the largest label.
        num_classes: usize,
    },
    /// Numbers.
    Targets(Targets),
}

/// The description of the labels of an edge type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeLabelsMeta {
    /// The kind of the labels.
    #[serde(flatten)]
    pub values: EdgeLabelKind,
    /// The number of training, validation and test edges over all parts.
    pub split_sizes: [u64; 3],
}

/// The kind of the labels of an edge type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeLabelKind {
    /// Classes, of which there are this many.
    NumClasses(usize),
    /// Numbers.
    Targets(TargetMeta),
}

impl EdgeLabelKind {
    /// Returns the number of classes, 0 without classes.
    pub fn num_classes(self) -> usize {
        match self {
            Self::NumClasses(num_classes) => num_classes,
            Self::Targets(_) => 0,
        }
    }

    /// Returns the description of the numbers, if labels are numbers.
    pub fn targets(self) -> Option<TargetMeta> {
        match self {
            Self::NumClasses(_) => None,
            Self::Targets(targets) => Some(targets),
        }
    }

    /// Returns the size of the label of an edge in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::NumClasses(_) => size_of::<i64>(),
            Self::Targets(targets) => targets.dim * size_of::<f32>(),
        }
    }
}

impl EdgeLabelValues {
    /// Returns true if the label or a target of the edge is known.
    pub fn is_known(&self, edge: usize) -> bool {
        match self {
            Self::Classes { of_edges, .. } => of_edges.get(edge).is_some_and(|&label| label >= 0),
            Self::Targets(targets) => targets.is_known(edge),
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> EdgeLabelKind {
        match self {
            Self::Classes { num_classes, .. } => EdgeLabelKind::NumClasses(*num_classes),
            Self::Targets(targets) => EdgeLabelKind::Targets(targets.meta()),
        }
    }

    /// Returns the classes, if labels are classes.
    pub fn classes(&self) -> Option<&Buffer<i64>> {
        match self {
            Self::Classes { of_edges, .. } => Some(of_edges),
            Self::Targets(_) => None,
        }
    }

    /// Returns the numbers, if labels are numbers.
    pub fn targets(&self) -> Option<&Targets> {
        match self {
            Self::Classes { .. } => None,
            Self::Targets(targets) => Some(targets),
        }
    }

    /// Returns the values of the edges at `positions`, in `space`.
    fn select_in(&self, space: &Workspace, positions: &[u64]) -> Result<Self, GraphError> {
        Ok(match self {
            Self::Classes { of_edges, num_classes } => {
                let of_edges = space.select_rows(of_edges, 1, positions, STEP)?;
                Self::Classes { of_edges, num_classes: *num_classes }
            }
            Self::Targets(Targets { values, dim, kind }) => {
                let values = space.select_rows(values, *dim, positions, STEP)?;
                Self::Targets(Targets { values, dim: *dim, kind: *kind })
            }
        })
    }
}

/// The name of a step in progress reports.
const STEP: &str = "reordering labels";

impl EdgeLabels {
    /// Makes the labels of edges none of which has a label.
    pub(crate) fn unlabeled(kind: EdgeLabelKind, num_edges: usize) -> Self {
        let values = match kind {
            EdgeLabelKind::NumClasses(num_classes) => {
                EdgeLabelValues::Classes { of_edges: vec![-1; num_edges].into(), num_classes }
            }
            EdgeLabelKind::Targets(TargetMeta { dim, kind }) => {
                EdgeLabelValues::Targets(Targets { values: vec![f32::NAN; num_edges * dim].into(), dim, kind })
            }
        };
        Self { values, splits: vec![NO_SPLIT; num_edges].into() }
    }

    /// Returns true if the label or a target of the edge is known.
    pub fn is_labeled(&self, edge: usize) -> bool {
        self.values.is_known(edge)
    }

    /// Returns the number of training, validation and test edges.
    pub fn sizes(&self) -> [u64; 3] {
        Split::ALL.map(|split| self.splits.iter().filter(|&&code| code == split.code()).count() as u64)
    }

    /// Returns the description.
    pub fn meta(&self) -> EdgeLabelsMeta {
        EdgeLabelsMeta { values: self.values.kind(), split_sizes: self.sizes() }
    }

    /// Returns the labels of the edges at `positions`, in that order, in `space`.
    pub(crate) fn select_in(&self, space: &Workspace, positions: &[u64]) -> Result<Self, GraphError> {
        let values = self.values.select_in(space, positions)?;
        Ok(Self { values, splits: space.select_rows(&self.splits, 1, positions, STEP)? })
    }

    /// Takes the edges without a label out of all splits.
    pub(super) fn leave_out_unlabeled(&mut self) {
        let is_left_out = |edge: usize| self.splits[edge] != NO_SPLIT && !self.is_labeled(edge);
        if (0..self.splits.len()).any(is_left_out) {
            let code = |edge: usize| if is_left_out(edge) { NO_SPLIT } else { self.splits[edge] };
            self.splits = (0..self.splits.len()).map(code).collect::<Vec<u8>>().into();
        }
    }

    /// Checks the labels of `num_edges` edges: the lengths of arrays, the classes or numbers, and that all edges of a split
    /// are labeled.
    ///
    /// # Errors
    /// Describes the first edge that is wrong.
    pub(crate) fn check(&self, num_edges: usize) -> Result<(), String> {
        match &self.values {
            EdgeLabelValues::Classes { of_edges, num_classes } => {
                if of_edges.len() != num_edges {
                    return Err(format!("{} labels for {num_edges} edges", of_edges.len()));
                }
                check_classes(of_edges, *num_classes)?;
                check_num_classes(of_edges, *num_classes, "edge")?;
            }
            EdgeLabelValues::Targets(targets) => targets.problem(num_edges, "edge").map_or(Ok(()), Err)?,
        }
        self.check_splits(num_edges)
    }

    /// Checks the splits of `num_edges` edges.
    ///
    /// # Errors
    /// Describes the first edge that is wrong.
    pub(crate) fn check_splits(&self, num_edges: usize) -> Result<(), String> {
        if self.splits.len() != num_edges {
            return Err(format!("{} splits for {num_edges} edges", self.splits.len()));
        }
        if let Some(edge) = first_position(&self.splits, |code| code != NO_SPLIT && Split::of_code(code).is_none()) {
            return Err(format!("edge {edge} has split {}, which is not 0, 1, 2 or {NO_SPLIT}", self.splits[edge]));
        }
        let is_wrong = |&edge: &usize| self.splits[edge] != NO_SPLIT && !self.is_labeled(edge);
        match (0..num_edges).find(is_wrong) {
            Some(edge) => {
                let name = Split::of_code(self.splits[edge]).map_or("", Split::name);
                Err(format!("edge {edge} is in the {name} split, but has no label"))
            }
            None => Ok(()),
        }
    }
}

/// Checks that labels are -1 or below the number of classes.
///
/// # Errors
/// Names the first edge with another label.
pub(crate) fn check_classes(labels: &[i64], num_classes: usize) -> Result<(), String> {
    match first_position(labels, |label| label < -1 || label >= num_classes as i64) {
        Some(edge) => Err(format!("edge {edge} has label {}, outside -1..{num_classes}", labels[edge])),
        None => Ok(()),
    }
}

//! The arrays of a part, per node type and per edge type.

use super::{Csc, SplitIndex};
use crate::NodeTypeId;
use crate::dataset::{EdgeAttributes, HeldOutEdges, Splits};
use crate::memory::{Buffer, Features};
use std::borrow::Cow;

/// The owned nodes of one type, in ascending order of their original ids; those of a group of parts, part by part. The
/// *row* of a node is its global id minus the start of the part's range.
#[derive(Clone, Debug, Default)]
pub struct PartNodes {
    /// The original id of each row, each one once.
    pub original_ids: Buffer<u32>,
    /// The rows in ascending order of their original ids. `None` if all rows are in this order.
    pub by_original: Option<Buffer<u32>>,
    /// The features of each row, if the type has features.
    pub features: Option<Features>,
    /// The class of each row, -1 if unlabeled, if the type has labels.
    pub labels: Option<Buffer<i64>>,
    /// `[rows, dim]`, row-major, with the `dim` of [`TargetMeta`](crate::TargetMeta), if the type has targets. NaN is an
    /// unknown value.
    pub targets: Option<Buffer<f32>>,
    /// The rows of the training, validation and test nodes, ascending.
    pub splits: Splits,
    /// The time of each row, if the type has times.
    pub times: Option<Buffer<i64>>,
    /// The nodes of other parts that this part will read most often, if they were ranked.
    pub hot: Option<HotNodes>,
    /// The labels after the first one, in the order of [`NodeTypeMeta::more_labels`](super::NodeTypeMeta::more_labels).
    pub more_labels: Vec<PartLabel>,
}

/// A label of the owned nodes of a type.
#[derive(Clone, Debug, Default)]
pub struct PartLabel {
    /// The class of each row, -1 if unlabeled, if the label has classes.
    pub labels: Option<Buffer<i64>>,
    /// `[rows, dim]`, row-major, if the label has numbers. NaN is an unknown value.
    pub targets: Option<Buffer<f32>>,
    /// The rows of the training, validation and test nodes, ascending.
    pub splits: Splits,
}

impl PartLabel {
    /// Returns true if the class or a number of one of the `num_rows` rows is known, or if there are neither.
    pub fn is_known(&self, row: usize, num_rows: usize) -> bool {
        is_known(self.labels.as_deref(), self.targets.as_deref(), row, num_rows)
    }
}

fn is_known(labels: Option<&[i64]>, targets: Option<&[f32]>, row: usize, num_rows: usize) -> bool {
    match (labels, targets) {
        (Some(labels), _) => labels[row] >= 0,
        (None, Some(targets)) => {
            let dim = targets.len() / num_rows.max(1);
            targets[row * dim..][..dim].iter().any(|value| !value.is_nan())
        }
        (None, None) => true,
    }
}

/// The nodes of other parts that a part will read, with their counts. In a group of parts, the list can contain a node
/// several times, and nodes of the group. The counts of a node add up.
#[derive(Clone, Debug)]
pub struct HotNodes {
    /// Global ids.
    pub nodes: Buffer<u32>,
    /// The count of each node, in the unit of the [`HotnessRule`](crate::HotnessRule).
    pub counts: Buffer<u32>,
}

impl PartNodes {
    /// Returns true if the label or a target of the row is known, or if the type has neither labels nor targets.
    pub fn is_labeled(&self, row: usize) -> bool {
        is_known(self.labels.as_deref(), self.targets.as_deref(), row, self.original_ids.len())
    }

    /// Returns the label at a position, counted from 0. Arrays are shared.
    ///
    /// # Panics
    /// If the type has fewer labels.
    pub fn label(&self, at: usize) -> PartLabel {
        match at.checked_sub(1) {
            Some(at) => self.more_labels[at].clone(),
            None => {
                PartLabel { labels: self.labels.clone(), targets: self.targets.clone(), splits: self.splits.clone() }
            }
        }
    }

    /// Replaces the first label.
    pub(super) fn set_first_label(&mut self, label: PartLabel) {
        let PartLabel { labels, targets, splits } = label;
        self.labels = labels;
        self.targets = targets;
        self.splits = splits;
    }

    /// Returns the row that comes at `position` in ascending order of the original ids.
    pub fn row_at(&self, position: usize) -> usize {
        self.by_original.as_ref().map_or(position, |rows| rows[position] as usize)
    }

    /// Returns the number of rows with an original id below `original`.
    pub fn num_below(&self, original: u32) -> usize {
        let ids = &self.original_ids;
        match &self.by_original {
            None => ids.partition_point(|&id| id < original),
            Some(rows) => rows.partition_point(|&row| ids[row as usize] < original),
        }
    }

    /// Returns the original ids of all rows in ascending order.
    pub fn ascending_ids(&self) -> Cow<'_, [u32]> {
        match &self.by_original {
            None => Cow::Borrowed(&self.original_ids),
            Some(rows) => rows.iter().map(|&row| self.original_ids[row as usize]).collect(),
        }
    }
}

/// The in-edges of the owned nodes, for one edge type.
///
/// Invariant: all in-edges of a node are stored at the part that owns it, in the order of the original edge list. The
/// owner of a node therefore answers a hop from it alone, and a sampled edge is identified by its position among the
/// in-edges of its destination. Held-out edges are stored with their destination too.
#[derive(Clone, Debug)]
pub struct PartEdges {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The in-neighbors. Rows are the owned destinations, and indices are global ids of sources.
    pub csc: Csc,
    /// The features, weights, times and labels of the edges, in the order of the indices.
    pub attributes: EdgeAttributes,
    /// The labeled edges of each split, none without labels.
    pub split_index: SplitIndex,
    /// The time of each edge's source, in the order of the indices, if the source type has times.
    pub src_times: Option<Buffer<i64>>,
    /// The held-out edges into the owned destinations. Both ends are global ids.
    pub held_out: HeldOutEdges,
}

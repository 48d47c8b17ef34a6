//! Numbers that models predict for nodes or graphs.

use crate::memory::Buffer;
use crate::scan::first_position;
use serde::{Deserialize, Serialize};

/// The most targets per node.
pub(crate) const MAX_TARGETS: usize = 1 << 20;

/// Numbers that models predict for nodes, instead of one class.
///
/// ```
/// use edgecut_graph::{TargetKind, Targets};
/// // Two nodes with three labels each. The last one of the second node is unknown.
/// let values = vec![1.0, 0.0, 0.0, 0.0, 1.0, f32::NAN];
/// let targets = Targets { kind: TargetKind::of(&values), values: values.into(), dim: 3 };
/// assert_eq!((targets.kind, targets.row(1)[1]), (TargetKind::MultiLabel, 1.0));
/// ```
#[derive(Clone, Debug)]
pub struct Targets {
    /// `[num_nodes, dim]`, row-major. NaN is an unknown value.
    pub values: Buffer<f32>,
    /// The numbers per node.
    pub dim: usize,
    /// The meaning of the numbers.
    pub kind: TargetKind,
}

/// The meaning of [`Targets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Any numbers.
    Regression,
    /// A label per column: 1 if it applies to the node, 0 if not.
    MultiLabel,
}

/// The description of the targets of a node type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMeta {
    /// The numbers per node.
    pub dim: usize,
    /// The meaning of the numbers.
    pub kind: TargetKind,
}

impl TargetKind {
    /// Returns the kind of values: labels, if all of them are 0, 1 or unknown.
    pub fn of(values: &[f32]) -> Self {
        let is_label = |value: f32| value == 0.0 || value == 1.0 || value.is_nan();
        if first_position(values, |value| !is_label(value)).is_none() { Self::MultiLabel } else { Self::Regression }
    }

    /// Returns the position of the first value that this kind does not have.
    pub(crate) fn first_wrong(self, values: &[f32]) -> Option<usize> {
        first_position(values, |value| match self {
            Self::Regression => value.is_infinite(),
            Self::MultiLabel => value != 0.0 && value != 1.0 && !value.is_nan(),
        })
    }
}

impl Targets {
    /// Returns the values of a node.
    pub fn row(&self, node: usize) -> &[f32] {
        &self.values[node * self.dim..][..self.dim]
    }

    /// Returns the description.
    pub fn meta(&self) -> TargetMeta {
        TargetMeta { dim: self.dim, kind: self.kind }
    }

    /// Returns true if a value of a node is known. It is not if there is no such node.
    pub fn is_known(&self, node: usize) -> bool {
        let row = self.values.get(node * self.dim..(node + 1) * self.dim);
        row.is_some_and(|row| row.iter().any(|value| !value.is_nan()))
    }

    /// Returns what is wrong with the targets of `count` items, which are nodes or graphs.
    pub(crate) fn problem(&self, count: usize, item: &str) -> Option<String> {
        if !(1..=MAX_TARGETS).contains(&self.dim) {
            return Some(format!("{} targets per {item}, expected 1 to {MAX_TARGETS}", self.dim));
        }
        if self.values.len() != count * self.dim {
            return Some(format!("{} targets for {count} {item}s with {} each", self.values.len(), self.dim));
        }
        let at = self.kind.first_wrong(&self.values)?;
        Some(wrong_target(at, item, self.dim, self.values[at], self.kind))
    }
}

/// Describes a value that [`TargetKind::first_wrong`] found.
pub(crate) fn wrong_target(at: usize, item: &str, dim: usize, value: f32, kind: TargetKind) -> String {
    let expected = match kind {
        TargetKind::Regression => "is infinite as a 32-bit float",
        TargetKind::MultiLabel => "is not 0, 1 or NaN",
    };
    format!("target {} of {item} {} is {value}, which {expected}", at % dim, at / dim)
}

//! Edge types that hold the reverse edges of another type, although neither a name nor a setting says so.

use super::typed_edges::TypedEdges;
use crate::dataset::held_out_index::{Candidate, HeldOutIndex, IN_OPPOSITE_TYPE};
use serde::Serialize;

/// The most types in the opposite direction that are compared with a type, since each of them is read once more.
const MAX_OPPOSITE_TYPES: usize = 64;

/// An edge type with the reverses of at least half of another type's held-out edges, which is not declared as its reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UndeclaredReverse {
    /// The name of the type, such as `paper__written_by__author`.
    pub edge_type: String,
    /// The number of validation and of test edges whose reverse is a training edge of the type.
    pub held_out: [u64; 2],
}

impl TypedEdges<'_> {
    /// Compares the held-out edges, which `index` holds, with the training edges of all types in the opposite direction that
    /// are not declared as reverses. A few common edges are no sign of a reverse type, so only a type with the reverses of at
    /// least half of the held-out edges is returned. Returns none for more than [`MAX_OPPOSITE_TYPES`] types.
    pub(super) fn undeclared_reverses(&self, types: &[TypedEdges], index: &HeldOutIndex) -> Vec<UndeclaredReverse> {
        let opposite: Vec<&TypedEdges> = types.iter().filter(|other| self.is_undeclared_opposite(other)).collect();
        let mut found = Vec::new();
        if opposite.len() > MAX_OPPOSITE_TYPES {
            return found;
        }
        for other in opposite {
            (other.train)(&|edge: Candidate| index.mark(edge.reversed(), IN_OPPOSITE_TYPE));
            let held_out = index.take_marked(IN_OPPOSITE_TYPE);
            if 2 * held_out.iter().sum::<u64>() >= index.len() as u64 {
                found.push(UndeclaredReverse { edge_type: other.names.full_name(), held_out });
            }
        }
        found
    }

    /// Returns true for another type that joins the same node types in the opposite direction, and is not declared as the
    /// reverse.
    fn is_undeclared_opposite(&self, other: &TypedEdges) -> bool {
        self.names.is_opposite_of(&other.names) && self.names != other.names && !self.is_reverse_of(other)
    }
}

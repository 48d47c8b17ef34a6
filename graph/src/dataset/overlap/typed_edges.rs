//! The edges of one type, as the counting of overlaps reads them.

use crate::EdgeTypeNames;
use crate::dataset::EdgeList;
use crate::dataset::held_out_index::Candidate;

/// A function that passes every training edge of a type to its argument, from many threads.
pub(crate) type EdgeStream<'a> = Box<dyn Fn(&(dyn Fn(Candidate) + Sync)) + 'a>;

/// The training and held-out edges of one type, of a dataset or of parts.
pub(crate) struct TypedEdges<'a> {
    pub(crate) names: EdgeTypeNames<'a>,
    /// Pairs of types that settings declare as each other's reverse.
    pub(crate) reverse_types: &'a [(String, String)],
    /// The validation and test edges.
    pub(crate) held_out: [Vec<&'a EdgeList>; 2],
    pub(crate) has_times: bool,
    pub(crate) train: EdgeStream<'a>,
}

impl TypedEdges<'_> {
    /// Returns true if each type holds the reverse edges of the other.
    pub(super) fn is_reverse_of(&self, other: &Self) -> bool {
        self.names.is_reverse_of(&other.names, self.reverse_types)
    }

    /// Returns true if the type joins a node type to itself.
    pub(super) fn joins_one_type(&self) -> bool {
        self.names.src == self.names.dst
    }
}

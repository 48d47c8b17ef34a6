//! The edges of one type, as the counting of overlaps reads them.

use crate::NodeTypeId;
use crate::dataset::EdgeList;
use crate::dataset::held_out_index::Candidate;

/// A function that passes every training edge of a type to its argument, from many threads.
pub(crate) type EdgeStream<'a> = Box<dyn Fn(&(dyn Fn(Candidate) + Sync)) + 'a>;

/// The training and held-out edges of one type, of a dataset or of parts.
pub(crate) struct TypedEdges<'a> {
    /// The name, such as `author__writes__paper`.
    pub(crate) name: String,
    pub(crate) src_type: NodeTypeId,
    pub(crate) relation: &'a str,
    pub(crate) dst_type: NodeTypeId,
    /// The names of types that settings declare as its reverse.
    pub(crate) reverses: Vec<&'a str>,
    /// The validation and test edges.
    pub(crate) held_out: [Vec<&'a EdgeList>; 2],
    pub(crate) has_times: bool,
    pub(crate) train: EdgeStream<'a>,
}

impl TypedEdges<'_> {
    /// Returns true if each type holds the reverse edges of the other: by their names, as `writes` and `rev_writes`, or as
    /// settings declare.
    pub(super) fn is_reverse_of(&self, other: &Self) -> bool {
        let ends_swapped = self.src_type == other.dst_type && self.dst_type == other.src_type;
        let is_named = is_rev(self.relation, other.relation) || is_rev(other.relation, self.relation);
        ends_swapped && (is_named || self.reverses.iter().any(|name| is_name(name, &other.name, other.relation)))
    }
}

fn is_rev(one: &str, other: &str) -> bool {
    one.strip_prefix("rev_") == Some(other)
}

/// Returns true if a setting names a type by its full name or by its relation.
pub(super) fn is_name(setting: &str, name: &str, relation: &str) -> bool {
    setting == name || setting == relation
}

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
    /// The validation and test edges.
    pub(crate) held_out: [Vec<&'a EdgeList>; 2],
    pub(crate) has_times: bool,
    pub(crate) train: EdgeStream<'a>,
}

impl TypedEdges<'_> {
    pub(super) fn relation(&self) -> Relation<'_> {
        Relation { src_type: self.src_type, relation: self.relation, dst_type: self.dst_type }
    }
}

/// An edge type, identified by its end types and its relation.
#[derive(Clone, Copy)]
pub(super) struct Relation<'a> {
    pub(super) src_type: NodeTypeId,
    pub(super) relation: &'a str,
    pub(super) dst_type: NodeTypeId,
}

/// Returns true if the names say that each type holds the reverse edges of the other, as `writes` and `rev_writes` do.
pub(super) fn is_declared_reverse(one: Relation, other: Relation) -> bool {
    let is_rev = |one: &str, other: &str| one.strip_prefix("rev_") == Some(other);
    let ends_swapped = one.src_type == other.dst_type && one.dst_type == other.src_type;
    ends_swapped && (is_rev(one.relation, other.relation) || is_rev(other.relation, one.relation))
}

//! The edges of one type, as the counting of overlaps reads them.

use crate::NodeTypeId;
use crate::dataset::EdgeList;
use crate::dataset::held_out_index::Candidate;
use edgecut_settings::suggestion;

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
        let is_named = is_rev(self.relation, other.relation) || is_rev(other.relation, self.relation);
        self.is_opposite_of(other) && (is_named || self.reverses.iter().any(|name| other.is_named(name)))
    }

    /// Returns true if the types join the same node types in opposite directions.
    pub(super) fn is_opposite_of(&self, other: &Self) -> bool {
        self.src_type == other.dst_type && self.dst_type == other.src_type
    }

    fn is_named(&self, setting: &str) -> bool {
        is_name(setting, &self.name, self.relation)
    }
}

fn is_rev(one: &str, other: &str) -> bool {
    one.strip_prefix("rev_") == Some(other)
}

/// Returns true if a setting names a type by its full name or by its relation.
fn is_name(setting: &str, name: &str, relation: &str) -> bool {
    setting == name || setting == relation
}

/// Returns the names that pairs declare as the reverses of a type.
pub(crate) fn declared_reverses<'a>(name: &str, relation: &str, pairs: &'a [(String, String)]) -> Vec<&'a str> {
    let mut reverses = Vec::new();
    for (one, other) in pairs {
        for (setting, reverse) in [(one, other), (other, one)] {
            if is_name(setting, name, relation) {
                reverses.push(reverse.as_str());
            }
        }
    }
    reverses
}

/// Checks that pairs of reverse types name types of a graph that can be each other's reverse. Pairs with a name that `is_later`
/// accepts are not checked.
///
/// # Errors
/// Describes the first wrong pair.
pub(crate) fn check_declared(
    pairs: &[(String, String)],
    types: &[TypedEdges],
    is_later: impl Fn(&str) -> bool,
) -> Result<(), String> {
    for (one, other) in pairs {
        for name in [one, other] {
            if !is_later(name) && !types.iter().any(|edges| edges.is_named(name)) {
                let full_names: Vec<&str> = types.iter().map(|edges| edges.name.as_str()).collect();
                let relations = types.iter().map(|edges| edges.relation);
                let hint = suggestion(name, full_names.iter().copied().chain(relations));
                let all = full_names.join(", ");
                return Err(format!("there is no edge type {name} (`reverse_types`){hint}: the graph has {all}"));
            }
        }
        let mut named = types.iter().filter(|edges| edges.is_named(one));
        let has_reverse = named.any(|edges| types.iter().any(|to| to.is_named(other) && edges.is_opposite_of(to)));
        if !has_reverse && !is_later(one) && !is_later(other) {
            return Err(format!(
                "edge types {one} and {other} are not each other's reverse (`reverse_types`): the source type of each must be \
                 the destination type of the other"
            ));
        }
    }
    Ok(())
}

//! The names of an edge type, which tell the types that hold the reverses of its edges.

use edgecut_settings::suggestion;

/// The start of the relation of a type with the reverses of the edges of another type.
const REVERSE_PREFIX: &str = "rev_";

/// The names of an edge type. Two types hold each other's reverse edges if they join the same node types in opposite directions,
/// and their relations are `NAME` and `rev_NAME` or a setting declares them as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeTypeNames<'a> {
    /// The name of the source node type.
    pub src: &'a str,
    /// The name of the relation.
    pub relation: &'a str,
    /// The name of the destination node type.
    pub dst: &'a str,
}

impl<'a> EdgeTypeNames<'a> {
    /// Returns all names, such as `author__writes__paper`.
    pub fn full_name(&self) -> String {
        [self.src, self.relation, self.dst].join("__")
    }

    /// Returns the names of the type with the reverse edges if the relation is `rev_` and its name: those that
    /// [`reverse_relation`] was called for.
    pub fn forward(&self) -> Option<Self> {
        let relation = self.relation.strip_prefix(REVERSE_PREFIX)?;
        Some(Self { src: self.dst, relation, dst: self.src })
    }

    /// Returns true if the types join the same node types in opposite directions.
    pub fn is_opposite_of(&self, other: &Self) -> bool {
        (self.src, self.dst) == (other.dst, other.src)
    }

    /// Returns true if each type holds the reverse edges of the other by their names, or by pairs of names in settings.
    pub fn is_reverse_of(&self, other: &Self, pairs: &[(String, String)]) -> bool {
        let has_name = self.forward() == Some(*other) || other.forward() == Some(*self);
        has_name || pairs.iter().any(|pair| self.is_pair(other, pair) || other.is_pair(self, pair))
    }

    /// Returns true if the types join the same node types in opposite directions, and a setting names this type first and the
    /// other type second.
    pub(crate) fn is_pair(&self, other: &Self, pair: &(String, String)) -> bool {
        self.is_named(&pair.0) && other.is_named(&pair.1) && self.is_opposite_of(other)
    }

    /// Returns true if a setting names the type by its full name or by its relation.
    pub(crate) fn is_named(&self, setting: &str) -> bool {
        if setting == self.relation {
            return true;
        }
        // Knowledge graphs compare thousands of types with many pairs, so no full name is made.
        let mut rest = setting;
        for start in [self.src, "__", self.relation, "__"] {
            let Some(after) = rest.strip_prefix(start) else { return false };
            rest = after;
        }
        rest == self.dst
    }
}

/// Returns the relation of the type with the reverses of a relation's edges.
pub fn reverse_relation(relation: &str) -> String {
    format!("{REVERSE_PREFIX}{relation}")
}

/// Returns true if a setting may name an edge type of [`reverse_relation`].
pub(crate) fn may_name_reverse(setting: &str) -> bool {
    setting.contains(REVERSE_PREFIX)
}

/// Checks that pairs of reverse types name types of a graph that can be each other's reverse. Pairs with a name that `is_later`
/// accepts are not checked.
///
/// # Errors
/// Describes the first wrong pair.
pub(crate) fn check_reverse_pairs(
    pairs: &[(String, String)],
    types: &[EdgeTypeNames],
    is_later: impl Fn(&str) -> bool,
) -> Result<(), String> {
    for pair in pairs {
        let (one, other) = pair;
        for name in [one, other] {
            if !is_later(name) && !types.iter().any(|names| names.is_named(name)) {
                let full_names: Vec<String> = types.iter().map(EdgeTypeNames::full_name).collect();
                let relations = types.iter().map(|names| names.relation);
                let hint = suggestion(name, full_names.iter().map(String::as_str).chain(relations));
                let all = full_names.join(", ");
                return Err(format!("there is no edge type {name} (`reverse_types`){hint}: the graph has {all}"));
            }
        }
        let has_reverse = types.iter().any(|names| types.iter().any(|to| names.is_pair(to, pair)));
        if !has_reverse && !is_later(one) && !is_later(other) {
            return Err(format!(
                "edge types {one} and {other} are not each other's reverse (`reverse_types`): the source type of each must be \
                 the destination type of the other"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_pairs_tell_reverse_types() {
        let writes = EdgeTypeNames { src: "author", relation: "writes", dst: "paper" };
        let reverse = EdgeTypeNames { src: "paper", relation: "rev_writes", dst: "author" };
        let written_by = EdgeTypeNames { relation: "written_by", ..reverse };
        let cites = EdgeTypeNames { src: "paper", relation: "rev_writes", dst: "paper" };
        assert_eq!(reverse_relation(writes.relation), reverse.relation);
        assert_eq!(reverse.forward(), Some(writes));
        assert_eq!(writes.forward(), None);
        let declared = [("author__writes__paper".to_owned(), "written_by".to_owned())];
        let expected =
            [(reverse, true, true), (written_by, false, true), (cites, false, false), (writes, false, false)];
        for (other, by_name, by_pair) in expected {
            for (one, other) in [(writes, other), (other, writes)] {
                assert_eq!(one.is_reverse_of(&other, &[]), by_name, "{one:?} {other:?}");
                assert_eq!(one.is_reverse_of(&other, &declared), by_pair, "{one:?} {other:?}");
            }
        }
        for name in ["writes", "author__writes__paper", "author__writes__", "author__writes__papers", "author", ""] {
            assert_eq!(writes.is_named(name), name == writes.relation || name == writes.full_name(), "{name}");
        }
        // A type within one node type may hold the reverses of its own edges.
        let knows = EdgeTypeNames { src: "user", relation: "knows", dst: "user" };
        let declared = [("knows".to_owned(), "knows".to_owned())];
        assert!(!knows.is_reverse_of(&knows, &[]) && knows.is_reverse_of(&knows, &declared));
    }
}

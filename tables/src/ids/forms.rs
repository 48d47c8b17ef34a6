//! Ids that differ only in how they are written.

use super::{Id, IdMap, UserIds};
use rayon::prelude::*;

/// Ids that seem to be other ids of their node type in another form, such as `7.0` and `7`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IdsInTwoForms {
    /// The number of ids that are also ids in their shortest form.
    pub(crate) count: usize,
    /// The shortest form of the first of them, and itself.
    pub(crate) first: [String; 2],
}

impl IdMap {
    /// Returns the ids that have spaces around another id, zeros before it or `.0` behind it, if there are some.
    pub(crate) fn in_two_forms(&self) -> Option<IdsInTwoForms> {
        let ids @ UserIds::Texts { .. } = self.ids() else { return None };
        let positions = (0..self.len() as u32).into_par_iter();
        let others: Vec<u32> = positions.filter(|&position| self.has_in_shortest_form(ids.text(position))).collect();
        let id = ids.show(*others.first()?);
        Some(IdsInTwoForms { count: others.len(), first: [shortest(&id).to_owned(), id] })
    }

    /// Returns true if the shortest form of a text is another id.
    fn has_in_shortest_form(&self, text: &[u8]) -> bool {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let short = shortest(text);
        short.len() < text.len() && self.get(Id::Text(short)).is_some()
    }
}

/// Returns the part of an id that is left without spaces around it and, if it is a whole number, without zeros before its digits and
/// `.0` behind them.
fn shortest(id: &str) -> &str {
    let id = id.trim();
    let digits = id.strip_suffix(".0").unwrap_or(id);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return id;
    }
    let zeros = digits.bytes().take(digits.len() - 1).take_while(|&byte| byte == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &[&str]) -> Option<(usize, [String; 2])> {
        let mut map = IdMap::new();
        ids.iter().for_each(|id| _ = map.insert(Id::Text(id)));
        map.in_two_forms().map(|found| (found.count, found.first))
    }

    #[test]
    fn ids_with_spaces_zeros_or_a_fraction_of_0_are_other_forms() {
        for (ids, count, first) in [
            (&["1", "1.0", "2", "2.0", "3.0"][..], 2, ["1", "1.0"]),
            (&["b", " a", "a", "a\t"], 2, ["a", " a"]),
            (&["007", "7"], 1, ["7", "007"]),
            (&["0", "000"], 1, ["0", "000"]),
        ] {
            assert_eq!(found(ids), Some((count, first.map(str::to_owned))), "{ids:?}");
        }
        for ids in [&["1", "2", "3"][..], &["1.0", "2.0"], &["001", "002", "a"], &["A", "a", "1.5", "1", ".0", ""]] {
            assert_eq!(found(ids), None, "{ids:?}");
        }
    }
}

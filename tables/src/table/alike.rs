//! Classes and categories that differ only in how they are written.

use edgecut_settings::counted;
use std::collections::BTreeMap;
use std::fmt;

/// Values of a column that differ from earlier ones only in spaces or capital letters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AlikeValues {
    count: usize,
    /// The first of them, and the value from which it differs.
    first: [String; 2],
}

impl AlikeValues {
    /// Returns the values among `texts`, if there are some.
    pub(super) fn among(texts: &[&str]) -> Option<Self> {
        let mut by_form = BTreeMap::new();
        let mut found: Option<Self> = None;
        for &text in texts {
            let words: Vec<&str> = text.split_whitespace().collect();
            let earlier = *by_form.entry(words.join(" ").to_lowercase()).or_insert(text);
            if earlier != text {
                let first = [text, earlier];
                found.get_or_insert_with(|| Self { count: 0, first: first.map(str::to_owned) }).count += 1;
            }
        }
        found
    }
}

impl fmt::Display for AlikeValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first: [text, earlier] } = self;
        let values = counted(*count, "value differs", "values differ");
        write!(
            f,
            "{values} from others only in spaces or capital letters, as {text:?} from {earlier:?}: write those that mean the same in one form"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_other_spaces_or_letters_are_alike() {
        let found = AlikeValues::among(&[" red", "Red", "blue", "dark  red", "dark red", "red"]);
        let first = ["Red", " red"].map(str::to_owned);
        assert_eq!(found, Some(AlikeValues { count: 3, first }));
        assert_eq!(AlikeValues::among(&["red", "dark red", "darkred", "1", "1.0"]), None);
    }
}

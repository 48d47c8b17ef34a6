//! Lists of values by name, as flags write them.

/// One entry of a list of values by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedValue<'a> {
    /// The name, or `None` for the value of everything without a name in the list.
    pub name: Option<&'a str>,
    /// The value, which [`named_values`] accepted unless the list is malformed.
    pub value: &'a str,
}

/// Splits a list such as `cites=15,10;writes=10,0;5,5` into its entries.
///
/// Names are those of a graph, so they may contain the separator and `=`. An entry therefore ends at the first separator
/// before which `is_value` accepts the text after the last `=`. Text that ends in no value is split at its first
/// separator, so that parsing its value gives the error.
pub fn named_values(text: &str, separator: char, is_value: impl Fn(&str) -> bool) -> Vec<NamedValue<'_>> {
    let mut entries = Vec::new();
    let mut rest = text;
    loop {
        let ends = || rest.match_indices(separator).map(|(at, _)| at).chain([rest.len()]);
        let complete = ends().find(|&end| is_value(named_value(&rest[..end]).value));
        let end = complete.unwrap_or_else(|| rest.find(separator).unwrap_or(rest.len()));
        entries.push(named_value(&rest[..end]));
        if end == rest.len() {
            return entries;
        }
        rest = &rest[end + separator.len_utf8()..];
    }
}

fn named_value(entry: &str) -> NamedValue<'_> {
    match entry.rsplit_once('=') {
        Some((name, value)) => NamedValue { name: Some(name.trim()), value: value.trim() },
        None => NamedValue { name: None, value: entry.trim() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_number(text: &str) -> bool {
        text.parse::<u32>().is_ok()
    }

    proptest! {
        #[test]
        fn names_may_contain_separators(names in prop::collection::vec("[a-c,;=]{0,6}x", 1..4)) {
            let text: Vec<String> = names.iter().zip(1..).map(|(name, value)| format!("{name}={value}")).collect();
            let text = text.join(",");
            let found = named_values(&text, ',', is_number);
            let expected: Vec<String> = (1..=names.len()).map(|value| value.to_string()).collect();
            let expected: Vec<_> = names.iter().zip(&expected).map(|(name, value)| NamedValue { name: Some(name), value }).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_text_is_split_into_entries_in_order(text in "[a1,;= é]{0,12}") {
            let entries = named_values(&text, ';', is_number);
            let mut rest = text.as_str();
            for entry in entries {
                for piece in entry.name.into_iter().chain([entry.value]) {
                    let at = rest.find(piece);
                    prop_assert!(at.is_some(), "{:?} of {:?}", piece, text);
                    rest = &rest[at.unwrap_or(0) + piece.len()..];
                }
            }
        }
    }

    #[test]
    fn malformed_lists_are_split_at_each_separator() {
        let values: Vec<&str> = named_values("x,2,y", ',', is_number).iter().map(|entry| entry.value).collect();
        assert_eq!(values, ["x", "2", "y"]);
    }
}

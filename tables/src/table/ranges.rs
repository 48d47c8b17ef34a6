//! Features whose numbers are too large or too small beside others.

use std::collections::BTreeMap;

/// The magnitude from which the numbers of a feature hide those of other features, whose magnitude is about 1.
const LARGE: f32 = 1000.0;
/// The magnitude up to which other features hide the numbers of a feature.
const SMALL: f32 = 0.01;
/// The most features that a note lists.
const MOST_SHOWN: usize = 5;

/// The least and the greatest number of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FeatureRange {
    pub(crate) min: f32,
    pub(crate) max: f32,
    /// True for a feature that is made of times.
    pub(crate) is_time: bool,
}

impl FeatureRange {
    /// Returns the range of no numbers.
    pub(crate) fn new(is_time: bool) -> Self {
        Self { min: f32::INFINITY, max: f32::NEG_INFINITY, is_time }
    }

    /// Adds numbers.
    pub(crate) fn add(&mut self, numbers: &[f32]) {
        for &number in numbers {
            self.min = self.min.min(number);
            self.max = self.max.max(number);
        }
    }

    /// Adds the numbers of later rows.
    pub(crate) fn merge(&mut self, later: Self) {
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
    }

    fn is_large(&self) -> bool {
        self.max >= LARGE || self.min <= -LARGE
    }

    /// Returns true for small numbers that differ.
    fn is_small(&self) -> bool {
        self.min < self.max && self.max <= SMALL && self.min >= -SMALL
    }
}

/// Returns a sentence about all features with large numbers and one about those with small numbers, by the path of their table
/// and their name, if there are some.
pub(super) fn notes_of_ranges(ranges: &BTreeMap<(String, String), FeatureRange>) -> Vec<String> {
    note_of_large_numbers(ranges).into_iter().chain(note_of_small_numbers(ranges)).collect()
}

/// Returns the first of some features with their ranges, and the number of the others. `None` without features.
fn shown(features: &[(&(String, String), &FeatureRange)]) -> Option<String> {
    let mut shown = Vec::new();
    for ((table, feature), FeatureRange { min, max, .. }) in features.iter().take(MOST_SHOWN) {
        shown.push(format!("{feature} of {table} ({min} to {max})"));
    }
    if features.len() > MOST_SHOWN {
        shown.push(format!("{} more", features.len() - MOST_SHOWN));
    }
    if shown.is_empty() { None } else { Some(shown.join(", ")) }
}

fn note_of_small_numbers(ranges: &BTreeMap<(String, String), FeatureRange>) -> Option<String> {
    let small: Vec<_> = ranges.iter().filter(|(_, range)| range.is_small()).collect();
    let shown = shown(&small)?;
    Some(format!(
        "features with small numbers: {shown}. A model learns little from them beside others. If they are quantities: use \
         transform: {{name: z_score}}"
    ))
}

fn note_of_large_numbers(ranges: &BTreeMap<(String, String), FeatureRange>) -> Option<String> {
    let large: Vec<_> = ranges.iter().filter(|(_, range)| range.is_large()).collect();
    let shown = shown(&large)?;
    let has_times = large.iter().any(|(_, range)| range.is_time);
    let has_numbers = large.iter().any(|(_, range)| !range.is_time);
    let mut remedies = Vec::new();
    if has_numbers {
        remedies.push("add transform: {name: z_score}");
    }
    if has_times {
        remedies.push("add scale: true to the transform date");
    }
    Some(format!(
        "features with large numbers: {shown}. A model learns little beside them. If they are quantities, and not ids: {}",
        remedies.join(", or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: f32, max: f32, is_time: bool) -> FeatureRange {
        let mut range = FeatureRange::new(is_time);
        range.add(&[max, min]);
        range
    }

    fn note(features: &[(&str, FeatureRange)]) -> Option<String> {
        let ranges = features.iter().map(|(name, range)| (("nodes[0]".to_owned(), (*name).to_owned()), *range));
        note_of_large_numbers(&ranges.collect())
    }

    #[test]
    fn large_numbers_are_named_with_their_range_and_a_remedy() {
        let [seen, age, small] = [range(1.7e9, 1.8e9, false), range(0.0, 4000.0, true), range(-1.0, 999.0, false)];
        assert_eq!(note(&[("share", small), ("none", FeatureRange::new(false))]), None);
        let said = note(&[("seen", seen), ("share", small)]).expect("a note");
        let expected = "features with large numbers: seen of nodes[0] (1700000000 to 1800000000). A model learns little \
                        beside them. If they are quantities, and not ids: add transform: {name: z_score}";
        assert_eq!(said, expected);
        let said = note(&[("age", age)]).expect("a note");
        assert!(
            said.contains("(0 to 4000). ") && said.ends_with("not ids: add scale: true to the transform date"),
            "{said}"
        );
        assert!(
            note(&[("a", age), ("b", seen)]).is_some_and(|said| said.contains("{name: z_score}, or add scale: true"))
        );
        let many: Vec<(&str, FeatureRange)> = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, seen)).to_vec();
        assert!(note(&many).is_some_and(|said| said.contains("e of nodes[0] (1700000000 to 1800000000), 2 more. ")));
        assert!(note(&[("debt", range(-5000.0, 0.0, false))]).is_some());
    }

    #[test]
    fn small_numbers_are_named_with_their_range_and_a_remedy() {
        let features = [("age", range(0.0003, 0.0012, false)), ("seen", range(0.0, 4000.0, false))];
        let ranges = features.map(|(name, range)| (("nodes[0]".to_owned(), name.to_owned()), range));
        let notes = notes_of_ranges(&BTreeMap::from(ranges));
        let expected = "features with small numbers: age of nodes[0] (0.0003 to 0.0012). A model learns little from them \
                        beside others. If they are quantities: use transform: {name: z_score}";
        assert!(notes.len() == 2 && notes[0].contains("seen of nodes[0]") && notes[1] == expected, "{notes:?}");
        for other in [range(0.0, 0.0, false), range(-0.5, 0.001, false), range(0.0, 0.02, false)] {
            assert!(!other.is_small(), "{other:?}");
        }
    }
}

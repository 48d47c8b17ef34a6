//! Classes of nodes, from numbers or texts.

use super::spec::{LabelCells, why_no_class};
use crate::table::whole_text;
use arrow_array::Array;
use edgecut_settings::suggestion;
use std::collections::{BTreeSet, HashMap};

/// The most classes that have names.
const MAX_NAMED_CLASSES: usize = 1 << 20;
/// The most classes that an error lists.
const MOST_LISTED: usize = 20;

/// The labels of some rows, if they are texts.
pub(super) struct LabelProbe {
    /// False if a text is not a whole number.
    are_numbers: bool,
    texts: BTreeSet<String>,
}

impl Default for LabelProbe {
    fn default() -> Self {
        Self { are_numbers: true, texts: BTreeSet::new() }
    }
}

/// The conversion of labels to classes.
pub(super) enum LabelRule {
    /// Labels are whole numbers.
    Numbers,
    /// Labels are the names of classes.
    Names { names: Vec<String>, classes: HashMap<String, i64> },
}

impl LabelProbe {
    /// Adds the label of a row.
    pub(super) fn add(&mut self, cells: Option<&LabelCells>, row: usize) -> Result<(), String> {
        let Some(LabelCells::Texts(texts)) = cells else { return Ok(()) };
        if texts.is_null(row) {
            return Ok(());
        }
        let text = texts.value(row);
        if is_missing_text(text) {
            return Ok(());
        }
        if !self.texts.contains(text) {
            self.are_numbers &= whole_text(text).is_ok();
            self.texts.insert(text.to_owned());
        }
        if self.texts.len() > MAX_NAMED_CLASSES {
            return Err(format!("there are more than {MAX_NAMED_CLASSES} different labels"));
        }
        Ok(())
    }

    /// Adds the labels of later rows.
    pub(super) fn merge(&mut self, later: Self) {
        self.are_numbers &= later.are_numbers;
        self.texts.extend(later.texts);
    }

    /// Returns the rule for the labels. Texts that are not all numbers become classes in the order of
    /// their bytes.
    pub(super) fn rule(self) -> LabelRule {
        if self.are_numbers { LabelRule::Numbers } else { LabelRule::of_names(self.texts.into_iter().collect()) }
    }
}

/// Returns true for a text of a node without a label.
pub(super) fn is_missing_text(text: &str) -> bool {
    whole_text(text) == Ok(-1)
}

impl LabelRule {
    /// Creates the rule for texts, whose class is their position.
    pub(super) fn of_names(names: Vec<String>) -> Self {
        let classes = names.iter().cloned().zip(0..).collect();
        Self::Names { names, classes }
    }

    /// Returns the names of the classes, if they have names.
    pub(super) fn names(&self) -> Option<&[String]> {
        match self {
            Self::Numbers => None,
            Self::Names { names, .. } => Some(names),
        }
    }

    /// Returns the class of a row, -1 without a label.
    pub(super) fn class(&self, cells: &LabelCells, row: usize) -> Result<i64, String> {
        match (self, cells) {
            (Self::Numbers, LabelCells::Whole(classes)) => Ok(classes[row]),
            (Self::Names { .. }, LabelCells::Whole(classes)) => match classes[row] {
                -1 => Ok(-1),
                class => Err(format!("the label {class} is a number, but the classes have names")),
            },
            (_, LabelCells::Targets { .. }) => Err("it has several labels, but no class".into()),
            (_, LabelCells::Texts(texts)) if texts.is_null(row) => Ok(-1),
            (Self::Numbers, LabelCells::Texts(texts)) => {
                let class = whole_text(texts.value(row))?;
                why_no_class(class).map_or(Ok(class), Err)
            }
            (Self::Names { names, classes }, LabelCells::Texts(texts)) => {
                let name = texts.value(row);
                if is_missing_text(name) {
                    return Ok(-1);
                }
                classes.get(name).copied().ok_or_else(|| why_unknown(name, names))
            }
        }
    }
}

/// Returns the reason why a row cannot have a label that is none of the classes of parts.
fn why_unknown(label: &str, names: &[String]) -> String {
    let mut why = format!("the label {label:?} is not one of the known classes");
    if names.len() <= MOST_LISTED {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        why += &format!("{}: {}", suggestion(label, names.iter().copied()), names.join(", "));
    }
    why + ". New classes need a partitioning of all tables together, and a model that is trained on it"
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;

    #[test]
    fn classes_are_in_the_order_of_the_bytes_of_their_names() {
        let names = ["no", "Yes", "10", "9", "yes", "-1"];
        let cells = LabelCells::Texts(StringArray::from(names.to_vec()));
        let mut probe = LabelProbe::default();
        for row in 0..names.len() {
            probe.add(Some(&cells), row).expect("a label");
        }
        let rule = probe.rule();
        let expected = ["10", "9", "Yes", "no", "yes"].map(String::from);
        assert_eq!(rule.names(), Some(&expected[..]));
        assert_eq!((rule.class(&cells, 1), rule.class(&cells, 5)), (Ok(2), Ok(-1)));
    }

    #[test]
    fn an_unknown_class_is_named_with_the_known_ones() {
        let rule = LabelRule::of_names(["no", "yes"].map(String::from).to_vec());
        let why = rule.class(&LabelCells::Texts(StringArray::from(vec!["YES"])), 0).expect_err("no class");
        assert!(
            why.starts_with("the label \"YES\" is not one of the known classes (did you mean yes?): no, yes. New"),
            "{why}"
        );
    }
}

//! Missing values: one rule for all columns of CSV and Parquet tables.
//!
//! Invariant: a batch of a table has null for every missing value before its columns are decoded.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The texts that are missing values, unless a configuration lists others. Python writes NaN as `nan`.
const DEFAULT: [&str; 7] = ["", "NA", "N/A", "NaN", "nan", "null", "None"];

/// Texts in lower case that often stand for a missing value, but are values unless a configuration lists them.
const SUSPECTS: [&str; 12] =
    ["?", "-", "--", ".", "unknown", "missing", "undefined", "none", "null", "nil", "n.a.", "not available"];

/// The texts and numbers that are missing values. Null and the number NaN are always missing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NaValues {
    texts: Vec<String>,
    /// The numbers among the texts.
    numbers: Vec<f64>,
    /// The length of the longest text.
    longest: usize,
}

/// The numbers of missing values of each column and of unknown categories of each feature, over all tables of a
/// configuration.
#[derive(Clone, Default)]
pub(crate) struct MissingValues(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    missing: BTreeMap<Column, Pieces>,
    /// By the path of the table and the name of the feature.
    unknown: BTreeMap<(String, String), u64>,
    /// The values of each column that may stand for missing ones.
    suspects: BTreeSet<(Column, String)>,
}

/// The path of a table in the configuration, and the name of a column.
type Column = (String, String);
/// The missing values of a column in each piece of its table.
type Pieces = BTreeMap<usize, MissingInPiece>;

/// The missing values of a column in a piece of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MissingInPiece {
    num_rows: u64,
    /// The number of values for each spelling.
    spellings: BTreeMap<String, u64>,
}

impl Default for NaValues {
    fn default() -> Self {
        Self::new(DEFAULT.map(str::to_owned).to_vec())
    }
}

impl NaValues {
    /// Creates the rule for a list of texts. A whole number is also missing with a zero as decimal, as in pandas.
    pub(crate) fn new(mut texts: Vec<String>) -> Self {
        let numbers: Vec<f64> =
            texts.iter().filter_map(|text| text.parse().ok()).filter(|n: &f64| !n.is_nan()).collect();
        texts.extend(numbers.iter().filter(|number| number.fract() == 0.0).map(|number| format!("{number:.1}")));
        texts.sort();
        texts.dedup();
        let longest = texts.iter().map(String::len).max().unwrap_or(0);
        Self { texts, numbers, longest }
    }

    /// Returns a rule by which only null and NaN are missing.
    pub(crate) fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Returns a rule by which also the values of another rule are missing.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self::new([&self.texts[..], &other.texts].concat())
    }

    fn has_text(&self, text: &str) -> bool {
        text.len() <= self.longest && self.texts.iter().any(|missing| missing == text)
    }

    fn has_number(&self, number: f64) -> bool {
        number.is_nan() || self.numbers.contains(&number)
    }

    /// Returns a column with null in place of missing values, and adds these to `counts`. `empty_is_null` says that null
    /// is the form of empty texts, as in columns of CSV files.
    ///
    /// # Errors
    /// Fails for a column that cannot be converted.
    pub(crate) fn nullify(
        &self,
        column: &ArrayRef,
        empty_is_null: bool,
        counts: &mut MissingInPiece,
    ) -> Result<ArrayRef, ArrowError> {
        counts.num_rows += column.len() as u64;
        let column = &if empty_is_null && !self.has_text("") { with_empty_texts(column) } else { column.clone() };
        let spellings = self.find(column)?;
        spellings.iter().flatten().for_each(|spelling| counts.add(spelling));
        let spelling = if empty_is_null { "" } else { "null" };
        let num_null = column.logical_null_count() as u64;
        if num_null > 0 {
            *counts.spellings.entry(spelling.to_owned()).or_default() += num_null;
        }
        if spellings.iter().all(Option::is_none) {
            return Ok(column.clone());
        }
        let found: Vec<bool> = spellings.iter().map(Option::is_some).collect();
        nullif(column, &BooleanArray::from(found))
    }

    /// Returns the spelling of each missing value other than null. Returns nothing for a type that has only null.
    fn find(&self, column: &ArrayRef) -> Result<Vec<Option<String>>, ArrowError> {
        let data_type = column.data_type();
        if is_text(data_type) {
            // Most dictionaries have no missing value.
            if let Some(dictionary) = column.as_any_dictionary_opt() {
                let values = cast(dictionary.values(), &DataType::Utf8)?;
                if !values.as_string::<i32>().iter().flatten().any(|text| self.has_text(text)) {
                    return Ok(Vec::new());
                }
            }
            let texts = cast(column, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            return Ok(spellings(|| texts.iter(), |text| self.has_text(text)));
        }
        if data_type.is_floating() || (data_type.is_integer() && !self.numbers.is_empty()) {
            let numbers = cast(column, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            return Ok(spellings(|| numbers.iter(), |number| self.has_number(*number)));
        }
        Ok(Vec::new())
    }
}

/// Returns the spelling of each missing value, or nothing if none is missing, as in most columns.
fn spellings<T: ToString, I: Iterator<Item = Option<T>>>(
    values: impl Fn() -> I,
    is_missing: impl Fn(&T) -> bool,
) -> Vec<Option<String>> {
    if !values().flatten().any(|value| is_missing(&value)) {
        return Vec::new();
    }
    values().map(|value| value.filter(&is_missing).map(|value| value.to_string())).collect()
}

impl MissingInPiece {
    fn add(&mut self, spelling: &str) {
        match self.spellings.get_mut(spelling) {
            Some(count) => *count += 1,
            None => {
                self.spellings.insert(spelling.to_owned(), 1);
            }
        }
    }
}

impl MissingValues {
    /// Records the missing values of a column in a piece. A piece that is read again has the same values.
    pub(crate) fn record(&self, table: &str, column: &str, piece: usize, missing: &MissingInPiece) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = counts.missing.entry((table.to_owned(), column.to_owned())).or_default();
        pieces.insert(piece, missing.clone());
    }

    /// Records the number of categories in all rows of a table that the transform of a feature does not know.
    pub(crate) fn record_unknown(&self, table: &str, feature: &str, num_unknown: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.unknown.insert((table.to_owned(), feature.to_owned()), num_unknown);
    }

    /// Records the classes or categories of a column that may stand for missing values.
    pub(crate) fn record_suspects<'a>(&self, table: &str, column: &str, texts: impl Iterator<Item = &'a str>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspect = |text: &&str| SUSPECTS.contains(&text.trim().to_lowercase().as_str());
        let of_column = (table.to_owned(), column.to_owned());
        counts.suspects.extend(texts.filter(is_suspect).map(|text| (of_column.clone(), text.to_owned())));
    }

    /// Returns a sentence for each column that has missing values or values that may stand for these, and for each feature that has unknown categories.
    pub(crate) fn notes(&self) -> Vec<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing =
            counts.missing.iter().filter_map(|((table, column), pieces)| note(table, column, pieces.values()));
        let unknown = counts.unknown.iter().filter(|(_, number)| **number > 0).map(|((table, feature), number)| {
            let word = if *number == 1 { "category" } else { "categories" };
            format!("{table}, feature {feature}: {number} {word} that its transform does not have, read as no category")
        });
        let suspects = counts.suspects.iter().map(|((table, column), text)| {
            format!(
                "{table}, column {column}: the text {text} is a value like others; missing_values: [{text:?}] reads it as \
                 missing"
            )
        });
        missing.chain(suspects).chain(unknown).collect()
    }
}

fn note<'a>(table: &str, column: &str, pieces: impl Iterator<Item = &'a MissingInPiece>) -> Option<String> {
    let mut sum = MissingInPiece::default();
    for piece in pieces {
        sum.num_rows += piece.num_rows;
        for (spelling, count) in &piece.spellings {
            *sum.spellings.entry(spelling.clone()).or_default() += count;
        }
    }
    let num_missing: u64 = sum.spellings.values().sum();
    if num_missing == 0 {
        return None;
    }
    let each = |(spelling, count): (&String, &u64)| match spelling.as_str() {
        "" => format!("{count} empty"),
        spelling => format!("{count} {spelling}"),
    };
    let each: Vec<String> = sum.spellings.iter().map(each).collect();
    Some(format!(
        "{table}, column {column}: {num_missing} of {} values are missing ({}); the key na_values lists the texts that are \
         read as missing",
        sum.num_rows,
        each.join(", ")
    ))
}

/// Returns true for a column of texts.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => values.is_string(),
        _ => data_type.is_string(),
    }
}

/// Returns a column of texts with an empty text in place of null.
fn with_empty_texts(column: &ArrayRef) -> ArrayRef {
    let texts: &StringArray = column.as_string();
    Arc::new(texts.iter().map(|text| Some(text.unwrap_or(""))).collect::<StringArray>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, Int32Array};

    fn missing(values: &NaValues, column: ArrayRef) -> Vec<bool> {
        let nullified = values.nullify(&column, false, &mut MissingInPiece::default()).unwrap();
        assert_eq!(nullified.data_type(), column.data_type());
        (0..nullified.len()).map(|row| nullified.is_null(row)).collect()
    }

    #[test]
    fn texts_and_numbers_follow_one_rule() {
        let values = NaValues::new(vec!["".into(), "-9".into()]);
        assert_eq!(missing(&values, Arc::new(Int32Array::from(vec![-9, 9]))), [true, false]);
        assert_eq!(missing(&values, Arc::new(Float32Array::from(vec![-9.0, f32::NAN, 9.0]))), [true, true, false]);
        let texts = StringArray::from(vec![Some("-9"), Some("-9.0"), Some(""), None, Some("NA")]);
        let expected = [true, true, true, true, false];
        assert_eq!(missing(&values, Arc::new(texts.clone())), expected);
        let to = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        assert_eq!(missing(&values, cast(&texts, &to).unwrap()), expected);
        assert_eq!(missing(&NaValues::none(), Arc::new(texts)), [false, false, false, true, false]);
    }

    #[test]
    fn empty_fields_of_csv_are_texts_if_they_are_not_missing() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![None, Some("NA")]));
        let only_na = NaValues::new(vec!["NA".into()]);
        let nullified = only_na.nullify(&column, true, &mut MissingInPiece::default()).unwrap();
        assert_eq!(nullified.as_string::<i32>().iter().collect::<Vec<_>>(), [Some(""), None]);
    }

    #[test]
    fn a_piece_that_is_read_again_counts_once() {
        let counts = MissingValues::default();
        for piece in [0, 1, 0] {
            let mut missing = MissingInPiece::default();
            let column: ArrayRef = Arc::new(StringArray::from(vec![None, Some("NA"), Some("x")]));
            NaValues::default().nullify(&column, true, &mut missing).unwrap();
            counts.record("nodes[0]", "y", piece, &missing);
        }
        let notes = counts.notes();
        assert!(notes[0].starts_with("nodes[0], column y: 4 of 6 values are missing (2 empty, 2 NA)"), "{notes:?}");
    }
}

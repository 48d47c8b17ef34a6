//! Missing values: one rule for all columns of CSV and Parquet tables.
//!
//! Invariant: a batch of a table has null for every missing value before its columns are decoded.

use super::alike::AlikeValues;
use super::cells::{is_decimal, number_form};
use super::ranges::{FeatureRange, notes_of_ranges};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, StringArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The texts that are missing values, unless a configuration lists others. Python writes NaN as `nan`.
const DEFAULT: [&str; 7] = ["", "NA", "N/A", "NaN", "nan", "null", "None"];

/// The least number of classes that may be values of a column of ids or dates.
const MANY_CLASSES: usize = 20;

/// Texts in lower case that often stand for a missing value, but are values unless a configuration lists them.
const SUSPECTS: [&str; 17] = [
    "?",
    "-",
    "--",
    ".",
    "unknown",
    "missing",
    "undefined",
    "none",
    "null",
    "nil",
    "n.a.",
    "not available",
    "n/a",
    "#n/a",
    "<na>",
    "nat",
    "\\n",
];

/// The texts and numbers that are missing values. Null and the number NaN are always missing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NaValues {
    texts: Vec<String>,
    /// The numbers among the texts.
    numbers: Vec<MissingNumber>,
    /// The length of the longest text.
    longest: usize,
}

/// A number that is missing in all its spellings and types.
#[derive(Clone, Debug, PartialEq)]
struct MissingNumber {
    float: f64,
    /// The plain decimal form, or the name of an infinite number.
    form: String,
    /// The number, if it is whole.
    whole: Option<i128>,
}

impl MissingNumber {
    /// Returns the number of a text, unless it is another text.
    fn of(text: &str) -> Option<Self> {
        let float: f64 = text.trim().parse().ok()?;
        let form = if float.is_infinite() { text.to_owned() } else { number_form(text)? };
        Some(Self { float, whole: form.parse().ok(), form })
    }
}

/// The numbers of missing values of each column and of unknown categories of each feature, and the ranges of features, over
/// all tables of a configuration.
#[derive(Clone, Default)]
pub(crate) struct MissingValues(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    missing: BTreeMap<Column, Pieces>,
    /// By the path of the table and the name of the feature.
    unknown: BTreeMap<(String, String), u64>,
    /// The values of each column that may stand for missing ones.
    suspects: BTreeSet<(Column, String)>,
    /// The values of each column that differ only in how they are written.
    alike: BTreeMap<Column, AlikeValues>,
    /// By the path of the table and the name of the feature.
    ranges: BTreeMap<(String, String), FeatureRange>,
    /// The number of classes, and of the rows of their table, of each column with about as many classes as rows.
    many_classes: BTreeMap<Column, (usize, u64)>,
    /// The number of labels 1 of each column with no other classes than 0 and 1.
    binary: BTreeMap<Column, usize>,
    /// The largest class of each column of numbers without a class 0.
    without_0: BTreeMap<Column, i64>,
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
    /// Creates the rule for a list of texts. Numbers among them are missing in columns of numbers, and in all spellings.
    pub(crate) fn new(mut texts: Vec<String>) -> Self {
        texts.sort();
        texts.dedup();
        let numbers = texts.iter().filter_map(|text| MissingNumber::of(text)).collect();
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

    /// Returns true for a spelling of a number that is missing. Floats that are equal are told apart by all their digits.
    fn has_spelling(&self, text: &str) -> bool {
        if self.numbers.is_empty() {
            return false;
        }
        let Ok(float) = text.trim().parse::<f64>() else { return false };
        let mut near = self.numbers.iter().filter(|number| number.float == float);
        near.any(|number| number_form(text).as_ref() == Some(&number.form))
    }

    /// Returns the numbers that are missing in a column of floats, in the precision of the column.
    fn floats(&self, data_type: &DataType) -> Result<Vec<f64>, ArrowError> {
        let numbers: ArrayRef =
            Arc::new(Float64Array::from_iter_values(self.numbers.iter().map(|number| number.float)));
        let rounded = cast(&cast(&numbers, data_type)?, &DataType::Float64)?;
        let mut floats = Vec::with_capacity(self.numbers.len());
        for (number, float) in self.numbers.iter().zip(rounded.as_primitive::<Float64Type>()) {
            // A number that is too large for the column is not in it.
            floats.extend(float.filter(|float| float.is_infinite() == number.float.is_infinite()));
        }
        Ok(floats)
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
        if let Some(dictionary) = column.as_any_dictionary_opt() {
            let values = dictionary.values();
            // Most dictionaries have no missing value.
            if self.find(values)?.is_empty() {
                return Ok(Vec::new());
            }
            return self.find(&cast(column, values.data_type())?);
        }
        let data_type = column.data_type();
        if data_type.is_string() {
            let texts = cast(column, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            return Ok(spellings(|| texts.iter(), |text| self.has_text(text) || self.has_spelling(text)));
        }
        if data_type.is_floating() {
            let missing = self.floats(data_type)?;
            let numbers = cast(column, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            return Ok(spellings(|| numbers.iter(), |number| number.is_nan() || missing.contains(number)));
        }
        if self.numbers.is_empty() {
            return Ok(Vec::new());
        }
        if is_decimal(data_type) {
            let texts = cast(column, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            return Ok(spellings(|| texts.iter(), |text| self.has_spelling(text)));
        }
        let whole: Vec<i128> = self.numbers.iter().filter_map(|number| number.whole).collect();
        if *data_type == DataType::UInt64 {
            let numbers = column.as_primitive::<UInt64Type>();
            return Ok(spellings(|| numbers.iter(), |&number| whole.contains(&i128::from(number))));
        }
        if data_type.is_integer() {
            let numbers = cast(column, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            return Ok(spellings(|| numbers.iter(), |&number| whole.contains(&i128::from(number))));
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

    /// Records the range of the numbers of a feature.
    pub(crate) fn record_range(&self, table: &str, feature: &str, range: FeatureRange) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.ranges.insert((table.to_owned(), feature.to_owned()), range);
    }

    /// Records the number of classes in a column with `num_rows` rows.
    pub(crate) fn record_classes(&self, table: &str, column: &str, num_classes: usize, num_rows: u64) {
        if num_classes >= MANY_CLASSES && 2 * num_classes as u64 > num_rows {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            counts.many_classes.insert((table.to_owned(), column.to_owned()), (num_classes, num_rows));
        }
    }

    /// Records the labels of a column of numbers, if they have no other classes than 0 and 1, or no class 0.
    pub(crate) fn record_whole_labels(&self, table: &str, column: &str, labels: &[i64]) {
        let column = (table.to_owned(), column.to_owned());
        let num_ones = labels.iter().filter(|&&label| label == 1).count();
        let largest = labels.iter().copied().max().unwrap_or(-1);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if largest > 1 && !labels.contains(&0) {
            counts.without_0.insert(column.clone(), largest);
        }
        if num_ones > 0 && largest == 1 {
            counts.binary.insert(column, num_ones);
        }
    }

    /// Returns a sentence for each column of labels whose -1 may be a class, such as the sign of an edge.
    pub(crate) fn warnings_of_signs(&self) -> Vec<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut warnings = Vec::new();
        for ((table, column), num_ones) in &counts.binary {
            let pieces = counts.missing.get(&(table.clone(), column.clone()));
            let spellings = pieces.iter().flat_map(|pieces| pieces.values()).flat_map(|piece| &piece.spellings);
            let negative = spellings.filter(|(spelling, _)| number_form(spelling).as_deref() == Some("-1"));
            let num_negative: u64 = negative.map(|(_, count)| count).sum();
            if num_negative > 0 {
                warnings.push(format!(
                    "{table}, column {column}: {num_negative} labels are -1, which means no label, and {num_ones} are 1: if -1 \
                     is a class, write the classes as words such as negative and positive, or as 0 and 1"
                ));
            }
        }
        warnings
    }

    /// Returns a sentence for each column of numbers without a class 0.
    pub(crate) fn notes_of_classes(&self) -> Vec<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let notes = counts.without_0.iter().map(|((table, column), largest)| {
            format!(
                "{table}, column {column}: classes are numbered from 0, but no row has the class 0, so that there are {} classes: \
                 subtract 1 if the numbers start at 1, or write words",
                largest.saturating_add(1)
            )
        });
        notes.collect()
    }

    /// Returns sentences about the features with large numbers and about those with small numbers, if there are some.
    pub(crate) fn notes_of_ranges(&self) -> Vec<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes_of_ranges(&counts.ranges)
    }

    /// Records the classes or categories of a column that may stand for missing values or differ only in how they are written.
    pub(crate) fn record_suspects<'a>(&self, table: &str, column: &str, texts: impl Iterator<Item = &'a str>) {
        let texts: Vec<&str> = texts.collect();
        let alike = AlikeValues::among(&texts);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in texts {
            if may_be_missing(text) {
                counts.suspects.insert(((table.to_owned(), column.to_owned()), text.to_owned()));
            }
        }
        counts.alike.extend(alike.map(|alike| ((table.to_owned(), column.to_owned()), alike)));
    }

    /// Returns a sentence for each column that has missing values, values that may stand for these or values that differ only in how they
    /// are written, and for each feature that has unknown categories.
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
        let many = counts.many_classes.iter().map(|((table, column), (num_classes, num_rows))| {
            format!(
                "{table}, column {column}: {num_classes} different labels in {num_rows} rows, each of which is a class: \
                 another column may be meant"
            )
        });
        let alike = counts.alike.iter().map(|((table, column), alike)| format!("{table}, column {column}: {alike}"));
        missing.chain(suspects).chain(alike).chain(unknown).chain(many).collect()
    }
}

/// Returns true for a text that often stands for a missing value.
pub(super) fn may_be_missing(text: &str) -> bool {
    SUSPECTS.contains(&text.trim().to_lowercase().as_str())
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
    let mut each = Vec::with_capacity(sum.spellings.len());
    for (spelling, count) in &sum.spellings {
        each.push(match spelling.as_str() {
            "" => format!("{count} empty"),
            spelling => format!("{count} {spelling}"),
        });
    }
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
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(-9.0), Some(f64::NAN), None, Some(9.0)]));
        let to = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Float64));
        assert_eq!(missing(&values, cast(&floats, &to).unwrap()), [true, true, true, false]);
    }

    #[test]
    fn numbers_are_missing_in_the_precision_of_a_column() {
        let values = NaValues::new(vec!["1e300".into(), "-9223372036854775808".into(), "0.1".into()]);
        let floats = Float32Array::from(vec![f32::INFINITY, -9_223_372_036_854_775_808.0, 0.1, 0.2]);
        assert_eq!(missing(&values, Arc::new(floats)), [false, true, true, false]);
        let whole = arrow_array::Int64Array::from(vec![i64::MIN, i64::MIN + 1, 0]);
        assert_eq!(missing(&values, Arc::new(whole)), [true, false, false]);
        let texts = StringArray::from(vec!["1e+300", " 0.10", "-9223372036854775807", "00.1"]);
        assert_eq!(missing(&values, Arc::new(texts)), [true, true, false, false]);
        let infinite = NaValues::new(vec!["inf".into()]);
        assert_eq!(missing(&infinite, Arc::new(Float32Array::from(vec![f32::INFINITY, f32::MAX]))), [true, false]);
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

//! Ids, texts and whole numbers in columns.

use super::BadCell;
use super::missing::is_text;
use crate::ids::{Id, IdMap, canonical_number};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, StringArray, UInt64Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;
use arrow_select::take::take;

/// The limit of whole numbers that are floats.
const MAX_WHOLE_FLOAT: f64 = 9e15;

/// The ids of a column. Null is an id that is missing.
pub(crate) enum IdCells {
    /// Numbers.
    Numbers(Int64Array),
    /// Texts, of which at least one is not the decimal form of a number.
    Texts(StringArray),
    /// Texts, each of which is stored once.
    Coded {
        /// The position of the text of each row.
        codes: Vec<Option<u32>>,
        texts: StringArray,
    },
}

impl IdCells {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
            Self::Coded { codes, .. } => codes.len(),
        }
    }

    /// Returns the ids of all rows; `None` for an id that is missing.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Option<Id<'_>>> {
        (0..self.len()).map(|row| self.id(row))
    }

    /// Returns the id of a row, unless it is missing.
    pub(crate) fn id(&self, row: usize) -> Option<Id<'_>> {
        match self {
            Self::Numbers(numbers) => numbers.is_valid(row).then(|| Id::Number(numbers.value(row))),
            Self::Texts(texts) => texts.is_valid(row).then(|| Id::Text(texts.value(row))),
            Self::Coded { codes, texts } => codes[row].map(|code| Id::Text(texts.value(code as usize))),
        }
    }

    /// Returns the numbers of the ids of all rows; `None` for an id that is missing or not in `ids`. Looks up a text that is
    /// stored once only once.
    pub(crate) fn find_in(&self, ids: &IdMap) -> Vec<Option<u32>> {
        let Self::Coded { codes, texts } = self else { return ids.get_all(self.ids()) };
        let found = ids.get_all(texts.iter().map(|text| text.map(Id::Text)));
        codes.iter().map(|code| code.and_then(|code| found[code as usize])).collect()
    }
}

/// The reason why a column holds no ids.
#[derive(Debug)]
pub(crate) struct NoIds {
    /// The first row that is no id, if the values decide.
    pub(crate) row: Option<usize>,
    pub(crate) why: String,
}

impl From<String> for NoIds {
    fn from(why: String) -> Self {
        Self { row: None, why }
    }
}

/// Converts a column of ids. Texts that are all the decimal form of a number become numbers, so that ids are the same
/// in CSV and in Parquet.
///
/// # Errors
/// Fails for a type that holds no ids.
pub(crate) fn id_cells(array: &ArrayRef) -> Result<IdCells, NoIds> {
    let data_type = array.data_type();
    if let Some(cells) = coded_cells(array)? {
        return Ok(cells);
    }
    // Whole decimals may have more digits than 64 bits.
    if is_text(data_type) || is_decimal(data_type) {
        let texts = if is_text(data_type) { as_texts(array)? } else { whole_decimals(array)? };
        let numbers: Option<Vec<Option<i64>>> = texts.iter().map(optional_number).collect();
        return Ok(match numbers {
            Some(numbers) => IdCells::Numbers(numbers.into()),
            None => IdCells::Texts(texts),
        });
    }
    if data_type.is_floating() {
        return whole_ids(array).map(IdCells::Numbers);
    }
    if !data_type.is_integer() {
        return Err(why_no_ids(data_type, "").into());
    }
    let largest = (*data_type == DataType::UInt64)
        .then(|| array.as_primitive::<UInt64Type>().iter().flatten().max().unwrap_or(0));
    if largest.is_some_and(|largest| largest > i64::MAX as u64) {
        return Ok(IdCells::Texts(as_texts(array)?));
    }
    let numbers = cast_to(array, &DataType::Int64)?;
    Ok(IdCells::Numbers(numbers.as_primitive::<Int64Type>().clone()))
}

/// Returns the ids of a dictionary of texts that has fewer texts than rows.
fn coded_cells(array: &ArrayRef) -> Result<Option<IdCells>, String> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(None) };
    let values = dictionary.values();
    if values.is_empty() || values.len() > array.len() || !is_text(values.data_type()) {
        return Ok(None);
    }
    let texts = as_texts(values)?;
    let mut codes = Vec::with_capacity(array.len());
    for (row, code) in dictionary.normalized_keys().into_iter().enumerate() {
        codes.push((array.is_valid(row) && texts.is_valid(code)).then_some(code as u32));
    }
    let numbers: Vec<Option<i64>> = texts.iter().map(|text| text.and_then(canonical_number)).collect();
    // The texts of missing values may be in the dictionary, but no row has them.
    if codes.iter().flatten().all(|&code| numbers[code as usize].is_some()) {
        let of_rows = codes.iter().map(|code| code.and_then(|code| numbers[code as usize]));
        return Ok(Some(IdCells::Numbers(of_rows.collect())));
    }
    Ok(Some(IdCells::Coded { codes, texts }))
}

pub(super) fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    )
}

/// Returns the error of a column that holds no ids, with the line that converts it.
fn why_no_ids(data_type: &DataType, more: &str) -> String {
    let texts = match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "str.decode(\"utf-8\")",
        DataType::FixedSizeBinary(_) => "map(bytes.hex)",
        _ => "astype(str)",
    };
    format!(
        "its type is {data_type}, but ids are texts or whole numbers{more}. Convert the column, for example with pandas: \
         table[column] = table[column].{texts}"
    )
}

/// Returns the texts of decimals that are whole numbers, such as the keys of databases whose numbers all have digits after the
/// point.
///
/// # Errors
/// Fails for a number with a fraction.
fn whole_decimals(array: &ArrayRef) -> Result<StringArray, NoIds> {
    let mut wholes = Vec::with_capacity(array.len());
    for (row, text) in as_texts(array)?.iter().enumerate() {
        let whole = text.and_then(number_form);
        if whole.as_ref().is_some_and(|whole| whole.contains('.')) {
            let more = format!(", and {} is not a whole number", text.unwrap_or_default());
            return Err(NoIds { row: Some(row), why: why_no_ids(array.data_type(), &more) });
        }
        wholes.push(whole);
    }
    Ok(wholes.into())
}

/// Converts floats that are whole numbers, such as keys that pandas has read from a column with empty fields.
///
/// # Errors
/// Fails for a number with a fraction, or one that is so large that floats do not tell it from its neighbors.
fn whole_ids(array: &ArrayRef) -> Result<Int64Array, NoIds> {
    let floats = cast_to(array, &DataType::Float64)?;
    let mut numbers = Vec::with_capacity(array.len());
    for (row, float) in floats.as_primitive::<Float64Type>().iter().enumerate() {
        match float.map(whole_float).transpose() {
            Ok(number) => numbers.push(number),
            Err(why) => {
                return Err(NoIds { row: Some(row), why: why_no_ids(array.data_type(), &format!(", and {why}")) });
            }
        }
    }
    Ok(numbers.into())
}

/// Converts a column to texts. Numbers become their decimal form. Whole numbers have the same form in all types, because pandas
/// writes a column of whole numbers as floats once a value is missing.
///
/// # Errors
/// Fails for a type without a text form.
pub(crate) fn text_cells(array: &ArrayRef) -> Result<StringArray, String> {
    match array.data_type() {
        // The spelling of Python, whose programs write such mappings.
        DataType::Boolean => {
            Ok(array.as_boolean().iter().map(|value| value.map(|value| if value { "True" } else { "False" })).collect())
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Err(format!(
            "its type is {}, expected texts or numbers. Join the entries, for example with pandas: table[column] = \
             table[column].str.join(\"|\"), and set separator to \"|\"",
            array.data_type()
        )),
        DataType::Struct(_) => Err(format!("its type is {}, expected texts or numbers", array.data_type())),
        DataType::Dictionary(_, values) if values.is_floating() || is_decimal(values) => {
            text_cells(&cast_to(array, values)?)
        }
        data_type if data_type.is_floating() || is_decimal(data_type) => {
            let mut texts = Vec::with_capacity(array.len());
            for text in &as_texts(array)? {
                texts.push(text.map(|text| match number_form(text) {
                    Some(form) if !form.contains('.') => form,
                    _ => text.to_owned(),
                }));
            }
            Ok(texts.into())
        }
        _ => as_texts(array),
    }
}

/// Converts a column to whole numbers, such as classes. `missing` takes the place of null, which is otherwise bad.
///
/// # Errors
/// Fails for a type without whole numbers.
pub(crate) fn whole_numbers(array: &ArrayRef, missing: Option<i64>) -> Result<(Vec<i64>, Vec<BadCell>), String> {
    let mut bad = Vec::new();
    let mut values = Vec::with_capacity(array.len());
    let mut add = |row: usize, cell: Option<Result<i64, String>>| {
        let number = match (cell, missing) {
            (Some(Ok(number)), _) | (None, Some(number)) => number,
            (Some(Err(why)), _) => {
                bad.push(BadCell::new(row, why));
                0
            }
            (None, None) => {
                bad.push(BadCell::missing(row));
                0
            }
        };
        values.push(number);
    };
    let data_type = array.data_type();
    if is_text(data_type) || is_decimal(data_type) {
        as_texts(array)?.iter().enumerate().for_each(|(row, text)| add(row, text.map(whole_text)));
    } else if data_type.is_floating() {
        let floats = cast_to(array, &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>();
        floats.iter().enumerate().for_each(|(row, float)| add(row, float.map(whole_float)));
    } else if *data_type == DataType::UInt64 {
        let numbers = array.as_primitive::<UInt64Type>();
        numbers.iter().enumerate().for_each(|(row, number)| add(row, number.map(signed)));
    } else {
        if !data_type.is_integer() && *data_type != DataType::Boolean {
            return Err(format!("its type is {data_type}, which holds no whole numbers"));
        }
        let whole = cast_to(array, &DataType::Int64)?;
        let whole = whole.as_primitive::<Int64Type>();
        whole.iter().enumerate().for_each(|(row, number)| add(row, number.map(Ok)));
    }
    Ok((values, bad))
}

/// Returns the only number of each list, null for an empty or missing list and for NaN. A longer list is bad.
///
/// # Errors
/// Fails for a type without lists.
pub(crate) fn only_numbers(array: &ArrayRef) -> Result<(ArrayRef, Vec<BadCell>), String> {
    let (DataType::List(entry) | DataType::LargeList(entry) | DataType::FixedSizeList(entry, _)) = array.data_type()
    else {
        return Err(format!("its type is {}, which holds no lists", array.data_type()));
    };
    let lists = cast_to(array, &DataType::LargeList(entry.clone()))?;
    let lists = lists.as_list::<i64>();
    let mut bad = Vec::new();
    let mut positions = Vec::with_capacity(lists.len());
    for (row, ends) in lists.value_offsets().windows(2).enumerate() {
        let num_entries = if lists.is_valid(row) { ends[1] - ends[0] } else { 0 };
        if num_entries > 1 {
            bad.push(BadCell::new(row, format!("it has {num_entries} numbers, but earlier rows have 1")));
        }
        positions.push((num_entries == 1).then_some(ends[0] as u64));
    }
    let numbers = or_text(take(lists.values(), &UInt64Array::from(positions), None))?;
    if !numbers.data_type().is_floating() {
        return Ok((numbers, bad));
    }
    let floats = cast_to(&numbers, &DataType::Float64)?;
    let mut is_nan = Vec::with_capacity(numbers.len());
    for float in floats.as_primitive::<Float64Type>() {
        is_nan.push(float.is_some_and(f64::is_nan));
    }
    Ok((or_text(nullif(&numbers, &BooleanArray::from(is_nan)))?, bad))
}

/// Parses a whole number, which may have the form of a float.
pub(crate) fn whole_text(text: &str) -> Result<i64, String> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    // More digits than 64 bits have.
    if text.parse::<i128>().is_ok() {
        return Err(format!("{text} is too large: whole numbers are from {} to {}", i64::MIN, i64::MAX));
    }
    match text.parse::<f64>() {
        Ok(float) => whole_float(float),
        Err(_) => Err(format!("{text:?} is not a whole number")),
    }
}

/// Returns the plain decimal form of a number, which all its spellings have in common, such as `5`, ` 5.0` and `5e0`. A text with
/// zeros before its digits, such as `007`, is a name and not a number, as among ids.
pub(crate) fn number_form(text: &str) -> Option<String> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        let has_exponent = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let float: f64 = text.parse().ok().filter(|float: &f64| has_exponent && float.is_finite())?;
        return number_form(&float.to_string());
    }
    let has_zeros_before = whole.len() > 1 && whole.starts_with('0');
    if has_zeros_before || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction.trim_end_matches('0');
    let sign = if text.starts_with('-') && (whole, fraction) != ("0", "") { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

fn signed(number: u64) -> Result<i64, String> {
    i64::try_from(number).map_err(|_| format!("{number} is too large: whole numbers are at most {}", i64::MAX))
}

fn whole_float(float: f64) -> Result<i64, String> {
    if float.fract() != 0.0 || !float.is_finite() {
        return Err(format!("{float} is not a whole number"));
    }
    if float.abs() < MAX_WHOLE_FLOAT {
        return Ok(float as i64);
    }
    Err(format!("{float} is too large: floats tell whole numbers from their neighbors up to {MAX_WHOLE_FLOAT}"))
}

/// Returns the number of a text, `Some(None)` for null, and `None` for another text.
fn optional_number(text: Option<&str>) -> Option<Option<i64>> {
    text.map_or(Some(None), |text| canonical_number(text).map(Some))
}

/// Converts an array. The caller adds the file and the column to the error.
///
/// # Errors
/// Fails for a value that the type cannot have. It would otherwise become null, which means a missing value.
pub(super) fn cast_to(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    or_text(cast_with_options(array, to, &options))
}

/// Returns the text of an error, to which the caller adds the file and the column.
fn or_text<T>(result: Result<T, ArrowError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Converts a column to texts.
///
/// # Errors
/// Fails for a type without a text form.
pub(super) fn as_texts(array: &ArrayRef) -> Result<StringArray, String> {
    let dictionary = array.as_any_dictionary_opt().filter(|dictionary| !dictionary.values().is_empty());
    let Some(dictionary) = dictionary else {
        let texts = cast_to(array, &DataType::Utf8)?;
        return Ok(texts.as_string::<i32>().clone());
    };
    // arrow-select, by which a cast does this, is compiled without optimizations.
    let texts = as_texts(dictionary.values())?;
    let codes = dictionary.normalized_keys().into_iter().enumerate();
    Ok(codes.map(|(row, code)| (array.is_valid(row) && texts.is_valid(code)).then(|| texts.value(code))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Inserted;
    use crate::table::times::{TimeForm, time_cells};
    use arrow_array::types::Int32Type;
    use arrow_array::{BinaryArray, DictionaryArray, Float64Array};
    use std::sync::Arc;

    /// Checks that a dictionary has the ids of a plain column, and returns true if its texts are looked up once.
    fn is_coded(texts: &[Option<&str>]) -> bool {
        let coded: ArrayRef = Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>());
        let plain: ArrayRef = Arc::new(texts.iter().copied().collect::<StringArray>());
        let [coded, plain] = [coded, plain].map(|array| id_cells(&array).expect("ids"));
        assert_eq!(coded.ids().collect::<Vec<_>>(), plain.ids().collect::<Vec<_>>());
        let mut map = IdMap::new();
        for id in ["b", "7", "a"] {
            assert_eq!(map.insert(Id::Text(id)), Inserted::New);
        }
        assert_eq!(coded.find_in(&map), plain.find_in(&map));
        matches!(coded, IdCells::Coded { .. })
    }

    #[test]
    fn dictionaries_have_the_ids_of_plain_columns() {
        assert!(is_coded(&[Some("a"), Some("b"), None, Some("a"), Some("c")]));
        assert!(is_coded(&[Some("7"), Some("b"), Some("7")]));
        assert!(!is_coded(&[Some("7"), None, Some("8"), Some("7")]), "numbers");
        assert!(!is_coded(&[None, None]) && !is_coded(&[]), "no texts");
    }

    #[test]
    fn values_that_do_not_fit_are_not_missing() {
        let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![Some(3), None, Some(1 << 63)]));
        let (values, bad) = whole_numbers(&numbers, Some(-1)).expect("whole numbers");
        assert_eq!(values, [3, -1, 0]);
        let times = time_cells(&numbers, &TimeForm::default()).expect("times");
        let why = "9223372036854775808 is too large";
        for (bad, num_bad) in [(bad, 1), (times.bad, 2)] {
            assert_eq!(bad.len(), num_bad);
            let last = &bad[num_bad - 1];
            assert!(last.row == 2 && !last.is_missing && last.why.starts_with(why), "{}", last.why);
        }
        // Other types with such numbers.
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 1e16]));
        let no_ids = id_cells(&floats).err().expect("no ids");
        assert!(no_ids.row == Some(1) && no_ids.why.contains("10000000000000000 is too large"), "{}", no_ids.why);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["3", "-9223372036854775809"]));
        for array in [floats, texts] {
            let (_, bad) = whole_numbers(&array, Some(-1)).expect("whole numbers");
            assert!(bad.len() == 1 && bad[0].row == 1 && bad[0].why.contains(" is too large: "), "{}", bad[0].why);
        }
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"text"[..], &[0xff, 0xfe]]));
        assert!(text_cells(&bytes).is_err());
    }

    #[test]
    fn all_spellings_of_a_number_have_one_form() {
        for (texts, form) in [
            (&["5", "5.0", " 5.00", "+5", "5.", "5e0", "0.5E1"][..], "5"),
            (&["-999", "-999.00", "-9.99e2"], "-999"),
            (&["0", "-0", "0.000", "-0.0", ".0"], "0"),
            (&["0.5", ".50", "5e-1"], "0.5"),
            (&["12345678901234567890", "12345678901234567890.0"], "12345678901234567890"),
            (&["1e20"], "100000000000000000000"),
        ] {
            for text in texts {
                assert_eq!(number_form(text).as_deref(), Some(form), "{text}");
            }
        }
        for text in ["", "-", ".", "007", "-00.5", "1.2.3", "e5", "inf", "NaN", "1e999", "5 apples", "0x5", "--5"] {
            assert_eq!(number_form(text), None, "{text}");
        }
    }
}

//! Numbers and vectors in columns.

use super::cells::{as_texts, cast_to};
use super::missing::may_be_missing;
use super::times::is_time;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_schema::DataType;

/// The numbers of a column, a row of `width` for each row of the table.
pub(crate) struct Numbers {
    /// The numbers, row-major. A row that cannot be used, or is missing, has zeros or NaN.
    pub(crate) values: Vec<f64>,
    /// The numbers per row.
    pub(crate) width: usize,
    /// The rows that cannot be used, ascending.
    pub(crate) bad: Vec<BadCell>,
}

impl Numbers {
    /// Returns the numbers of a row.
    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..][..self.width]
    }
}

/// A value that cannot be used.
pub(crate) struct BadCell {
    /// The row in the batch.
    pub(crate) row: usize,
    /// The reason.
    pub(crate) why: String,
    /// True if the value is missing.
    pub(crate) is_missing: bool,
    /// True if the value is a vector of another length than earlier ones.
    pub(crate) has_other_length: bool,
}

impl BadCell {
    /// Creates a value that cannot be used for the reason `why`.
    pub(crate) fn new(row: usize, why: String) -> Self {
        Self { row, why, is_missing: false, has_other_length: false }
    }

    /// Creates a value that is missing.
    pub(crate) fn missing(row: usize) -> Self {
        Self { is_missing: true, ..Self::new(row, "it is missing".into()) }
    }
}

/// The form of the numbers of a column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberForm<'a> {
    /// The separator of vectors in texts.
    pub(crate) separator: Option<&'a str>,
    /// The length to which longer vectors are cut, and to which zeros fill shorter ones.
    pub(crate) length: Option<usize>,
    /// True if missing values become NaN, and are not bad.
    pub(crate) may_be_missing: bool,
    /// The end of an error about a text that is neither a number nor a time: the key that reads texts, if there is one.
    pub(crate) text_reader: &'static str,
}

/// Converts a column to numbers. `width` is the number of values per row if it is known, and becomes that of the first
/// good row.
///
/// # Errors
/// Fails for a type without numbers.
pub(crate) fn numbers(array: &ArrayRef, form: NumberForm, width: &mut Option<usize>) -> Result<Numbers, String> {
    let num_rows = array.len();
    let separator = form.separator;
    let mut rows =
        RowWriter { values: Vec::new(), width: form.length.or(*width), bad: Vec::new(), rows_before: 0, form };
    match array.data_type() {
        DataType::List(_) => lists(array.as_list::<i32>(), &mut rows)?,
        DataType::LargeList(_) => lists(array.as_list::<i64>(), &mut rows)?,
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let numbers = as_floats(list.values())?;
            let size = *size as usize;
            for row in 0..num_rows {
                let start = list.value_offset_at(row);
                rows.list(row, list.is_valid(row), &numbers, start..start + size);
            }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => texts(array, separator, &mut rows)?,
        DataType::Dictionary(_, values) if values.is_string() => texts(array, separator, &mut rows)?,
        other if separator.is_some() => {
            return Err(format!("its type is {other}, but only texts have a separator"));
        }
        _ => {
            let numbers = as_floats(array)?;
            for row in 0..num_rows {
                rows.list(row, true, &numbers, row..row + 1);
            }
        }
    }
    let found = rows.width.unwrap_or(1);
    // Rows before the first good one had no width yet.
    let mut values = vec![rows.filler(); rows.rows_before * found];
    values.append(&mut rows.values);
    *width = rows.width;
    Ok(Numbers { values, width: found, bad: rows.bad })
}

/// Collects rows of one width.
struct RowWriter<'a> {
    values: Vec<f64>,
    width: Option<usize>,
    bad: Vec<BadCell>,
    /// The rows without numbers before the width was known.
    rows_before: usize,
    form: NumberForm<'a>,
}

impl RowWriter<'_> {
    fn filler(&self) -> f64 {
        if self.form.may_be_missing { f64::NAN } else { 0.0 }
    }

    /// Adds a row without numbers.
    fn fill(&mut self) {
        match self.width {
            Some(width) => self.values.extend(std::iter::repeat_n(self.filler(), width)),
            None => self.rows_before += 1,
        }
    }

    fn bad(&mut self, row: usize, why: String) {
        self.fill();
        self.bad.push(BadCell::new(row, why));
    }

    fn missing(&mut self, row: usize) {
        self.fill();
        if !self.form.may_be_missing {
            self.bad.push(BadCell::missing(row));
        }
    }

    fn row(&mut self, row: usize, numbers: &[f64]) {
        let is_unknown = |number: f64| self.form.may_be_missing && number.is_nan();
        let is_wrong = |number: &&f64| !is_unknown(**number) && !(**number as f32).is_finite();
        if let Some(number) = numbers.iter().find(is_wrong) {
            if number.is_nan() {
                return self.missing(row);
            }
            return self.bad(row, format!("{number} is infinite as a 32-bit float"));
        }
        if let Some(length) = self.form.length {
            let kept = &numbers[..numbers.len().min(length)];
            self.values.extend_from_slice(kept);
            self.values.extend(std::iter::repeat_n(0.0, length - kept.len()));
            return;
        }
        if numbers.is_empty() {
            return if self.form.may_be_missing { self.fill() } else { self.bad(row, "it has no numbers".into()) };
        }
        let width = *self.width.get_or_insert(numbers.len());
        if numbers.len() != width {
            let why = format!("it has {} numbers, but earlier rows have {width}", numbers.len());
            self.fill();
            self.bad.push(BadCell { has_other_length: true, ..BadCell::new(row, why) });
            return;
        }
        self.values.extend_from_slice(numbers);
    }

    /// Adds the numbers of a `range` of an array.
    fn list(&mut self, row: usize, is_valid: bool, numbers: &ArrayRef, range: std::ops::Range<usize>) {
        let numbers = numbers.as_primitive::<Float64Type>();
        let has_null = numbers.null_count() > 0 && range.clone().any(|at| numbers.is_null(at));
        if has_null && is_valid && self.form.may_be_missing {
            let or_nan = |at: usize| if numbers.is_null(at) { f64::NAN } else { numbers.value(at) };
            return self.row(row, &range.map(or_nan).collect::<Vec<_>>());
        }
        if !is_valid || has_null {
            return self.missing(row);
        }
        self.row(row, &numbers.values()[range]);
    }
}

fn lists<O: OffsetSizeTrait>(list: &GenericListArray<O>, rows: &mut RowWriter) -> Result<(), String> {
    let numbers = as_floats(list.values())?;
    for (row, ends) in list.value_offsets().windows(2).enumerate() {
        rows.list(row, list.is_valid(row), &numbers, ends[0].as_usize()..ends[1].as_usize());
    }
    Ok(())
}

/// Parses texts as numbers, or as vectors with a separator.
fn texts(array: &ArrayRef, separator: Option<&str>, rows: &mut RowWriter) -> Result<(), String> {
    let texts = as_texts(array)?;
    let mut numbers = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        let Some(text) = text else {
            rows.missing(row);
            continue;
        };
        numbers.clear();
        let list = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let wrong = match (list, separator) {
            // A list as Python and NumPy write it.
            (Some(list), None) => {
                let entries = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|entry| !entry.is_empty());
                entries.into_iter().find_map(|entry| push_number(entry, &mut numbers))
            }
            (None, None) => push_number(text, &mut numbers),
            (list, Some(separator)) => {
                list.unwrap_or(text).split(separator).find_map(|entry| push_number(entry, &mut numbers))
            }
        };
        match wrong {
            Some(entry) => rows.bad(row, format!("{entry:?} is not a number{}", reader_of(entry, text, rows.form))),
            None => rows.row(row, &numbers),
        }
    }
    Ok(())
}

/// Adds the number that a text is. Returns the text if it is not a number.
fn push_number<'a>(text: &'a str, numbers: &mut Vec<f64>) -> Option<&'a str> {
    let text_of_number = text.trim();
    let number = match text_of_number.parse() {
        Ok(number) => number,
        // As the truth values of Parquet.
        Err(_) if text_of_number.eq_ignore_ascii_case("true") => 1.0,
        Err(_) if text_of_number.eq_ignore_ascii_case("false") => 0.0,
        Err(_) => return Some(text),
    };
    numbers.push(number);
    None
}

/// Returns the end of an error about an entry of a field that is not a number: the key or the line that reads it, if there is
/// one.
fn reader_of(entry: &str, field: &str, form: NumberForm) -> String {
    let text = entry.trim();
    // Missing values are whole fields, with their spaces.
    let takes_missing = entry == field && (form.may_be_missing || !form.text_reader.is_empty());
    if is_time(text) {
        return ". The transform {name: date} reads dates and times".into();
    }
    if takes_missing && may_be_missing(text) {
        return format!("; missing_values: [{entry:?}] reads it as a missing value");
    }
    if text.matches(',').count() == 1 && text.replace(',', ".").parse::<f64>().is_ok() {
        return ". Write numbers with a point, for example with pandas: table = pandas.read_csv(file, decimal=\",\"), or \
                thousands=\",\" for commas between thousands"
            .into();
    }
    form.text_reader.to_owned()
}

fn as_floats(array: &ArrayRef) -> Result<ArrayRef, String> {
    let data_type = array.data_type();
    // Lists without any number have entries of no type.
    if !(data_type.is_numeric() || data_type.is_null() || *data_type == DataType::Boolean) {
        return Err(format!("its type is {data_type}, which holds no numbers{}", remedy_of_type(data_type)));
    }
    cast_to(array, &DataType::Float64)
}

/// Returns the end of an error about a type that holds no numbers: the key that reads it, or the line that converts it.
fn remedy_of_type(data_type: &DataType) -> String {
    let numbers = match data_type {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            return "; the transform {name: date} reads dates and times".into();
        }
        DataType::Duration(_) => "dt.total_seconds()",
        DataType::Time32(_) | DataType::Time64(_) => "map(lambda time: time.hour + time.minute / 60)",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "astype(float)",
        _ => return String::new(),
    };
    format!(". Convert the column, for example with pandas: table[column] = table[column].{numbers}")
}

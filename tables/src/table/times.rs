//! Times in columns.
//!
//! Invariant: all times of a graph have one unit, which `META.json` and `transforms.json` record.

use super::cells::{as_texts, cast_to, is_decimal, whole_numbers, whole_text};
use super::missing::is_text;
use super::time_format::TimeFormat;
use super::{BadCell, Numbers};
use crate::config_values::Object;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{DataType, TimeUnit as ArrowUnit};
use chrono::{DateTime, NaiveDate, Utc};
use edgecut_graph::TimeUnit;
use serde::{Deserialize, Serialize};

const NANOS_PER_DAY: i128 = 86_400 * 1_000_000_000;

/// The times of some rows.
pub(crate) struct TimeCells {
    /// The time of each row, 0 if it is missing or bad.
    pub(crate) values: Vec<i64>,
    /// The unit of each row.
    pub(crate) units: Vec<TimeUnit>,
    /// The rows that cannot be used, ascending.
    pub(crate) bad: Vec<BadCell>,
}

/// The form of times, if it is not ISO 8601, a timestamp or a whole number of an own unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeForm {
    /// The form of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<TimeFormat>,
    /// The unit of numbers since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<Epoch>,
}

/// A unit of numbers since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Epoch {
    S,
    Ms,
    Us,
    Ns,
}

impl Epoch {
    fn nanoseconds(self) -> i64 {
        match self {
            Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1000,
            Self::Ns => 1,
        }
    }
}

impl TimeForm {
    /// Reads the keys `format` and `epoch`.
    pub(crate) fn read(object: &Object) -> Result<Self, String> {
        let format = match object.get("format") {
            Some(item) => Some(TimeFormat::new(&item.text()?).or_else(|why| item.wrong(why))?),
            None => None,
        };
        let Some(item) = object.get("epoch") else { return Ok(Self { format, epoch: None }) };
        if format.is_some() {
            return item.wrong("numbers since 1970 have no format: give one of epoch and format");
        }
        let epoch = match item.text()?.as_str() {
            "s" => Epoch::S,
            "ms" => Epoch::Ms,
            "us" => Epoch::Us,
            "ns" => Epoch::Ns,
            other => {
                return item.wrong(format!("{other:?} is not a unit of numbers since 1970: choose s, ms, us or ns"));
            }
        };
        Ok(Self { format: None, epoch: Some(epoch) })
    }
}

/// Converts a column of times. Whole numbers without a known unit stay as they are. Timestamps, dates, texts with these and
/// numbers since 1970 become nanoseconds since 1970 in UTC.
///
/// # Errors
/// Fails for a type that holds no times.
pub(crate) fn time_cells(array: &ArrayRef, form: &TimeForm) -> Result<TimeCells, String> {
    let data_type = array.data_type();
    let mut cells = TimeCells { values: Vec::new(), units: Vec::new(), bad: Vec::new() };
    let is_typed = matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    if is_typed && (form.format.is_some() || form.epoch.is_some()) {
        let key = if form.format.is_some() { "format" } else { "epoch" };
        return Err(format!("its type is {data_type}, which needs no {key}: leave the {key} out"));
    }
    match data_type {
        DataType::Timestamp(unit, _) => {
            let factor = match unit {
                ArrowUnit::Second => 1_000_000_000,
                ArrowUnit::Millisecond => 1_000_000,
                ArrowUnit::Microsecond => 1000,
                ArrowUnit::Nanosecond => 1,
            };
            cells.add_numbers(cast_to(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter(), factor);
        }
        DataType::Date64 => {
            cells.add_numbers(cast_to(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter(), 1_000_000);
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().iter();
            cells.add_numbers(days.map(|days| days.map(i64::from)), NANOS_PER_DAY);
        }
        _ if data_type.is_temporal() => {
            let why = "which is not a point in time: store timestamps, dates, or whole numbers";
            return Err(format!("its type is {data_type}, {why}"));
        }
        // The texts of decimals have all their digits.
        _ if is_text(data_type) || (is_decimal(data_type) && form.epoch.is_some()) => {
            for text in &as_texts(array)? {
                cells.add(text.ok_or_else(missing).and_then(|text| time_of_text(text.trim(), form)));
            }
        }
        _ if data_type.is_floating() && form.epoch.is_some() => {
            let floats = cast_to(array, &DataType::Float64)?;
            let factor = form.epoch.map_or(1, Epoch::nanoseconds);
            for float in floats.as_primitive::<Float64Type>().iter() {
                cells.add(float.ok_or_else(missing).and_then(|float| since_epoch(float, factor)));
            }
        }
        _ => {
            let (values, bad) = whole_numbers(array, None)?;
            for &number in &values {
                cells.add(match (form.epoch.map(Epoch::nanoseconds), &form.format) {
                    (Some(factor), _) => typed(i128::from(number) * i128::from(factor), &number.to_string()),
                    // Such as 20200131, which may be a float because other rows are missing.
                    (None, Some(format)) => {
                        let text = format.text_of(number);
                        format.nanoseconds(&text).and_then(|nanoseconds| typed(nanoseconds, &text))
                    }
                    (None, None) => Ok((number, TimeUnit::Integers)),
                });
            }
            cells.bad.retain(|cell| bad.iter().all(|other| other.row != cell.row));
            cells.bad.extend(bad);
            cells.bad.sort_by_key(|cell| cell.row);
        }
    }
    Ok(cells)
}

/// Converts a column of times to seconds since 1970. Times that are missing become NaN, or are bad.
///
/// # Errors
/// Fails for a type that holds no times.
pub(crate) fn seconds(array: &ArrayRef, form: &TimeForm, may_be_missing: bool) -> Result<Numbers, String> {
    let TimeCells { values, units, mut bad } = time_cells(array, form)?;
    let mut seconds = Vec::with_capacity(values.len());
    for (row, (value, unit)) in values.into_iter().zip(units).enumerate() {
        let is_bad = bad.binary_search_by_key(&row, |cell| cell.row).is_ok();
        if unit == TimeUnit::Integers && !is_bad {
            let why =
                format!("{value} is a number whose unit is not known: set epoch to s, ms, us or ns, or set format");
            let at = bad.partition_point(|cell| cell.row < row);
            bad.insert(at, BadCell::new(row, why));
        }
        seconds.push(if array.is_null(row) { f64::NAN } else { value as f64 / 1e9 });
    }
    if may_be_missing {
        bad.retain(|cell| !cell.is_missing);
    }
    Ok(Numbers { values: seconds, width: 1, bad })
}

/// Returns the seconds since 1970 of a time of ISO 8601.
///
/// # Errors
/// Fails for another text.
pub(crate) fn seconds_of_text(text: &str) -> Result<f64, String> {
    match iso_8601(text) {
        Some(time) => Ok(nanoseconds_of(&time) as f64 / 1e9),
        None => Err(format!("{text:?} is not a date or time of ISO 8601, such as 2020-01-31 or 2020-01-31T09:26:56Z")),
    }
}

/// Returns true for a date or a time of ISO 8601.
pub(super) fn is_time(text: &str) -> bool {
    iso_8601(text).is_some()
}

/// Returns the time of a number that counts `factor` nanoseconds since 1970.
fn since_epoch(number: f64, factor: i64) -> Result<(i64, TimeUnit), String> {
    let whole = number.floor();
    if whole.is_nan() || whole.abs() >= 9e15 {
        return Err(format!("{number} is not a number since 1970 that a 64-bit float holds"));
    }
    let fraction = ((number - whole) * factor as f64).round();
    typed(whole as i128 * i128::from(factor) + fraction as i128, &number.to_string())
}

/// Returns the nanoseconds of a decimal number that counts `factor` nanoseconds since 1970, rounded once. Returns `None` for other
/// texts, such as numbers with an exponent.
fn decimal_since_epoch(text: &str, factor: i64) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Later digits do not change a nanosecond by more than rounding.
    let fraction = &fraction[..fraction.len().min(18)];
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let parts = 10_i128.pow(fraction.len() as u32);
    let of_fraction = (number_of_digits(fraction)? * i128::from(factor) + parts / 2) / parts;
    let nanoseconds = number_of_digits(whole)?.checked_mul(i128::from(factor))?.checked_add(of_fraction)?;
    Some(if text.starts_with('-') { -nanoseconds } else { nanoseconds })
}

/// Returns the number of some digits, 0 for none. Returns `None` for too many digits.
fn number_of_digits(digits: &str) -> Option<i128> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

impl TimeCells {
    fn add(&mut self, cell: Result<(i64, TimeUnit), String>) {
        let row = self.values.len();
        let (value, unit) = cell.unwrap_or_else(|why| {
            self.bad.push(if why == missing() { BadCell::missing(row) } else { BadCell::new(row, why) });
            (0, TimeUnit::Integers)
        });
        self.values.push(value);
        self.units.push(unit);
    }

    /// Adds times that are stored as multiples of `factor` nanoseconds since 1970.
    fn add_numbers(&mut self, numbers: impl Iterator<Item = Option<i64>>, factor: i128) {
        for number in numbers {
            self.add(number.ok_or_else(missing).and_then(|number| {
                let nanoseconds = i128::from(number) * factor;
                typed(nanoseconds, &shown(nanoseconds))
            }));
        }
    }
}

fn missing() -> String {
    "it is missing".into()
}

fn time_of_text(text: &str, form: &TimeForm) -> Result<(i64, TimeUnit), String> {
    if let Some(format) = &form.format {
        return typed(format.nanoseconds(text)?, text);
    }
    if let Some(factor) = form.epoch.map(Epoch::nanoseconds) {
        return match (decimal_since_epoch(text, factor), text.parse::<f64>()) {
            (Some(nanoseconds), _) => typed(nanoseconds, text),
            (None, Ok(number)) => since_epoch(number, factor),
            (None, Err(_)) => Err(format!("{text:?} is not a number since 1970, as epoch says")),
        };
    }
    let why = match whole_text(text) {
        Ok(number) => return Ok((number, TimeUnit::Integers)),
        Err(why) => why,
    };
    match iso_8601(text) {
        Some(time) => typed(nanoseconds_of(&time), text),
        // A number that is too large.
        None if text.parse::<i128>().is_ok() => Err(why),
        None => Err(format!(
            "{why}, or a date or time of ISO 8601; the key format can give its form, such as \"%d.%m.%Y\", and epoch its unit"
        )),
    }
}

/// Parses a date, or a date and a time of day with or without seconds, fractions of a second and a zone. Fractions may follow a
/// comma, as in Python's logs, and ` UTC` is a zone, as in tables of BigQuery.
fn iso_8601(text: &str) -> Option<DateTime<Utc>> {
    if let Some(local) = text.strip_suffix(" UTC") {
        return if local.contains(':') { iso_8601(&format!("{local}Z")) } else { None };
    }
    if text.as_bytes().get(19) == Some(&b',') {
        return iso_8601(&text.replacen(',', ".", 1));
    }
    let parsed = |text: &str| string_to_datetime(&Utc, text).ok();
    let has_no_seconds = text.len() >= 16
        && text.is_char_boundary(16)
        && text.as_bytes()[13] == b':'
        && text.as_bytes().get(16) != Some(&b':');
    if has_no_seconds { parsed(&format!("{}:00{}", &text[..16], &text[16..])) } else { parsed(text) }
}

/// Returns the nanoseconds since 1970 of a time.
pub(super) fn nanoseconds_of(time: &DateTime<Utc>) -> i128 {
    i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos())
}

/// Returns a time that fits into 64 bits. `text` is its form in errors.
fn typed(nanoseconds: i128, text: &str) -> Result<(i64, TimeUnit), String> {
    match i64::try_from(nanoseconds) {
        Ok(nanoseconds) => Ok((nanoseconds, TimeUnit::Nanoseconds)),
        Err(_) => Err(format!(
            "{text} is outside of 1677-09-21 to 2262-04-11, the range of times in nanoseconds: write times as whole numbers \
             of a unit of your own"
        )),
    }
}

/// Returns a readable form of a time that does not fit into 64 bits.
fn shown(nanoseconds: i128) -> String {
    let days = nanoseconds.div_euclid(NANOS_PER_DAY) + 719_163;
    match i32::try_from(days).ok().and_then(NaiveDate::from_num_days_from_ce_opt) {
        Some(date) => date.to_string(),
        None => format!("{nanoseconds} ns"),
    }
}

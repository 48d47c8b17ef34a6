//! Times in columns.
//!
//! Invariant: all times of a graph have one unit, which `META.json` and `transforms.json` record.

use super::BadCell;
use super::cells::{cast_to, whole_numbers, whole_text};
use super::missing::is_text;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{DataType, TimeUnit as ArrowUnit};
use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use edgecut_graph::TimeUnit;

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

/// The form of times in texts, in the notation of `strftime`.
#[derive(Clone, Debug)]
pub(crate) struct TimeFormat {
    text: String,
    items: Vec<Item<'static>>,
}

impl TimeFormat {
    /// Parses a format.
    ///
    /// # Errors
    /// Fails for a format with unknown parts, and for one that does not determine a date.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let items = StrftimeItems::new(text).parse_to_owned();
        let items = items.map_err(|_| format!("{text:?} is not a format of strftime, such as \"%d.%m.%Y %H:%M\""))?;
        let format = Self { text: text.to_owned(), items };
        // A time whose parts differ from each other, after which two digits are enough for a year.
        let example = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(1_612_411_506);
        let shown = example.format_with_items(format.items.iter()).to_string();
        match format.nanoseconds(&shown) {
            Ok(_) => Ok(format),
            Err(_) => Err(format!(
                "{text:?} does not determine a time: it needs a year, a month and a day, or %s. Hours need minutes"
            )),
        }
    }

    /// Returns the nanoseconds since 1970 of a text. A text without a zone is in UTC, and one without a time of day is
    /// midnight.
    fn nanoseconds(&self, text: &str) -> Result<i128, String> {
        let wrong = || format!("{text:?} is not a time of the format {:?}", self.text);
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter()).map_err(|_| wrong())?;
        let offset = parsed.offset().unwrap_or(0);
        let has_time = parsed.hour_mod_12().is_some() || parsed.minute().is_some() || parsed.timestamp().is_some();
        let local = if has_time {
            parsed.to_naive_datetime_with_offset(offset).map_err(|_| wrong())?
        } else {
            parsed.to_naive_date().map_err(|_| wrong())?.and_time(NaiveTime::MIN)
        };
        Ok(nanoseconds_of(&local.and_utc()) - i128::from(offset) * 1_000_000_000)
    }
}

/// Converts a column of times. Whole numbers stay as they are. Timestamps, dates and texts with these become nanoseconds
/// since 1970 in UTC.
///
/// # Errors
/// Fails for a type that holds no times.
pub(crate) fn time_cells(array: &ArrayRef, format: Option<&TimeFormat>) -> Result<TimeCells, String> {
    let data_type = array.data_type();
    let mut cells = TimeCells { values: Vec::new(), units: Vec::new(), bad: Vec::new() };
    match (data_type, format) {
        (DataType::Timestamp(..) | DataType::Date32 | DataType::Date64, Some(_)) => {
            return Err(format!("its type is {data_type}, which needs no format: leave the format out"));
        }
        (DataType::Timestamp(unit, _), None) => {
            let factor = match unit {
                ArrowUnit::Second => 1_000_000_000,
                ArrowUnit::Millisecond => 1_000_000,
                ArrowUnit::Microsecond => 1000,
                ArrowUnit::Nanosecond => 1,
            };
            cells.add_numbers(cast_to(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter(), factor);
        }
        (DataType::Date64, None) => {
            cells.add_numbers(cast_to(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter(), 1_000_000);
        }
        (DataType::Date32, None) => {
            let days = array.as_primitive::<Date32Type>().iter();
            cells.add_numbers(days.map(|days| days.map(i64::from)), NANOS_PER_DAY);
        }
        (data_type, _) if data_type.is_temporal() => {
            let why = "which is not a point in time: store timestamps, dates, or whole numbers";
            return Err(format!("its type is {data_type}, {why}"));
        }
        (data_type, _) if is_text(data_type) => {
            let texts = cast_to(array, &DataType::Utf8)?;
            for text in texts.as_string::<i32>().iter() {
                cells.add(text.ok_or_else(missing).and_then(|text| time_of_text(text.trim(), format)));
            }
        }
        (_, None) => {
            let (values, bad) = whole_numbers(array, None)?;
            cells = TimeCells { units: vec![TimeUnit::Integers; values.len()], values, bad };
        }
        // Such as 20200131, which may be a float because other rows are missing.
        (_, Some(format)) => {
            let (values, bad) = whole_numbers(array, None)?;
            for number in values {
                cells.add(format.nanoseconds(&number.to_string()).and_then(|nanos| typed(nanos, &number.to_string())));
            }
            cells.bad.retain(|cell| bad.iter().all(|other| other.row != cell.row));
            cells.bad.extend(bad);
            cells.bad.sort_by_key(|cell| cell.row);
        }
    }
    Ok(cells)
}

impl TimeCells {
    fn add(&mut self, cell: Result<(i64, TimeUnit), String>) {
        let row = self.values.len();
        let (value, unit) = cell.unwrap_or_else(|why| {
            self.bad.push(BadCell { row, why });
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

fn time_of_text(text: &str, format: Option<&TimeFormat>) -> Result<(i64, TimeUnit), String> {
    if let Some(format) = format {
        return typed(format.nanoseconds(text)?, text);
    }
    let why = match whole_text(text) {
        Ok(number) => return Ok((number, TimeUnit::Integers)),
        Err(why) => why,
    };
    match iso_8601(text) {
        Some(time) => typed(nanoseconds_of(&time), text),
        None => Err(format!("{why}, or a date or time of ISO 8601; the key time_col can give its format")),
    }
}

/// Parses a date, or a date and a time of day with or without seconds, fractions of a second and a zone.
fn iso_8601(text: &str) -> Option<DateTime<Utc>> {
    let parsed = |text: &str| string_to_datetime(&Utc, text).ok();
    let has_no_seconds = text.len() >= 16
        && text.is_char_boundary(16)
        && text.as_bytes()[13] == b':'
        && text.as_bytes().get(16) != Some(&b':');
    if has_no_seconds { parsed(&format!("{}:00{}", &text[..16], &text[16..])) } else { parsed(text) }
}

fn nanoseconds_of(time: &DateTime<Utc>) -> i128 {
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

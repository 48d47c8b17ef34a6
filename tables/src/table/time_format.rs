//! The form of times in texts.

use super::times::nanoseconds_of;
use chrono::format::{Fixed, Item, Numeric, Pad, Parsed, StrftimeItems, parse};
use chrono::{DateTime, NaiveTime};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The form of times in texts, in the notation of `strftime`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TimeFormat {
    text: String,
    items: Vec<Item<'static>>,
    /// The number of digits if a time has nothing but digits.
    digits: Option<usize>,
}

impl TryFrom<String> for TimeFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl From<TimeFormat> for String {
    fn from(format: TimeFormat) -> Self {
        format.text
    }
}

impl TimeFormat {
    /// Parses a format.
    ///
    /// # Errors
    /// Fails for a format with unknown parts, and for one that does not determine a date.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let items = StrftimeItems::new(text).parse_to_owned();
        let items = items.map_err(|_| format!("{text:?} is not a format of strftime, such as \"%d.%m.%Y %H:%M\""))?;
        items.iter().try_for_each(check_part)?;
        let digits = digits_of(&items);
        let format = Self { text: text.to_owned(), items, digits };
        // A time whose parts differ from each other, after which two digits are enough for a year.
        let example = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(1_612_411_506);
        // The form %#z is for parsing only.
        let writable = text.replace("%#z", "%z");
        let mut shown = String::new();
        let is_shown = write!(shown, "{}", example.format_with_items(StrftimeItems::new(&writable)));
        if is_shown.is_err() || format.nanoseconds(&shown).is_err() {
            return Err(format!(
                "{text:?} does not determine a time: it needs a year, a month and a day, or %s. Hours need minutes"
            ));
        }
        Ok(format)
    }

    /// Returns the text of a whole number, with the zeros at its start that numbers do not have.
    pub(super) fn text_of(&self, number: i64) -> String {
        let width = self.digits.unwrap_or(0);
        if number < 0 { number.to_string() } else { format!("{number:0>width$}") }
    }

    /// Returns the nanoseconds since 1970 of a text. A text without a zone is in UTC, and one without a time of day is
    /// midnight.
    ///
    /// # Errors
    /// Describes a text of another form, and one that lacks digits: 10203 of `%y%m%d` could be read as 2010.
    pub(super) fn nanoseconds(&self, text: &str) -> Result<i128, String> {
        let wrong = || format!("{text:?} is not a time of the format {:?}", self.text);
        if let Some(digits) = self.digits.filter(|&digits| text.len() < digits) {
            return Err(format!(
                "{}, which has {digits} digits: write the zeros at its start, for example with pandas: table[column] = \
                 table[column].astype(str).str.zfill({digits})",
                wrong()
            ));
        }
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter()).map_err(|_| wrong())?;
        settle_century(&mut parsed).map_err(|()| wrong())?;
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

/// Returns the number of digits of a format without anything but digits, `None` for other formats.
fn digits_of(items: &[Item]) -> Option<usize> {
    let mut digits = 0;
    for item in items {
        let Item::Numeric(number, Pad::Zero) = item else { return None };
        digits += match number {
            Numeric::Year | Numeric::IsoYear => 4,
            Numeric::Ordinal => 3,
            Numeric::YearDiv100
            | Numeric::YearMod100
            | Numeric::IsoYearDiv100
            | Numeric::IsoYearMod100
            | Numeric::Month
            | Numeric::Day
            | Numeric::WeekFromSun
            | Numeric::WeekFromMon
            | Numeric::IsoWeek
            | Numeric::Hour
            | Numeric::Hour12
            | Numeric::Minute
            | Numeric::Second => 2,
            Numeric::NumDaysFromSun | Numeric::WeekdayFromMon => 1,
            _ => return None,
        };
    }
    Some(digits)
}

/// Reads the two digits 69 of a year as 1969, as POSIX and Python do. Chrono reads them as 2069, and all others as they do.
fn settle_century(parsed: &mut Parsed) -> Result<(), ()> {
    const LAST_CENTURY: i64 = 19;
    const FIRST_YEAR: i32 = 69;
    if parsed.year_mod_100() == Some(FIRST_YEAR) && parsed.year().or(parsed.year_div_100()).is_none() {
        parsed.set_year_div_100(LAST_CENTURY).map_err(|_| ())?;
    }
    if parsed.isoyear_mod_100() == Some(FIRST_YEAR) && parsed.isoyear().or(parsed.isoyear_div_100()).is_none() {
        parsed.set_isoyear_div_100(LAST_CENTURY).map_err(|_| ())?;
    }
    Ok(())
}

/// Checks a part of a format.
///
/// # Errors
/// Fails for a part that is read otherwise than its users mean: chrono ignores names of zones, and Python's `%f` is a fraction.
fn check_part(part: &Item) -> Result<(), String> {
    match part {
        Item::Fixed(Fixed::TimezoneName) => Err("%Z is the name of a zone, which tells no offset from UTC: use %z for \
                                                 offsets such as +0200, or the name itself, such as UTC, for times in UTC"
            .into()),
        Item::Numeric(Numeric::Nanosecond, _) => Err("%f counts nanoseconds: use %.f, without a point before it, for \
                                                      fractions of a second, as in %H:%M:%S%.f"
            .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i128 = 86_400_000_000_000;

    fn day(format: &str, text: &str) -> Result<i128, String> {
        let nanoseconds = TimeFormat::new(format).expect("a format").nanoseconds(text)?;
        assert_eq!(nanoseconds % DAY, 0);
        Ok(nanoseconds / DAY)
    }

    #[test]
    fn two_digits_of_a_year_are_those_of_python() {
        for (text, expected) in [("690101", -365), ("700101", 0), ("991231", 10_956), ("000101", 10_957)] {
            assert_eq!(day("%y%m%d", text), Ok(expected), "{text}");
        }
        // 2068 is the last year.
        assert_eq!(day("%d.%m.%y", "31.12.68"), day("%d.%m.%Y", "31.12.2068"));
        assert_eq!(day("%d.%m.%y", "01.01.69"), day("%d.%m.%Y", "01.01.1969"));
        assert_eq!(day("%C%y-%m-%d", "2069-01-01"), day("%Y-%m-%d", "2069-01-01"));
        assert_eq!(day("%g-%V-%u", "69-02-1"), day("%G-%V-%u", "1969-02-1"));
    }

    #[test]
    fn digits_at_the_start_are_not_lost() {
        for (format, number, expected) in
            [("%y%m%d", 10_203, "010203"), ("%d%m%Y", 1_022_020, "01022020"), ("%Y%m%d", 20_200_131, "20200131")]
        {
            let format = TimeFormat::new(format).expect("a format");
            assert_eq!(format.text_of(number), expected);
            assert!(format.nanoseconds(expected).is_ok());
            if number < 20_000_000 {
                let error = format.nanoseconds(&number.to_string()).expect_err("too few digits");
                assert!(error.contains("digits: write the zeros at its start"), "{error}");
            }
        }
        // Other forms may have fewer digits.
        assert_eq!(day("%d.%m.%Y", "1.2.1970"), Ok(31));
        assert_eq!(TimeFormat::new("%s").expect("a format").text_of(7), "7");
        assert_eq!(TimeFormat::new("%Y%m%d").expect("a format").text_of(-7), "-7");
    }
}

//! Ages, hours, weekdays and months of times.

use crate::config_values::Object;
use crate::table::{TimeForm, seconds_of_text};
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use crate::transform::statistics::{PerNumber, Range};
use chrono::{DateTime, Datelike, Timelike};
use edgecut_settings::suggestion;
use serde::{Deserialize, Serialize};

/// Features of times.
#[derive(Clone, Debug)]
pub(crate) struct Date {
    form: TimeForm,
    outputs: Vec<Output>,
    unit: Unit,
    cyclic: bool,
    /// Seconds since 1970, if it is given.
    reference: Option<f64>,
}

/// Features of times, with the time that ages count from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    outputs: Vec<Output>,
    unit: Unit,
    cyclic: bool,
    /// Seconds since 1970 for each column.
    reference: Vec<f64>,
}

/// A feature of a time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Output {
    /// The time from the time to the reference.
    Age,
    /// The hour of the day with its fraction, from 0.
    Hour,
    /// The days since Monday, from 0.
    Weekday,
    /// The day of the month, from 1.
    Day,
    /// The month, from 1.
    Month,
    Year,
}

/// The unit of an age.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Seconds,
    Minutes,
    Hours,
    Days,
    /// 365.25 days.
    Years,
}

const OUTPUTS: [(&str, Output); 6] = [
    ("age", Output::Age),
    ("hour", Output::Hour),
    ("weekday", Output::Weekday),
    ("day", Output::Day),
    ("month", Output::Month),
    ("year", Output::Year),
];
const UNITS: [(&str, Unit); 5] = [
    ("seconds", Unit::Seconds),
    ("minutes", Unit::Minutes),
    ("hours", Unit::Hours),
    ("days", Unit::Days),
    ("years", Unit::Years),
];

impl Unit {
    fn seconds(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Minutes => 60.0,
            Self::Hours => 3600.0,
            Self::Days => 86_400.0,
            Self::Years => 86_400.0 * 365.25,
        }
    }
}

impl Output {
    /// Returns the number of steps after which the feature begins again, if it does.
    fn period(self) -> Option<f64> {
        match self {
            Self::Hour => Some(24.0),
            Self::Weekday => Some(7.0),
            Self::Day => Some(31.0),
            Self::Month => Some(12.0),
            Self::Age | Self::Year => None,
        }
    }
}

/// Returns the value of a name in a list.
fn named<T: Copy>(object: &Object, key: &str, name: &str, list: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = list.iter().find(|(known, _)| *known == name) {
        return Ok(*value);
    }
    let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
    let hint = suggestion(name, names.iter().copied());
    object.required(key)?.wrong(format!("{name:?} is not one of {}{hint}", names.join(", ")))
}

impl Kind for Date {
    const KEYS: &'static [&'static str] = &["outputs", "unit", "reference", "cyclic", "format", "epoch"];
    type Statistics = PerNumber<Range>;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        let names = object.get("outputs").map_or(Ok(vec!["age".to_owned()]), |item| item.texts())?;
        let mut outputs = Vec::with_capacity(names.len());
        for name in &names {
            outputs.push(named(object, "outputs", name, &OUTPUTS)?);
        }
        let unit = object.text("unit")?.map_or(Ok(Unit::Days), |name| named(object, "unit", &name, &UNITS))?;
        let reference = match object.text("reference")? {
            Some(text) => Some(seconds_of_text(&text).or_else(|why| object.required("reference")?.wrong(why))?),
            None => None,
        };
        for key in ["unit", "reference"] {
            if object.get(key).is_some() && !outputs.contains(&Output::Age) {
                return object.required(key)?.wrong("it is for the output age: leave it out");
            }
        }
        let cyclic = object.flag("cyclic")?;
        if cyclic && outputs.iter().all(|output| output.period().is_none()) {
            return object
                .required("cyclic")?
                .wrong("no output begins again: leave it out, or add hour, weekday, day or month");
        }
        Ok(Self { form: TimeForm::read(object)?, outputs, unit, cyclic, reference })
    }

    fn input(&self) -> Input<'_> {
        Input::Times(&self.form)
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        Some(PerNumber::default())
    }

    fn is_fitted(&self) -> bool {
        self.reference.is_none() && self.outputs.contains(&Output::Age)
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let reference = match self.reference {
            Some(seconds) => vec![seconds; fit.width],
            None if self.outputs.contains(&Output::Age) => fit.needed().known(|_, range| range.max)?,
            None => vec![0.0; fit.width],
        };
        Ok(Fitted { outputs: self.outputs.clone(), unit: self.unit, cyclic: self.cyclic, reference })
    }
}

impl Fitted {
    fn push(&self, seconds: f64, reference: f64, out: &mut Vec<f32>) {
        let day = (seconds / 86_400.0).floor();
        // Times are within the years that have nanoseconds since 1970.
        let date = DateTime::from_timestamp(seconds.floor() as i64, 0).unwrap_or_default();
        for output in &self.outputs {
            // Counted from 0 for cycles.
            let (value, first) = match output {
                Output::Age => ((reference - seconds) / self.unit.seconds(), 0.0),
                Output::Hour => (f64::from(date.hour()) + (seconds - day * 86_400.0) % 3600.0 / 3600.0, 0.0),
                Output::Weekday => (f64::from(date.weekday().num_days_from_monday()), 0.0),
                Output::Day => (f64::from(date.day()), 1.0),
                Output::Month => (f64::from(date.month()), 1.0),
                Output::Year => (f64::from(date.year()), 0.0),
            };
            match output.period().filter(|_| self.cyclic) {
                Some(period) => {
                    let angle = std::f64::consts::TAU * (value - first) / period;
                    // The same bits on all machines.
                    out.extend([libm::sin(angle) as f32, libm::cos(angle) as f32]);
                }
                None => out.push(value as f32),
            }
        }
    }
}

impl FittedKind for Fitted {
    fn output_width(&self, width: usize) -> usize {
        let of_output = |output: &Output| if self.cyclic && output.period().is_some() { 2 } else { 1 };
        self.outputs.iter().map(of_output).sum::<usize>() * width
    }

    fn width(&self) -> Option<usize> {
        Some(self.reference.len())
    }

    fn check(&self) -> Result<(), String> {
        if self.reference.iter().any(|reference| !reference.is_finite()) || self.outputs.is_empty() {
            return Err("its features are none, or its reference is not a time".into());
        }
        Ok(())
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        row.numbers().iter().zip(&self.reference).for_each(|(&seconds, &reference)| self.push(seconds, reference, out));
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_a_time_are_those_of_the_calendar() {
        let all = OUTPUTS.map(|(_, output)| output).to_vec();
        let plain = Fitted { outputs: all.clone(), unit: Unit::Days, cyclic: false, reference: vec![86_400.0 * 365.0] };
        // Python: datetime(2020, 2, 29, 18, 30) is a Saturday, and a time before 1970 is in the day that it is in.
        for (seconds, expected) in [
            (1_583_001_000.0, [-17_956.77, 18.5, 5.0, 29.0, 2.0, 2020.0]),
            (-1.0, [365.000_01, 23.999_722, 2.0, 31.0, 12.0, 1969.0]),
        ] {
            let mut out = Vec::new();
            plain.apply(Row::Numbers(&[seconds]), &mut out);
            out.iter().zip(expected).for_each(|(found, expected)| assert!((found - expected).abs() < 1e-2, "{out:?}"));
        }
        let cyclic = Fitted { outputs: all, cyclic: true, ..plain };
        assert_eq!(cyclic.output_width(1), 10);
        let mut out = Vec::new();
        // Monday 2024-01-01 06:00.
        cyclic.apply(Row::Numbers(&[1_704_088_800.0]), &mut out);
        let expected = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
        out[1..9]
            .iter()
            .zip(expected)
            .for_each(|(found, expected)| assert!((found - expected).abs() < 1e-6, "{out:?}"));
    }
}

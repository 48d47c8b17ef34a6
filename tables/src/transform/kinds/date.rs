//! Ages, hours, weekdays and months of times.

use crate::config_values::Object;
use crate::table::{TimeForm, seconds_of_text};
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use crate::transform::statistics::{Moments, PerNumber, Range};
use chrono::{DateTime, Datelike, Timelike};
use serde::{Deserialize, Serialize};

/// Features of times.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Date {
    #[serde(skip)]
    form: TimeForm,
    outputs: Vec<Output>,
    unit: Unit,
    cyclic: bool,
    /// True for the distance of each output from its mean, in standard deviations.
    scale: bool,
    /// Seconds since 1970, if it is given.
    reference: Option<f64>,
}

/// The times of each column, and the outputs that are scaled.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    times: PerNumber<Range>,
    /// The outputs that are scaled, before they are. Ages count from 1970.
    scaled: Vec<Output>,
    /// The moments of the outputs of each column.
    moments: PerNumber<Moments>,
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
    /// The mean and the standard deviation of each output without a cycle, for each column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scale: Vec<Scale>,
}

/// The mean and the standard deviation of an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {
    mean: f64,
    std: f64,
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

    /// Returns true if the output is a sine and a cosine.
    fn is_cycle(self, cyclic: bool) -> bool {
        cyclic && self.period().is_some()
    }

    /// Returns the value with which a cycle begins.
    fn first(self) -> f64 {
        if matches!(self, Self::Day | Self::Month) { 1.0 } else { 0.0 }
    }

    /// Returns the output of a time, in seconds for an age.
    fn of(self, seconds: f64, reference: f64) -> f64 {
        let day = (seconds / 86_400.0).floor();
        // Times are within the years that have nanoseconds since 1970.
        let date = DateTime::from_timestamp(seconds.floor() as i64, 0).unwrap_or_default();
        match self {
            Self::Age => reference - seconds,
            Self::Hour => f64::from(date.hour()) + (seconds - day * 86_400.0) % 3600.0 / 3600.0,
            Self::Weekday => f64::from(date.weekday().num_days_from_monday()),
            Self::Day => f64::from(date.day()),
            Self::Month => f64::from(date.month()),
            Self::Year => f64::from(date.year()),
        }
    }
}

/// Returns the value of a name in a list.
fn named<T: Copy>(object: &Object, key: &str, name: &str, list: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = list.iter().find(|(known, _)| *known == name) {
        return Ok(*value);
    }
    let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
    object.required(key)?.not_one_of(name, &names)
}

impl Kind for Date {
    const KEYS: &'static [&'static str] = &["outputs", "unit", "reference", "cyclic", "scale", "format", "epoch"];
    type Statistics = Statistics;
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
        let scale = object.flag("scale")?;
        if scale && cyclic && outputs.iter().all(|output| output.period().is_some()) {
            return object.required("scale")?.wrong("all outputs are between -1 and 1 with cyclic: leave it out");
        }
        Ok(Self { form: TimeForm::read(object)?, outputs, unit, cyclic, scale, reference })
    }

    fn input(&self) -> Input<'_> {
        Input::Times(&self.form)
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        let mut scaled = self.outputs.clone();
        scaled.retain(|output| self.scale && !output.is_cycle(self.cyclic));
        Some(Statistics { times: PerNumber::default(), scaled, moments: PerNumber::default() })
    }

    fn is_fitted(&self) -> bool {
        self.scale || self.reference.is_none() && self.outputs.contains(&Output::Age)
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let statistics = fit.needed();
        let reference = match self.reference {
            Some(seconds) => vec![seconds; fit.width],
            None if self.outputs.contains(&Output::Age) => statistics.times.known(|_, range| range.max)?,
            None => vec![0.0; fit.width],
        };
        let mut scale = statistics
            .moments
            .known(|count, moments| Scale { mean: moments.mean(count), std: moments.deviation(count) })?;
        for (scales, reference) in scale.chunks_mut(statistics.scaled.len().max(1)).zip(&reference) {
            for (scale, output) in scales.iter_mut().zip(&statistics.scaled) {
                if *output == Output::Age {
                    scale.mean = (reference + scale.mean) / self.unit.seconds();
                    scale.std /= self.unit.seconds();
                }
            }
        }
        Ok(Fitted { outputs: self.outputs.clone(), unit: self.unit, cyclic: self.cyclic, reference, scale })
    }
}

impl crate::transform::kind::Statistics for Statistics {
    fn add(&mut self, row: Row) -> Result<(), String> {
        self.times.add(row)?;
        if self.scaled.is_empty() {
            return Ok(());
        }
        let mut numbers = Vec::with_capacity(row.numbers().len() * self.scaled.len());
        for &seconds in row.numbers() {
            for output in &self.scaled {
                // A missing time has no outputs.
                numbers.push(if seconds.is_nan() { f64::NAN } else { output.of(seconds, 0.0) });
            }
        }
        self.moments.add(Row::Numbers(&numbers))
    }

    fn merge(&mut self, later: Self) -> Result<(), String> {
        self.times.merge(later.times)?;
        self.moments.merge(later.moments)
    }

    fn width(&self) -> Option<usize> {
        self.times.width()
    }
}

impl Fitted {
    /// Appends the features of the column `at`.
    fn push(&self, seconds: f64, at: usize, out: &mut Vec<f32>) {
        let mut scales = self.scale.chunks(self.num_scaled().max(1)).nth(at).unwrap_or_default().iter();
        for output in &self.outputs {
            let value = match output {
                Output::Age => output.of(seconds, self.reference[at]) / self.unit.seconds(),
                _ => output.of(seconds, 0.0),
            };
            match output.period().filter(|_| self.cyclic) {
                Some(period) => {
                    // Counted from 0 for cycles.
                    let angle = std::f64::consts::TAU * (value - output.first()) / period;
                    // The same bits on all machines.
                    out.extend([libm::sin(angle) as f32, libm::cos(angle) as f32]);
                }
                None => {
                    let scaled = scales.next().map_or(value, |scale| (value - scale.mean) / scale.std);
                    out.push(scaled as f32);
                }
            }
        }
    }

    /// Returns the number of outputs without a cycle.
    fn num_scaled(&self) -> usize {
        self.outputs.iter().filter(|output| !output.is_cycle(self.cyclic)).count()
    }
}

impl FittedKind for Fitted {
    fn output_width(&self, width: usize) -> usize {
        let of_output = |output: &Output| if output.is_cycle(self.cyclic) { 2 } else { 1 };
        self.outputs.iter().map(of_output).sum::<usize>() * width
    }

    fn width(&self) -> Option<usize> {
        Some(self.reference.len())
    }

    fn check(&self) -> Result<(), String> {
        if self.reference.iter().any(|reference| !reference.is_finite()) || self.outputs.is_empty() {
            return Err("its features are none, or its reference is not a time".into());
        }
        if !self.scale.is_empty() && self.scale.len() != self.num_scaled() * self.reference.len() {
            return Err(format!("scale has {} numbers, but there are {} outputs", self.scale.len(), self.num_scaled()));
        }
        for Scale { mean, std } in &self.scale {
            if !mean.is_finite() || !std.is_normal() || *std < 0.0 {
                return Err(format!(
                    "an output has the standard deviation {std}, which scale cannot divide by: leave the output out"
                ));
            }
        }
        Ok(())
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        row.numbers().iter().enumerate().for_each(|(at, &seconds)| self.push(seconds, at, out));
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::kind::Statistics as _;

    #[test]
    fn features_of_a_time_are_those_of_the_calendar() {
        let all = OUTPUTS.map(|(_, output)| output).to_vec();
        let reference = vec![86_400.0 * 365.0];
        let plain = Fitted { outputs: all.clone(), unit: Unit::Days, cyclic: false, reference, scale: Vec::new() };
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

    #[test]
    fn scaled_outputs_have_the_mean_0_and_the_deviation_1() {
        let date = Date {
            form: TimeForm::default(),
            outputs: vec![Output::Age, Output::Hour, Output::Year],
            unit: Unit::Days,
            cyclic: true,
            scale: true,
            reference: None,
        };
        let times = [1_583_001_000.0, 1_683_001_000.0, 1_483_001_000.5];
        let mut statistics = date.statistics().expect("statistics");
        for seconds in times.into_iter().chain([f64::NAN]) {
            statistics.add(Row::Numbers(&[seconds, seconds + 3e7])).expect("times");
        }
        let fitted = date.fit(Fit { statistics: Some(&statistics), width: 2 }).expect("a fit");
        fitted.check().expect("finite features");
        let mut out = Vec::new();
        for seconds in times {
            fitted.apply(Row::Numbers(&[seconds, seconds + 3e7]), &mut out);
        }
        // The age, the sine and the cosine of the hour, and the year, of two columns.
        for column in [0, 3, 4, 7] {
            let values: Vec<f64> = out.chunks(8).map(|row| f64::from(row[column])).collect();
            let mean = values.iter().sum::<f64>() / 3.0;
            let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
            assert!(mean.abs() < 1e-6 && (deviation - 1.0).abs() < 1e-6, "column {column}: {values:?}");
        }
        let one_year = Fitted { scale: vec![Scale { mean: 2020.0, std: 0.0 }; 4], ..fitted };
        assert!(one_year.check().is_err_and(|why| why.contains("the standard deviation 0")));
    }
}

//! Limits of the numbers of a column.

use crate::config_values::Object;
use crate::transform::impute::spread;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use crate::transform::statistics::{ColumnStatistics, quantile, sorted};
use serde::{Deserialize, Serialize};

/// Limits of numbers, which are given or quantiles of the column.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Clip {
    min: Option<Vec<f64>>,
    max: Option<Vec<f64>>,
    #[serde(skip)]
    quantiles: Option<[f64; 2]>,
}

/// The limits of each number of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    min: Option<Vec<f64>>,
    max: Option<Vec<f64>>,
}

impl Clip {
    /// Returns true if limits are quantiles.
    pub(crate) fn has_quantiles(&self) -> bool {
        self.quantiles.is_some()
    }
}

impl Kind for Clip {
    const KEYS: &'static [&'static str] = &["min", "max", "quantiles"];
    type Statistics = ColumnStatistics;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        let clip = Self { min: object.numbers("min")?, max: object.numbers("max")?, quantiles: quantiles(object)? };
        let is_given = clip.min.is_some() || clip.max.is_some();
        if is_given == clip.has_quantiles() {
            return object.wrong("clip needs min, max or both, or quantiles such as [0.01, 0.99]");
        }
        Ok(clip)
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        Some(if self.has_quantiles() { ColumnStatistics::VALUES } else { ColumnStatistics::WIDTH })
    }

    fn is_fitted(&self) -> bool {
        self.has_quantiles()
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let (ColumnStatistics::Values(values), Some([low, high])) = (fit.needed(), self.quantiles) else {
            let limit = |numbers: &Option<Vec<f64>>, key| {
                numbers.as_ref().map(|numbers| spread(numbers, fit.width, key)).transpose()
            };
            return Ok(Fitted { min: limit(&self.min, "min")?, max: limit(&self.max, "max")? });
        };
        let limits = values.known(|_, numbers| {
            let sorted = sorted(numbers);
            [quantile(&sorted, low), quantile(&sorted, high)]
        })?;
        let [min, max] = [0, 1].map(|end| Some(limits.iter().map(|limits| limits[end]).collect()));
        Ok(Fitted { min, max })
    }
}

fn quantiles(object: &Object) -> Result<Option<[f64; 2]>, String> {
    let Some(item) = object.get("quantiles") else { return Ok(None) };
    match item.numbers()?[..] {
        [low, high] if 0.0 <= low && low < high && high <= 1.0 => Ok(Some([low, high])),
        _ => item.wrong("expected two ascending shares from 0 to 1, such as [0.01, 0.99]"),
    }
}

impl FittedKind for Fitted {
    fn width(&self) -> Option<usize> {
        self.min.as_ref().or(self.max.as_ref()).map(Vec::len)
    }

    fn check(&self) -> Result<(), String> {
        if let (Some(min), Some(max)) = (&self.min, &self.max) {
            let is_wrong = |(min, max): (&f64, &f64)| max < min;
            if min.len() != max.len() || min.iter().zip(max).any(is_wrong) {
                return Err(format!("its limits are {min:?} to {max:?}"));
            }
        }
        Ok(())
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        for (at, &number) in row.numbers().iter().enumerate() {
            let number = self.min.as_ref().map_or(number, |min| number.max(min[at]));
            out.push(self.max.as_ref().map_or(number, |max| number.min(max[at])) as f32);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::kind::Statistics;

    #[test]
    fn given_limits_keep_no_values() {
        let clip = Clip { min: Some(vec![0.0]), max: None, quantiles: None };
        let mut statistics = clip.statistics().unwrap();
        statistics.add(Row::Numbers(&[1.0, -2.0])).unwrap();
        assert!(matches!(&statistics, ColumnStatistics::Width(_)));
        let fitted = clip.fit(Fit { statistics: Some(&statistics), width: 2 }).unwrap();
        assert_eq!(fitted, Fitted { min: Some(vec![0.0; 2]), max: None });
    }
}

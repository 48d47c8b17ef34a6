//! Scaling of the range of a column to 0..1.

use crate::config_values::Object;
use crate::transform::impute::spread;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use crate::transform::statistics::{PerNumber, Range};
use serde::{Deserialize, Serialize};

/// Scaling of the range to `0..=1`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MaxMinNorm {
    /// The bounds of the found range.
    #[serde(skip)]
    max_bound: f64,
    #[serde(skip)]
    min_bound: f64,
    /// The ends of the range, if they are given.
    max_val: Option<Vec<f64>>,
    min_val: Option<Vec<f64>>,
}

/// The range of each number of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    max_val: Vec<f64>,
    min_val: Vec<f64>,
}

impl Kind for MaxMinNorm {
    const KEYS: &'static [&'static str] = &["max_bound", "min_bound", "max_val", "min_val"];
    type Statistics = PerNumber<Range>;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        Ok(Self {
            max_bound: object.number("max_bound")?.unwrap_or(f64::INFINITY),
            min_bound: object.number("min_bound")?.unwrap_or(f64::NEG_INFINITY),
            max_val: object.numbers("max_val")?,
            min_val: object.numbers("min_val")?,
        })
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        Some(PerNumber::default())
    }

    fn is_fitted(&self) -> bool {
        self.max_val.is_none() || self.min_val.is_none()
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let max_val = match &self.max_val {
            Some(max) => spread(max, fit.width, "max_val")?,
            None => fit.needed().known(|_, range| range.max.min(self.max_bound))?,
        };
        let min_val = match &self.min_val {
            Some(min) => spread(min, fit.width, "min_val")?,
            None => fit.needed().known(|_, range| range.min.max(self.min_bound))?,
        };
        Ok(Fitted { max_val, min_val })
    }
}

impl FittedKind for Fitted {
    fn width(&self) -> Option<usize> {
        Some(self.max_val.len())
    }

    /// Checks that no range is empty or infinite.
    fn check(&self) -> Result<(), String> {
        let Self { max_val, min_val } = self;
        if max_val.len() != min_val.len() {
            return Err(format!("max_val has {} numbers, but min_val has {}", max_val.len(), min_val.len()));
        }
        for (at, (max, min)) in max_val.iter().zip(min_val).enumerate() {
            if max <= min || !(max - min).is_finite() {
                return Err(format!(
                    "number {at} of each row has the range {min}..={max}, which max_min_norm cannot scale: leave the \
                     feature out, or set max_val and min_val"
                ));
            }
        }
        Ok(())
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        for (number, (max, min)) in row.numbers().iter().zip(self.max_val.iter().zip(&self.min_val)) {
            out.push(((number - min) / (max - min)).clamp(0.0, 1.0) as f32);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_scaled_and_limited() {
        // scikit-learn's MinMaxScaler of [1, 3], [2, 5] and [5, 4], with clip.
        let scaled = Fitted { max_val: vec![5.0, 5.0], min_val: vec![1.0, 3.0] };
        for (row, expected) in [([2.0, 5.0], [0.25, 1.0]), ([-1.0, 4.0], [0.0, 0.5])] {
            let mut out = Vec::new();
            scaled.apply(Row::Numbers(&row), &mut out);
            assert_eq!(out, expected);
        }
    }
}

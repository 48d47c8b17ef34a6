//! Distance from the mean of a column, in standard deviations.

use crate::config_values::Object;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use crate::transform::statistics::{Moments, PerNumber};
use serde::{Deserialize, Serialize};

/// Distance from the mean in standard deviations, as in scikit-learn's `StandardScaler`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ZScore;

/// The mean and the standard deviation of each number of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl Kind for ZScore {
    const KEYS: &'static [&'static str] = &[];
    type Statistics = PerNumber<Moments>;
    type Fitted = Fitted;

    fn read(_object: &Object) -> Result<Self, String> {
        Ok(Self)
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        Some(PerNumber::default())
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let mean = fit.needed().known(|count, moments| moments.mean(count))?;
        let std = fit.needed().known(|count, moments| moments.deviation(count))?;
        Ok(Fitted { mean, std })
    }
}

impl FittedKind for Fitted {
    fn width(&self) -> Option<usize> {
        Some(self.mean.len())
    }

    /// Checks that all values of a column are not the same.
    fn check(&self) -> Result<(), String> {
        if self.mean.len() != self.std.len() {
            return Err(format!("mean has {} numbers, but std has {}", self.mean.len(), self.std.len()));
        }
        match self
            .mean
            .iter()
            .zip(&self.std)
            .position(|(mean, &std)| !mean.is_finite() || !std.is_normal() || std < 0.0)
        {
            Some(at) => Err(format!(
                "number {at} of each row has the standard deviation {}, which z_score cannot divide by: leave the feature out",
                self.std[at]
            )),
            None => Ok(()),
        }
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        for (number, (mean, std)) in row.numbers().iter().zip(self.mean.iter().zip(&self.std)) {
            out.push(((number - mean) / std) as f32);
        }
        0
    }
}

//! Division by the sum of a column, as in GraphStorm.

use crate::config_values::Object;
use crate::transform::ExactSum;
use crate::transform::impute::spread;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use crate::transform::statistics::PerNumber;
use serde::{Deserialize, Serialize};

/// Division by the sum.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Standard {
    sum: Option<Vec<f64>>,
}

/// The sum of each number of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    sum: Vec<f64>,
}

impl Kind for Standard {
    const KEYS: &'static [&'static str] = &["sum"];
    type Statistics = PerNumber<ExactSum>;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        Ok(Self { sum: object.numbers("sum")? })
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        Some(PerNumber::default())
    }

    fn is_fitted(&self) -> bool {
        self.sum.is_none()
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let sum = match &self.sum {
            Some(sum) => spread(sum, fit.width, "sum")?,
            None => fit.needed().known(|_, sum| sum.value())?,
        };
        Ok(Fitted { sum })
    }
}

impl FittedKind for Fitted {
    fn width(&self) -> Option<usize> {
        Some(self.sum.len())
    }

    /// Checks that no sum is zero.
    fn check(&self) -> Result<(), String> {
        match self.sum.iter().position(|&sum| sum == 0.0 || !sum.is_finite()) {
            Some(at) => Err(format!(
                "the sum of number {at} of each row is {}, which standard cannot divide by: leave the feature out, set sum, or \
                 use z_score",
                self.sum[at]
            )),
            None => Ok(()),
        }
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        out.extend(row.numbers().iter().zip(&self.sum).map(|(number, sum)| (number / sum) as f32));
        0
    }
}

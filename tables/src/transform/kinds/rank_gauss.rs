//! A Gaussian distribution by rank.

use super::rank_table::RankTable;
use crate::config_values::Object;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use crate::transform::statistics::PerNumber;
use serde::{Deserialize, Serialize};

/// The smallest `epsilon`. The inverse of the error function is infinite at 1, which 1 less a smaller number rounds to.
const MIN_EPSILON: f64 = 1e-15;

/// A Gaussian distribution by rank.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RankGauss {
    #[serde(skip)]
    epsilon: f64,
    #[serde(skip)]
    uniquify: bool,
}

/// The outputs of each number of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    columns: Vec<RankTable>,
}

impl Kind for RankGauss {
    const KEYS: &'static [&'static str] = &["epsilon", "uniquify"];
    type Statistics = PerNumber<Vec<f64>>;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        let epsilon = object.number("epsilon")?.unwrap_or(1e-6);
        if !(MIN_EPSILON..1.0).contains(&epsilon) {
            return object.required("epsilon")?.wrong(format!("expected a number from {MIN_EPSILON} to 1"));
        }
        Ok(Self { epsilon, uniquify: object.flag("uniquify")? })
    }

    fn statistics(&self) -> Option<Self::Statistics> {
        Some(PerNumber::default())
    }

    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Fitted, String> {
        let fit_one = |_, numbers: &Vec<f64>| RankTable::fit(numbers.clone(), self.epsilon, self.uniquify);
        Ok(Fitted { columns: fit.needed().known(fit_one)? })
    }
}

impl FittedKind for Fitted {
    fn width(&self) -> Option<usize> {
        Some(self.columns.len())
    }

    fn check(&self) -> Result<(), String> {
        self.columns.iter().try_for_each(RankTable::check)
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        out.extend(row.numbers().iter().zip(&self.columns).map(|(&number, table)| table.apply(number) as f32));
        0
    }

    fn reduced(&self) -> Self {
        Self { columns: self.columns.iter().map(RankTable::reduced).collect() }
    }
}

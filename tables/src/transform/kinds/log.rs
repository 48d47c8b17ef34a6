//! The logarithm of a column.

use crate::config_values::Object;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use serde::{Deserialize, Serialize};

/// The natural logarithm of a number plus an offset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    offset: f64,
}

impl Kind for Log {
    const KEYS: &'static [&'static str] = &["offset"];
    type Statistics = ();
    type Fitted = Self;

    fn read(object: &Object) -> Result<Self, String> {
        Ok(Self { offset: object.number("offset")?.unwrap_or(1.0) })
    }

    fn fit(&self, _fit: Fit<()>) -> Result<Self, String> {
        Ok(self.clone())
    }
}

impl FittedKind for Log {
    fn check(&self) -> Result<(), String> {
        if self.offset.is_finite() { Ok(()) } else { Err(format!("its offset is {}", self.offset)) }
    }

    /// Appends NaN or an infinite feature for a number that has no logarithm, which is an error of the row.
    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        for &number in row.numbers() {
            // Small numbers keep their digits.
            let log = if self.offset == 1.0 { libm::log1p(number) } else { libm::log(number + self.offset) };
            out.push(log as f32);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_numpy() {
        for (offset, number, expected) in
            [(1.0, 1e-12, 1e-12), (1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.0, 3.0, 1.098_612_3)]
        {
            let mut out = Vec::new();
            Log { offset }.apply(Row::Numbers(&[number]), &mut out);
            assert_eq!(out, [expected], "{offset} {number}");
        }
    }
}

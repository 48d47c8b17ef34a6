//! The numbers themselves.

use crate::config_values::Object;
use crate::transform::MAX_FEATURES;
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use serde::{Deserialize, Serialize};

/// The numbers themselves, or the first of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoOp {
    /// The separator of vectors in texts.
    separator: Option<String>,
    /// The number of numbers that are kept.
    truncate_dim: Option<usize>,
    /// The length to which vectors of other lengths are cut or filled with zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<usize>,
}

impl Kind for NoOp {
    const KEYS: &'static [&'static str] = &["separator", "truncate_dim", "length"];
    type Statistics = ();
    type Fitted = Self;

    fn read(object: &Object) -> Result<Self, String> {
        let truncate_dim = object.get("truncate_dim").map(|item| item.whole(1..=MAX_FEATURES)).transpose()?;
        let length = object.get("length").map(|item| item.whole(1..=MAX_FEATURES)).transpose()?;
        if length.is_some() && truncate_dim.is_some() {
            return object.required("truncate_dim")?.wrong("length cuts vectors already: leave one of the two out");
        }
        Ok(Self { separator: object.text("separator")?, truncate_dim, length })
    }

    fn input(&self) -> Input<'_> {
        Input::Numbers { separator: self.separator.as_deref(), length: self.length }
    }

    fn fit(&self, _fit: Fit<()>) -> Result<Self, String> {
        Ok(self.clone())
    }
}

impl FittedKind for NoOp {
    fn output_width(&self, width: usize) -> usize {
        self.truncate_dim.map_or(width, |dim| dim.min(width))
    }

    fn check(&self) -> Result<(), String> {
        match self.truncate_dim {
            Some(dim) if !(1..=MAX_FEATURES).contains(&dim) => {
                Err(format!("truncate_dim is {dim}, expected 1 to {MAX_FEATURES}"))
            }
            _ => Ok(()),
        }
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        let numbers = row.numbers();
        out.extend(numbers[..self.output_width(numbers.len())].iter().map(|&number| number as f32));
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_cut() {
        let cut = NoOp { separator: None, truncate_dim: Some(2), length: None };
        for (row, expected) in [(&[1.0, 2.0, 3.0][..], &[1.0, 2.0][..]), (&[1.0], &[1.0])] {
            let mut out = Vec::new();
            cut.apply(Row::Numbers(row), &mut out);
            assert_eq!(out, expected);
        }
    }
}

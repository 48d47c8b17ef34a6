//! The share of the rows that have the same category.

use crate::config_values::Object;
use crate::transform::MAX_COUNTED;
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use crate::transform::statistics::{CategoryCounts, of_category, split};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The share of the rows with the same text, or the mean share of the texts between separators. It is fitted on the rows of
/// training, since the shares of rows of the test set would tell its size and its categories.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Frequency {
    separator: Option<String>,
}

/// The number of rows with each category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    separator: Option<String>,
    num_rows: u64,
    counts: BTreeMap<String, u64>,
}

impl Kind for Frequency {
    const KEYS: &'static [&'static str] = &["separator"];
    const FITS_ON_TRAINING: bool = true;
    type Statistics = CategoryCounts;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        Ok(Self { separator: object.text("separator")? })
    }

    fn input(&self) -> Input<'_> {
        Input::Texts
    }

    fn statistics(&self) -> Option<CategoryCounts> {
        Some(CategoryCounts::new(self.separator.clone()))
    }

    fn fit(&self, fit: Fit<CategoryCounts>) -> Result<Fitted, String> {
        let CategoryCounts { counts, num_rows, .. } = fit.needed().clone();
        Ok(Fitted { separator: self.separator.clone(), num_rows, counts })
    }
}

impl FittedKind for Fitted {
    fn output_width(&self, _width: usize) -> usize {
        1
    }

    fn check(&self) -> Result<(), String> {
        if self.num_rows == 0 || self.counts.is_empty() {
            return Err("it has no categories in the rows that it is fitted on: leave the feature out".into());
        }
        // Sums of counts then fit into 64 bits.
        if self.num_rows > 1 << 40
            || self.counts.len() > MAX_COUNTED
            || self.counts.values().any(|&count| count > self.num_rows)
        {
            return Err("its counts do not match its rows".into());
        }
        Ok(())
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        let mut sum = 0;
        let mut num_categories = 0;
        let mut num_unknown = 0;
        for category in split(row.text(), self.separator.as_deref()) {
            num_categories += 1;
            match of_category(&self.counts, category) {
                Some(count) => sum += count,
                None => num_unknown += 1,
            }
        }
        let share = sum as f64 / (self.num_rows as f64 * f64::from(num_categories.max(1)));
        out.push(share as f32);
        num_unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_fitted_rows() {
        let counts = [("a".to_owned(), 3), ("b".to_owned(), 1)].into_iter().collect();
        let fitted = Fitted { separator: Some("|".into()), num_rows: 4, counts };
        for (text, share, num_unknown) in [("a", 0.75, 0), ("b|a", 0.5, 0), ("c", 0.0, 1)] {
            let mut out = Vec::new();
            assert_eq!(fitted.apply(Row::Text(Some(text)), &mut out), num_unknown, "{text}");
            assert_eq!(out, [share], "{text}");
        }
    }
}

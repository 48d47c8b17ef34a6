//! The features of rows.

use super::feature::FittedFeature;
use super::kind::Row;

/// The features of rows, row-major. All of them are finite.
///
/// Invariant: all features of tables pass through this type, which refuses numbers that are not finite.
#[derive(Default)]
pub(crate) struct FeatureRows {
    values: Vec<f32>,
}

impl FeatureRows {
    /// Appends the features that `fitted` makes of a row. Returns these features, and the number of categories of the row that
    /// are unknown.
    ///
    /// # Errors
    /// Fails for a feature that is NaN or infinite.
    pub(crate) fn push(&mut self, fitted: &FittedFeature, row: Row) -> Result<(&[f32], u64), String> {
        let start = self.values.len();
        let num_unknown = fitted.apply(row, &mut self.values);
        let added = &self.values[start..];
        let Some(at) = added.iter().position(|feature| !feature.is_finite()) else { return Ok((added, num_unknown)) };
        let transform = fitted.name();
        let made = match row {
            Row::Numbers(numbers) if numbers.len() == added.len() => format!("{transform} of {}", numbers[at]),
            _ => transform.to_owned(),
        };
        Err(format!(
            "number {at} is {} after the transform: {made} is not a finite 32-bit float. Change the parameters of the \
             transform, or leave the feature out",
            added[at]
        ))
    }

    /// Returns the features.
    pub(crate) fn into_values(self) -> Vec<f32> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(json: serde_json::Value) -> FittedFeature {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn features_that_are_not_finite_are_refused() {
        let tiny = of(json!({"transform": {"name": "standard", "sum": [2.0, 1e-40]}}));
        let mut rows = FeatureRows::default();
        rows.push(&tiny, Row::Numbers(&[1.0, 1e-40])).unwrap();
        let error = rows.push(&tiny, Row::Numbers(&[1.0, 1.0])).unwrap_err();
        assert!(error.starts_with("number 1 is inf after the transform: standard of 1 is"), "{error}");
        let wide = of(json!({"transform": {"name": "max_min_norm", "max_val": [f64::MAX], "min_val": [f64::MIN]}}));
        assert!(wide.check().is_err());
        let rows = rows.into_values();
        assert_eq!(rows[..2], [0.5, 1.0]);
    }

    #[test]
    fn missing_values_are_replaced_before_the_transform() {
        let scaled = json!({"name": "max_min_norm", "max_val": [4.0, 8.0], "min_val": [0.0, 0.0]});
        let mean = json!({"strategy": "mean", "numbers": [1.0, 2.0], "indicator": true});
        let none = json!({"strategy": "none", "indicator": true});
        let [mean, none] = [mean, none].map(|impute| of(json!({"transform": scaled, "impute": impute})));
        for (fitted, row, expected) in [
            (&mean, [4.0, 4.0], [1.0, 0.5, 0.0]),
            (&mean, [f64::NAN, 4.0], [0.25, 0.5, 1.0]),
            (&none, [f64::NAN, 4.0], [0.0, 0.0, 1.0]),
            (&none, [4.0, 4.0], [1.0, 0.5, 0.0]),
        ] {
            let mut rows = FeatureRows::default();
            rows.push(fitted, Row::Numbers(&row)).unwrap();
            assert_eq!(rows.into_values(), expected, "{row:?}");
            assert_eq!(fitted.output_width(2), 3);
        }
    }
}

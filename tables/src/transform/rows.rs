//! The features of rows.

use super::Fitted;
use super::apply::apply;

/// The features of rows, row-major. All of them are finite.
///
/// Invariant: all features of tables pass through this type, which refuses numbers that are not finite.
#[derive(Default)]
pub(crate) struct FeatureRows {
    values: Vec<f32>,
}

/// The values of a feature in a row of a table.
pub(crate) enum RowInput<'a> {
    /// The numbers of all columns of the feature.
    Numbers(&'a [f64]),
    /// The text of a category, unless it is missing.
    Text(Option<&'a str>),
}

impl FeatureRows {
    /// Appends the features that `fitted` makes of a row. Returns the number of its categories that are unknown.
    ///
    /// # Errors
    /// Fails for a feature that is NaN or infinite.
    pub(crate) fn push(&mut self, fitted: &Fitted, input: RowInput) -> Result<u64, String> {
        let start = self.values.len();
        let num_unknown = match input {
            RowInput::Numbers(numbers) => {
                apply(fitted, numbers, &mut self.values);
                0
            }
            RowInput::Text(text) => fitted.apply_text(text, &mut self.values),
        };
        let added = &self.values[start..];
        let Some(at) = added.iter().position(|feature| !feature.is_finite()) else { return Ok(num_unknown) };
        let transform = fitted.name();
        let made = match input {
            RowInput::Numbers(numbers) if numbers.len() == added.len() => format!("{transform} of {}", numbers[at]),
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

    #[test]
    fn features_that_are_not_finite_are_refused() {
        let tiny = Fitted::Standard { sum: vec![2.0, 1e-40] };
        let mut rows = FeatureRows::default();
        rows.push(&tiny, RowInput::Numbers(&[1.0, 1e-40])).unwrap();
        let error = rows.push(&tiny, RowInput::Numbers(&[1.0, 1.0])).unwrap_err();
        assert!(error.starts_with("number 1 is inf after the transform: standard of 1 is"), "{error}");
        let wide = Fitted::MaxMin { max_val: vec![f64::MAX], min_val: vec![f64::MIN] };
        assert!(wide.check().is_err());
        let rows = rows.into_values();
        assert_eq!(rows[..2], [0.5, 1.0]);
    }
}

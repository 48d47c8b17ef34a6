//! The parameters of a configuration beside the parameters of features that are fitted already.

use super::feature::FittedFeature;
use super::{Impute, Transform};
use edgecut_graph::TRANSFORMS_FILE;
use serde_json::{Value, json};

impl FittedFeature {
    /// Checks that this feature has the parameters that a configuration gives. `keys` are the keys of the transform that it has.
    /// Parameters that a fit turns into others, such as quantiles, are not compared.
    ///
    /// # Errors
    /// Names the first key that has another value.
    pub(crate) fn check_given(
        &self,
        transform: &Transform,
        impute: Option<&Impute>,
        keys: &[String],
    ) -> Result<(), String> {
        let given = json!(transform);
        let fitted = json!(self.transform);
        for key in keys {
            check(key, &given[key], &fitted[key])?;
        }
        let fitted = self.impute.as_ref().map_or(Value::Null, |impute| impute.constant());
        impute.map_or(Ok(()), |impute| check("fill_value", &impute.constant(), &fitted))
    }
}

fn check(key: &str, given: &Value, fitted: &Value) -> Result<(), String> {
    if agrees(given, fitted) {
        return Ok(());
    }
    let fitted = if fitted.is_null() { "not set".to_owned() } else { fitted.to_string() };
    Err(format!(
        "{key} is {given}, but {fitted} in {TRANSFORMS_FILE}, whose transforms are applied: keep its value, or partition all \
         tables again with the new one"
    ))
}

/// Returns true if a fitted transform has a given value, which it may have once for each number of a row. Null is not
/// given.
fn agrees(given: &Value, fitted: &Value) -> bool {
    match (given, fitted) {
        (Value::Null, _) => true,
        // A flag is stored as its statistics.
        (Value::Bool(is_set), Value::Array(values)) => *is_set != values.is_empty(),
        (Value::Bool(is_set), Value::Null) => !is_set,
        (Value::Number(_), Value::Array(values)) => values.iter().all(|value| value == given),
        (Value::Array(given), Value::Array(values)) if given.len() == 1 => {
            values.iter().all(|value| *value == given[0])
        }
        _ => given == fitted,
    }
}

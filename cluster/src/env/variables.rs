//! Environment variables as typed values, with errors that name them.

use std::ffi::OsString;
use std::str::FromStr;

use crate::error::ClusterError;

/// A lookup of variables: the environment of this process, or a substitute in tests.
pub(super) struct Variables<'a>(pub(super) &'a dyn Fn(&str) -> Option<OsString>);

impl Variables<'_> {
    /// Returns the parsed value if the variable is set. `wanted` describes valid values in the error.
    pub(super) fn parse<T: FromStr>(&self, name: &str, wanted: &str) -> Result<Option<T>, ClusterError> {
        let Some(value) = (self.0)(name) else { return Ok(None) };
        match value.to_str().map(str::trim).filter(|text| !text.is_empty()).map(str::parse) {
            Some(Ok(parsed)) => Ok(Some(parsed)),
            _ => Err(wrong(name, format!("{value:?} is not {wanted}"))),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, ClusterError> {
        self.parse(name, "a whole number")
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ClusterError> {
        self.parse(name, "text")
    }

    /// Returns a number that a launcher sets together with the variable `beside`, which is set.
    pub(super) fn number_beside(&self, name: &str, beside: &str) -> Result<usize, ClusterError> {
        self.number(name)?.ok_or_else(|| wrong(name, format!("it is not set, but {beside} is")))
    }
}

/// Returns the error of a variable that is missing or invalid.
pub(super) fn wrong(variable: &str, reason: String) -> ClusterError {
    ClusterError::Env { variable: variable.to_owned(), reason }
}

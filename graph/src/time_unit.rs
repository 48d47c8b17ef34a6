//! The unit of times.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The unit of all times of a graph. Times of different units cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Whole numbers, in a unit that the dataset does not tell.
    Integers,
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    Nanoseconds,
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Integers => "plain whole numbers",
            Self::Nanoseconds => "nanoseconds since 1970",
        })
    }
}

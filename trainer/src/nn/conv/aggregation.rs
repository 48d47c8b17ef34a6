//! The aggregations that a user can choose.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ops::Reduce;

/// The neighbor aggregation of a SAGE layer; PyG's `aggr`.
///
/// ```
/// use edgecut_trainer::nn::Aggregation;
/// assert_eq!("max".parse(), Ok(Aggregation::Max));
/// assert!("median".parse::<Aggregation>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// The mean of the neighbors.
    #[default]
    Mean,
    /// The sum of the neighbors.
    Sum,
    /// The maximum of each feature, without a dense layer before it.
    Max,
}

impl Aggregation {
    /// Returns the operation that computes the aggregation.
    pub fn reduce(self) -> Reduce {
        match self {
            Self::Mean => Reduce::Mean,
            Self::Sum => Reduce::Sum,
            Self::Max => Reduce::Max,
        }
    }

    /// Returns whether the aggregation commutes with a linear map.
    pub(super) fn is_linear(self) -> bool {
        match self {
            Self::Mean | Self::Sum => true,
            Self::Max => false,
        }
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Max => "max",
        })
    }
}

/// The error of parsing an unknown aggregation.
///
/// ```
/// use edgecut_trainer::nn::Aggregation;
/// let error = "median".parse::<Aggregation>().expect_err("an unknown aggregation");
/// assert_eq!(error.to_string(), "unknown aggregation \"median\": expected mean, sum or max");
/// ```
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown aggregation {0:?}: expected mean, sum or max")]
pub struct ParseAggregationError(String);

impl FromStr for Aggregation {
    type Err = ParseAggregationError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "mean" => Ok(Self::Mean),
            "sum" => Ok(Self::Sum),
            "max" => Ok(Self::Max),
            _ => Err(ParseAggregationError(word.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for aggregation in [Aggregation::Mean, Aggregation::Sum, Aggregation::Max] {
            assert_eq!(aggregation.to_string().parse(), Ok(aggregation));
        }
        assert!("median".parse::<Aggregation>().is_err());
    }
}

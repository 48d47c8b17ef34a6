//! The aggregations that a user can choose.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ops::Reduce;

/// How a SAGE layer combines neighbors; PyG's `aggr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// The mean.
    #[default]
    Mean,
    /// The sum.
    Sum,
    /// The greatest value of each feature, without a layer before it.
    Max,
}

impl Aggregation {
    /// The operation that computes it.
    pub fn reduce(self) -> Reduce {
        match self {
            Self::Mean => Reduce::Mean,
            Self::Sum => Reduce::Sum,
            Self::Max => Reduce::Max,
        }
    }

    /// Whether it commutes with a linear map.
    pub fn is_linear(self) -> bool {
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

/// A word that names no aggregation.
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

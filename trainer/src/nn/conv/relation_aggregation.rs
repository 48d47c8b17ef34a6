//! The combination of the messages of several edge types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The combination of the messages that a destination receives over several edge types.
///
/// ```
/// use edgecut_trainer::nn::RelationAggregation;
/// assert_eq!("mean".parse(), Ok(RelationAggregation::Mean));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationAggregation {
    /// The sum over edge types.
    #[default]
    Sum,
    /// The mean over all edge types into the destination's node type, including those without edges.
    Mean,
}

impl fmt::Display for RelationAggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
        })
    }
}

/// The error of parsing an unknown aggregation over edge types.
///
/// ```
/// use edgecut_trainer::nn::RelationAggregation;
/// let error = "max".parse::<RelationAggregation>().expect_err("an unknown aggregation");
/// assert_eq!(error.to_string(), "unknown aggregation over edge types \"max\": expected sum or mean");
/// ```
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown aggregation over edge types {0:?}: expected sum or mean")]
pub struct ParseRelationAggregationError(String);

impl FromStr for RelationAggregation {
    type Err = ParseRelationAggregationError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            _ => Err(ParseRelationAggregationError(word.to_owned())),
        }
    }
}

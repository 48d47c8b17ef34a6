//! The aggregations that a user can choose.

use edgecut_settings::words;
use serde::{Deserialize, Serialize};

use crate::ops::Reduce;

/// The neighbor aggregation of a SAGE layer; PyG's `aggr`.
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

words!(Aggregation, "aggregation", Mean = "mean", Sum = "sum", Max = "max");

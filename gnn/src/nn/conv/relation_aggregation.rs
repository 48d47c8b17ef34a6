//! The combination of the messages of several edge types.

use edgecut_settings::words;
use serde::{Deserialize, Serialize};

/// The combination of the messages that a destination receives over several edge types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationAggregation {
    /// The sum over edge types.
    #[default]
    Sum,
    /// The mean over all edge types into the destination's node type, including those without edges.
    Mean,
}

words!(RelationAggregation, "aggregation over edge types", Sum = "sum", Mean = "mean");

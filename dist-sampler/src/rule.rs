//! Rules by which neighbors are drawn.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The rule by which the neighbors of a node are drawn, apart from their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Rule {
    /// True to draw with replacement.
    pub(crate) replace: bool,
    /// True to draw edges in proportion to their weights.
    pub(crate) weighted: bool,
    /// The times that limit sampling, if any.
    pub(crate) temporal: Option<Temporal>,
}

/// Temporal sampling, which draws nothing later than the seed's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Temporal {
    /// The times to compare with the seed's time.
    pub attr: TimeAttr,
    /// The choice among the neighbors that are not too late.
    pub strategy: TemporalStrategy,
}

/// The times to compare with the seed's time in temporal sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeAttr {
    /// Times of edges. An edge exists from its time on.
    EdgeTime,
    /// Times of nodes. A neighbor exists from its time on. Nodes of types without times always exist.
    NodeTime,
}

/// The choice among the neighbors that are not too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TemporalStrategy {
    /// Any of them, as in sampling without times.
    #[default]
    Uniform,
    /// The latest ones. Among equal times, the last in the order of the edge list.
    Last,
}

impl FromStr for TimeAttr {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.replace('-', "_").as_str() {
            "edge_time" => Ok(Self::EdgeTime),
            "node_time" => Ok(Self::NodeTime),
            _ => Err(format!("{text:?} is neither edge_time nor node_time")),
        }
    }
}

impl FromStr for TemporalStrategy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uniform" => Ok(Self::Uniform),
            "last" => Ok(Self::Last),
            _ => Err(format!("{text:?} is neither uniform nor last")),
        }
    }
}

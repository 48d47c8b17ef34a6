//! Which neighbors may be drawn, and how likely each is.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How the neighbors of a node are chosen, beside how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Rule {
    /// Whether a neighbor may be drawn twice.
    pub(crate) replace: bool,
    /// Whether edges are drawn by their weights.
    pub(crate) weighted: bool,
    /// Which times count, and how.
    pub(crate) temporal: Option<Temporal>,
}

/// Sampling that never looks ahead: only what is not later than the seed's time is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Temporal {
    /// Whose times count.
    pub attr: TimeAttr,
    /// Which of the neighbors that are not too late are drawn.
    pub strategy: TemporalStrategy,
}

/// Whose times count in temporal sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeAttr {
    /// Those of edges: an edge is there from its time on.
    EdgeTime,
    /// Those of nodes: a neighbor is there from its time on. Nodes of types without times always are.
    NodeTime,
}

/// Which of the neighbors that are not too late are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TemporalStrategy {
    /// Any of them, as without times.
    #[default]
    Uniform,
    /// The latest; of equal times the last in the order of the edge list.
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

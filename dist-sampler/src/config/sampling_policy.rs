//! Rules by which neighbors are drawn.

use crate::config::fan_out::Fanout;
use crate::config::labor::Labor;
use edgecut_graph::{EdgeTypeMeta, Meta};
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

/// The rule by which the neighbors of a node are drawn, apart from their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SamplingPolicy {
    /// True to draw with replacement.
    pub(crate) replace: bool,
    /// True to draw edges in proportion to their weights.
    pub(crate) weighted: bool,
    /// The times that limit sampling, if any.
    pub(crate) temporal: Option<Temporal>,
    /// Layer-neighbor sampling, if any.
    pub(crate) labor: Option<Labor>,
    /// True to draw only edges within a part, see [`SamplerConfig::isolated`](crate::SamplerConfig::isolated).
    pub(crate) isolated: bool,
}

impl SamplingPolicy {
    /// Returns the rule without what has no effect with these fan-outs, after checking it.
    pub(crate) fn checked(self, meta: &Meta, fanouts: &[Vec<Fanout>]) -> Result<Self, String> {
        self.check(meta, fanouts)?;
        let is_random = fanouts.iter().flatten().any(|&fanout| !matches!(fanout, Fanout::All | Fanout::Count(0)));
        Ok(Self { labor: self.labor.filter(|_| is_random), ..self })
    }

    /// Checks that the edges that are drawn have the weights and times that the rule needs, and that its parts agree.
    fn check(self, meta: &Meta, fanouts: &[Vec<Fanout>]) -> Result<(), String> {
        let dataset = &meta.dataset;
        let drawn = |e: usize| fanouts.iter().any(|fanouts| fanouts[e] != Fanout::Count(0));
        let lacking = |has: &dyn Fn(&EdgeTypeMeta) -> bool| {
            // A table without rows may have no column of times yet.
            let has_edges = meta.edge_types.iter().enumerate().filter(|(_, t)| t.num_edges > 0);
            let mut types = has_edges.filter(|(e, t)| drawn(*e) && !has(t));
            types.next().map(|(_, t)| format!("{}__{}__{}", t.src_type, t.relation, t.dst_type))
        };
        if let (true, Some(name)) = (self.weighted, lacking(&|t| t.has_weights)) {
            return Err(format!(
                "weighted sampling needs a weight for each edge, and edge type {name} of dataset {dataset} has none: \
                 partition it with weights, or give it a fan-out of 0"
            ));
        }
        self.check_labor()?;
        let Some(temporal) = self.temporal else { return Ok(()) };
        if self.weighted && temporal.strategy == TemporalStrategy::Last {
            return Err(
                "weights and the temporal strategy `last` exclude each other: sample without weights, or use the \
                        strategy `uniform`"
                    .into(),
            );
        }
        match temporal.attr {
            TimeAttr::EdgeTime => match lacking(&|t| t.has_times) {
                Some(name) => Err(format!(
                    "edge_time: edge type {name} of dataset {dataset} has no times: partition it with edge times, or give \
                     it a fan-out of 0"
                )),
                None => Ok(()),
            },
            TimeAttr::NodeTime => {
                if meta.node_types.iter().any(|t| t.has_times) {
                    Ok(())
                } else {
                    Err(format!("node_time: no nodes of dataset {dataset} have times: partition it with node times"))
                }
            }
        }
    }
}

impl SamplingPolicy {
    /// Refuses rules for which layer-neighbor sampling is not defined.
    pub(crate) fn check_labor(self) -> Result<(), String> {
        let is_last = self.temporal.is_some_and(|temporal| temporal.strategy == TemporalStrategy::Last);
        let other = match self.labor {
            Some(_) if self.replace => "sampling with replacement",
            Some(_) if is_last => "the temporal strategy `last`",
            _ => return Ok(()),
        };
        Err(format!(
            "layer-neighbor sampling (labor) and {other} exclude each other, since it draws distinct neighbors by random \
             numbers: use the sampler `neighbor`, or leave the other out"
        ))
    }
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

words!(TimeAttr, "time attribute", EdgeTime = "edge_time" | "edge-time", NodeTime = "node_time" | "node-time",);
words!(TemporalStrategy, "temporal strategy", Uniform = "uniform", Last = "last");

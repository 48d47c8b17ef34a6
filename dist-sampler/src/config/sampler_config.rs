//! The configuration of a sampler.

use crate::config::labor::Labor;
use crate::config::node_fields::EdgeFields;
use crate::config::num_neighbors::NumNeighbors;
use crate::config::sampling_policy::Temporal;
use serde::{Deserialize, Serialize};

/// The configuration of a [`DistNeighborSampler`](crate::DistNeighborSampler).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerConfig {
    /// Fan-outs by hop and edge type.
    pub num_neighbors: NumNeighbors,
    /// True to draw neighbors with replacement. A fan-out of [`Fanout::All`](crate::Fanout::All) takes each neighbor once either way.
    #[serde(default)]
    pub replace: bool,
    /// True to draw edges with probabilities in proportion to their weights. Without replacement, edges are drawn one
    /// after the other, each in proportion to its weight among the edges that are left. Edges of weight 0 are never
    /// drawn, not even by [`Fanout::All`](crate::Fanout::All).
    #[serde(default)]
    pub weighted: bool,
    /// Layer-neighbor sampling: destinations share the random numbers of their neighbors, so that a batch has fewer nodes.
    /// `None` draws the neighbors of each node independently. Only for draws without replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labor: Option<Labor>,
    /// The times that limit sampling: nothing later than the seed's time is drawn. `None` ignores times.
    #[serde(default)]
    pub temporal: Option<Temporal>,
    /// True to sample a separate neighborhood for each seed. A node in the neighborhoods of several seeds then appears
    /// once per seed. Temporal sampling is always disjoint, since each seed has its own time.
    #[serde(default)]
    pub disjoint: bool,
    /// True to draw only edges whose source is in the same part as their destination, so that the neighborhoods of a
    /// process's own nodes need nothing of other processes. Batches then depend on the partitioning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// The attributes to fetch for the sampled edges.
    #[serde(default, skip_serializing_if = "no_fields")]
    pub edge_attributes: EdgeFields,
    /// True to keep the position of each sampled edge among the in-edges of its destination, which identifies the edge.
    #[serde(default)]
    pub positions: bool,
}

fn no_fields(fields: &EdgeFields) -> bool {
    !fields.any()
}

impl SamplerConfig {
    /// Returns a configuration that draws uniformly without replacement, from all times, with shared neighborhoods and
    /// without edge attributes.
    pub fn new(num_neighbors: impl Into<NumNeighbors>) -> Self {
        Self {
            num_neighbors: num_neighbors.into(),
            replace: false,
            weighted: false,
            labor: None,
            temporal: None,
            disjoint: false,
            isolated: false,
            edge_attributes: EdgeFields::default(),
            positions: false,
        }
    }

    /// Sets whether neighbors are drawn with replacement.
    pub fn with_replacement(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Sets whether edges are drawn by their weights.
    pub fn with_weights(mut self, weighted: bool) -> Self {
        self.weighted = weighted;
        self
    }

    /// Sets layer-neighbor sampling.
    pub fn with_labor(mut self, labor: Option<Labor>) -> Self {
        self.labor = labor;
        self
    }

    /// Sets whether only edges within a part are drawn.
    pub fn with_isolation(mut self, isolated: bool) -> Self {
        self.isolated = isolated;
        self
    }

    /// Sets the times that limit sampling.
    pub fn with_times(mut self, temporal: Option<Temporal>) -> Self {
        self.temporal = temporal;
        self
    }

    /// Sets the attributes to fetch for the sampled edges.
    pub fn with_edge_attributes(mut self, edge_attributes: EdgeFields) -> Self {
        self.edge_attributes = edge_attributes;
        self
    }

    /// Sets whether the positions of the sampled edges are kept.
    pub fn with_positions(mut self, positions: bool) -> Self {
        self.positions = positions;
        self
    }

    /// Sets whether each seed has a separate neighborhood.
    pub fn with_disjoint(mut self, disjoint: bool) -> Self {
        self.disjoint = disjoint;
        self
    }
}

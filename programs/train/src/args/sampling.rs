//! The flags that constrain neighbor sampling.

use crate::settings::shared_flags::{as_text, as_text_if_given};
use clap::Args;
use edgecut_dist_sampler::{NumNeighbors, SamplerConfig, Temporal, TemporalStrategy, TimeAttr};
use serde::Serialize;

/// Flags that select the eligible neighbors and their probabilities.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Sample neighbors with replacement
    #[arg(long)]
    pub(crate) replace: bool,
    /// Sample neighbors with probabilities proportional to edge weights. The graph must have edge weights; edges of
    /// weight 0 are never sampled
    #[arg(long)]
    pub(crate) weighted: bool,
    /// Temporal sampling: sample no edge (edge_time) or no node (node_time) later than the time of the seed. Implies
    /// --disjoint
    #[arg(long, value_name = "edge_time|node_time")]
    #[serde(serialize_with = "as_text_if_given")]
    pub(crate) time_attr: Option<TimeAttr>,
    /// With --time-attr: sample uniformly among the neighbors that are not too late, or take the latest ones
    #[arg(long, value_name = "uniform|last", default_value = "uniform", requires = "time_attr")]
    #[serde(serialize_with = "as_text")]
    pub(crate) temporal_strategy: TemporalStrategy,
    /// Sample a separate neighborhood for each seed, as if it were the only seed of its batch
    #[arg(long)]
    pub(crate) disjoint: bool,
}

impl SamplingArgs {
    /// Returns the configuration of a sampler with these fan-outs.
    pub(crate) fn config(&self, num_neighbors: NumNeighbors) -> SamplerConfig {
        let temporal = self.time_attr.map(|attr| Temporal { attr, strategy: self.temporal_strategy });
        SamplerConfig::new(num_neighbors)
            .with_replacement(self.replace)
            .with_weights(self.weighted)
            .with_times(temporal)
            .with_disjoint(self.disjoint)
    }
}

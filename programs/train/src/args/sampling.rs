//! The flags that constrain neighbor sampling.

use crate::exit::UsageError;
use crate::settings::shared_flags::{as_text, as_text_if_changed, as_text_if_given};
use clap::Args;
use edgecut_dist_sampler::{NumNeighbors, SamplerConfig, SamplingMethod, Temporal, TemporalStrategy, TimeAttr};
use serde::Serialize;
use std::num::NonZeroU32;

/// Flags that select the eligible neighbors and their probabilities.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// neighbor: each node samples its neighbors independently. labor: layer-neighbor sampling, in which the nodes of a
    /// batch share random numbers, so that they sample the same neighbors more often and a batch has fewer nodes
    #[arg(long, value_name = "neighbor|labor", default_value = "neighbor")]
    #[serde(serialize_with = "as_text_if_changed")]
    pub(crate) sampler: SamplingMethod,
    /// With --sampler labor: batches over which the random numbers turn into new ones, so that consecutive batches share
    /// nodes [default: 1, independent batches]
    #[arg(long, value_name = "K")]
    pub(crate) batch_dependency: Option<NonZeroU32>,
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
    ///
    /// # Errors
    /// [`UsageError`] if the sampler does not support a flag.
    pub(crate) fn config(&self, num_neighbors: NumNeighbors) -> Result<SamplerConfig, UsageError> {
        let labor = self.sampler.labor(self.batch_dependency);
        let labor = labor.map_err(|why| UsageError(format!("--batch-dependency: {why}")))?;
        let temporal = self.time_attr.map(|attr| Temporal { attr, strategy: self.temporal_strategy });
        Ok(SamplerConfig::new(num_neighbors)
            .with_replacement(self.replace)
            .with_weights(self.weighted)
            .with_labor(labor)
            .with_times(temporal)
            .with_disjoint(self.disjoint))
    }
}

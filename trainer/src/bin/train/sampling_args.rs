//! Which neighbors may be drawn, as flags.

use clap::Args;
use edgecut_dist_sampler::{NumNeighbors, SamplerConfig, Temporal, TemporalStrategy, TimeAttr};
use serde_json::{Value, json};

/// Which neighbors may be drawn, and how likely each is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Draw neighbors with replacement
    #[arg(long)]
    pub(crate) replace: bool,
    /// Draw neighbors in proportion to their edges' weights, which the partitioned graph has to have; edges of weight 0 never
    #[arg(long)]
    pub(crate) weighted: bool,
    /// Draw nothing that is later than its seed, by the times of edges or of the neighbors themselves. Each seed then has a
    /// neighborhood of its own
    #[arg(long, value_name = "edge_time|node_time")]
    pub(crate) time_attr: Option<TimeAttr>,
    /// With --time-attr: draw any of the neighbors that are not too late, or the latest
    #[arg(long, value_name = "uniform|last", default_value = "uniform", requires = "time_attr")]
    pub(crate) temporal_strategy: TemporalStrategy,
    /// Give each seed a neighborhood of its own, as if it were alone in its batch
    #[arg(long)]
    pub(crate) disjoint: bool,
}

impl SamplingArgs {
    /// The sampler with these fan-outs.
    pub(crate) fn config(&self, num_neighbors: NumNeighbors) -> SamplerConfig {
        let temporal = self.time_attr.map(|attr| Temporal { attr, strategy: self.temporal_strategy });
        SamplerConfig::new(num_neighbors)
            .with_replacement(self.replace)
            .with_weights(self.weighted)
            .with_times(temporal)
            .with_disjoint(self.disjoint)
    }

    /// What has to be equal on all ranks, by flag.
    pub(crate) fn parameters(&self) -> Value {
        json!({
            "replace": self.replace,
            "weighted": self.weighted,
            "time_attr": self.time_attr.map(|attr| format!("{attr:?}")),
            "temporal_strategy": format!("{:?}", self.temporal_strategy),
            "disjoint": self.disjoint,
        })
    }
}

//! The configuration of loaders that sample around seeds.

use crate::agreement::SharedSettings;
use crate::batch::cached_rows::CachedRows;
use crate::error::LoaderError;
use edgecut_dist_sampler::{DistNeighborSampler, NodeFields};
use serde::Serialize;
use std::sync::Arc;

/// The default of `prefetch_bytes`: 1 GiB per rank. Six batches of 155 MiB fit, the size of a batch of 1024 seeds with
/// fan-outs 15,10,5 and 100 features on a graph of 600 000 nodes.
pub const DEFAULT_PREFETCH_BYTES: usize = 1 << 30;

/// The configuration of a loader. Its serialisation has the settings that must be equal on all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct LoaderConfig {
    /// The most seeds per batch and rank, or clusters of [`Seeds::Clusters`](crate::Seeds::Clusters). For a rank's own seeds,
    /// ranks may differ in it.
    pub batch_size: usize,
    /// True to spread a rank's own seeds evenly over the agreed steps. No step then has only a few remaining seeds,
    /// which Adam would weigh as much as a full batch. If false, every batch but the last is full. Listed seeds are
    /// always cut into full batches.
    pub even_batches: bool,
    /// True to shuffle the seeds in each epoch, by a permutation that depends on (seed, epoch, part).
    pub shuffle: bool,
    /// The seed of shuffling and sampling.
    pub seed: u64,
    /// The number of batches to make at the same time, ahead of the trainer. 0 makes each batch on request.
    #[serde(skip)]
    pub concurrency: usize,
    /// The most bytes of batches that are in progress or wait for the trainer. The sizes of batches in progress are
    /// estimated from finished ones. A batch larger than the limit is made only when no other is held. The default is
    /// [`DEFAULT_PREFETCH_BYTES`](crate::DEFAULT_PREFETCH_BYTES).
    #[serde(skip)]
    pub prefetch_bytes: usize,
    /// The attributes of nodes to fetch. Labels are fetched for the seeds only.
    pub wanted: NodeFields,
    /// The nodes whose features are not fetched, since the consumer has cached them. They may differ between ranks.
    #[serde(skip)]
    pub cache: Option<Arc<CachedRows>>,
}

impl LoaderConfig {
    /// Makes the configuration of a loader of full batches in the order of the seeds, two of which are made at the same time.
    pub fn new(batch_size: usize, wanted: NodeFields) -> Self {
        Self {
            batch_size,
            even_batches: false,
            shuffle: false,
            seed: 0,
            concurrency: 2,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
            wanted,
            cache: None,
        }
    }

    /// Describes the settings that determine batches, for a comparison over all ranks.
    pub(crate) fn shared_settings(&self, sampler: &DistNeighborSampler, are_listed: bool) -> SharedSettings {
        let config = sampler.config();
        let fan_outs = config.num_neighbors.to_string();
        let settings = SharedSettings::default().with_fields(&config).with("num_neighbors", fan_outs).with_fields(self);
        if are_listed { settings } else { settings.without("batch_size") }
    }

    /// Rejects batches without seeds, and in-degrees in temporal sampling. In-degrees of the whole graph count edges later
    /// than the seed, from which a model could learn about the future.
    pub(crate) fn check(&self, sampler: &DistNeighborSampler) -> Result<(), LoaderError> {
        let what = if self.batch_size == 0 {
            "the batch size must be at least 1"
        } else if (self.wanted.degrees || self.wanted.in_weights) && sampler.temporal().is_some() {
            "in-degrees count edges of all times, including those later than a seed: do not request degrees (a GCN needs \
             them), or sample without times"
        } else {
            return Ok(());
        };
        Err(LoaderError::Config { what: what.into() })
    }
}

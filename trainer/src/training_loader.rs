//! The loader of training batches.

use crate::error::TrainError;
use crate::memory::feature_cache::FeatureCache;
use crate::training_config::TrainingConfig;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{EpochSegment, SeedBatches, SeedLoader};
use edgecut_gnn::ops::GnnBackend;

/// A loader of training batches, and the rest of an epoch that another number of ranks has begun.
pub(crate) struct TrainingLoader<L> {
    whole: L,
    rest: Option<(u64, L)>,
}

impl<S: SeedBatches> TrainingLoader<SeedLoader<S>> {
    /// Fills the caches that the settings ask for. Also returns the cache on the device. `has_node_seeds` is true if the seeds
    /// are the nodes of the own parts.
    pub(crate) fn new<B: GnnBackend>(
        loader: SeedLoader<S>,
        training: &TrainingConfig,
        has_node_seeds: bool,
        normalize: bool,
        device: &B::Device,
    ) -> Result<(Self, Option<FeatureCache<B>>), TrainError> {
        let graph = loader.sampler().node();
        let memory = training.device_memory;
        // The edges come first: counting the frequencies of nodes below already samples on the device, and the features
        // get the rest of the memory.
        let left = memory.hold_edges::<B>(graph, device)?;
        let count = |batches| loader.hotness(0, batches);
        if let Some(cache) = training.cpu_cache {
            cache.fill(graph, has_node_seeds, count)?;
        }
        let cache = memory.hold_features::<B>(graph, count, (left, normalize), device)?;
        Ok((Self::with_cache(loader, cache.as_ref()), cache))
    }

    /// Makes the loader of further seeds of a step, with the cache of the first ones.
    pub(crate) fn with_cache<B: GnnBackend>(loader: SeedLoader<S>, cache: Option<&FeatureCache<B>>) -> Self {
        let whole = match cache {
            Some(cache) => loader.with_cache(cache.rows().clone()),
            None => loader,
        };
        Self { whole, rest: None }
    }

    /// Spreads the rest of a continued epoch over `num_steps` steps.
    pub(crate) fn spread_rest(&mut self, num_steps: usize) {
        self.rest = self.rest.take().map(|(epoch, rest)| (epoch, rest.with_num_steps(num_steps)));
    }

    /// Returns the loader of all epochs but a continued one.
    pub(crate) fn whole(&self) -> &SeedLoader<S> {
        &self.whole
    }

    pub(crate) fn of_epoch(&self, epoch: u64) -> &SeedLoader<S> {
        match &self.rest {
            Some((of, rest)) if *of == epoch => rest,
            _ => &self.whole,
        }
    }

    /// Prepares the rest of an epoch. Every rank must call this.
    pub(crate) fn continue_epoch(
        &mut self,
        epoch: u64,
        before: &[EpochSegment],
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        self.rest = Some((epoch, self.whole.rest_of_epoch(epoch, before, world)?));
        Ok(())
    }
}

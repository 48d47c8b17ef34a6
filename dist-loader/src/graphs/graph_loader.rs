//! A loader of batches of whole graphs, made ahead of the trainer.

use crate::agreement::SharedSettings;
use crate::error::LoaderError;
use crate::graphs::graph_batch::GraphBatch;
use crate::graphs::graph_plan::{EpochPlan, GraphLoaderConfig, check};
use crate::prefetch::batch_iter::{AnyBatches, BatchIter, Prepare};
use crate::prefetch::loader_threads::LoaderThreads;
use crate::prefetch::prefetching_loader::{BatchMaker, PrefetchLimits, PrefetchingLoader};
use crate::seeds::epoch_segment::EpochSegment;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{BatchKey, SampleError};
use edgecut_graph::GraphDataset;
use std::sync::Arc;

/// A loader of a rank's batches of graphs, epoch by epoch. All ranks take the same number of steps, and together they
/// see every graph once per epoch.
///
/// The number of the epoch selects the shuffle, so no `set_epoch` is needed as in PyTorch.
///
/// ```
/// use edgecut_dist_loader::{GraphDataLoader, GraphLoaderConfig, LoaderError};
/// use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};
/// use std::sync::Arc;
/// let graphs = fake_graphs(&FakeGraphsOptions { num_graphs: 50, ..FakeGraphsOptions::default() })?;
/// let loader = GraphDataLoader::new(Arc::new(graphs), (0..50).collect(), GraphLoaderConfig::new(16), 0, 1)?;
/// let sizes = loader.epoch(3).map(|batch| Ok(batch?.graphs.len())).collect::<Result<Vec<usize>, LoaderError>>()?;
/// assert_eq!(sizes, [16, 16, 16, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphDataLoader {
    loader: PrefetchingLoader<GraphBatches>,
}

impl GraphDataLoader {
    /// Makes a loader of some graphs of a set for `rank` of `world_size`. All ranks must pass the same graphs and the
    /// same configuration, which [`agree`](Self::agree) checks.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a graph that does not exist or has more nodes than a batch may have, and for a batch
    /// size of 0.
    ///
    /// # Panics
    /// If `rank` is not below `world_size`.
    pub fn new(
        dataset: Arc<GraphDataset>,
        graphs: Vec<u32>,
        config: GraphLoaderConfig,
        rank: usize,
        world_size: usize,
    ) -> Result<Self, LoaderError> {
        check(&dataset, &graphs, &config, world_size)?;
        assert!(rank < world_size, "rank {rank} of {world_size}");
        let limits = PrefetchLimits { concurrency: config.concurrency, bytes: config.prefetch_bytes };
        let batches = GraphBatches { dataset, graphs, config, rank, world_size, before: Vec::new() };
        Ok(Self { loader: PrefetchingLoader::new(batches, LoaderThreads::OfEpoch, limits) })
    }

    /// Checks that all ranks of a job have made the loader from the same graphs and the same configuration. All ranks must
    /// call this.
    ///
    /// # Errors
    /// [`LoaderError::Config`] if not, [`LoaderError::Agree`] if a rank cannot be reached.
    pub fn agree(&self, world: &mut ProcessGroup) -> Result<(), LoaderError> {
        let GraphBatches { graphs, config, .. } = self.loader.maker();
        SharedSettings::default().with_list("graphs", graphs).with_fields(config).agree(world)
    }

    /// Returns a loader of the graphs of an epoch that are left after `before`, the segments of the epoch in which other
    /// numbers of processes have trained. It has the batches of this epoch only.
    pub fn rest_of_epoch(&self, before: &[EpochSegment]) -> Self {
        let rest = GraphBatches { before: before.to_vec(), ..self.loader.maker().clone() };
        Self { loader: self.loader.with_maker(rest) }
    }

    /// Returns the set to which the graphs belong.
    pub fn dataset(&self) -> &Arc<GraphDataset> {
        &self.loader.maker().dataset
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.loader.peak_bytes()
    }

    /// Returns the number of graphs over all ranks.
    pub fn total_graphs(&self) -> usize {
        self.loader.maker().graphs.len()
    }

    /// Returns the number of steps in an epoch, the same on every rank. A rank without graphs for the last step gets an
    /// empty batch. With [`Packing::Nodes`](crate::Packing::Nodes) the number differs between epochs.
    pub fn num_steps(&self, epoch: u64) -> usize {
        self.loader.maker().plan(epoch, 0).num_steps()
    }

    /// Returns the batches of `epoch`, in order.
    pub fn epoch(&self, epoch: u64) -> BatchIter<GraphBatch> {
        self.epoch_map(epoch, |batch| batch)
    }

    /// Returns the batches of `epoch` after `prepare`, which runs on the thread that makes them, so that the consumer
    /// gets them ready to use. At most `concurrency` batches, and at most `prefetch_bytes`, are made ahead of the
    /// consumer. Dropping the iterator ends the thread. `prepare` must not wait for futures: it runs within an executor.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(GraphBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        self.epoch_map_from(epoch, 0, prepare)
    }

    /// Like [`epoch_map`](Self::epoch_map), from `first_step` on, counted from 0. The batches before it are not made.
    pub fn epoch_map_from<T: Send + 'static>(
        &self,
        epoch: u64,
        first_step: usize,
        prepare: impl Fn(GraphBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        BatchIter::new(prepare, |prepare| self.epoch_from(epoch, first_step, prepare))
    }

    /// Not generic, so that this crate compiles it.
    fn epoch_from(&self, epoch: u64, first_step: usize, prepare: Prepare<GraphBatch>) -> AnyBatches {
        self.loader.epoch_from(epoch, first_step, prepare)
    }
}

/// The batches of one rank, combined from the graphs of a set.
#[derive(Clone)]
struct GraphBatches {
    dataset: Arc<GraphDataset>,
    graphs: Vec<u32>,
    config: GraphLoaderConfig,
    rank: usize,
    world_size: usize,
    /// The segments of the epoch before these batches.
    before: Vec<EpochSegment>,
}

impl BatchMaker for GraphBatches {
    type Batch = GraphBatch;
    type Plan = EpochPlan;

    fn plan(&self, epoch: u64, _: usize) -> EpochPlan {
        EpochPlan::new(&self.dataset, &self.graphs, &self.config, epoch, self.world_size, &self.before)
    }

    fn num_steps(&self, plan: &EpochPlan) -> usize {
        plan.num_steps()
    }

    fn key(&self, plan: &EpochPlan, step: usize) -> BatchKey {
        let batch = (EpochSegment::num_batches(&self.before) + step * self.world_size + self.rank) as u64;
        BatchKey { seed: self.config.seed, epoch: plan.epoch(), batch }
    }

    async fn make(self: Arc<Self>, plan: Arc<EpochPlan>, step: usize) -> Result<GraphBatch, SampleError> {
        Ok(GraphBatch::new(&self.dataset, plan.batch(step, self.rank).to_vec()))
    }

    fn num_bytes(batch: &GraphBatch) -> usize {
        batch.num_bytes()
    }
}

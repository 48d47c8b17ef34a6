//! A loader of batches of nodes, made ahead of the trainer.

use crate::batch::cached_rows::CachedRows;
use crate::batch::mini_batch::MiniBatch;
use crate::error::LoaderError;
use crate::loader_config::{LoaderConfig, check_degrees};
use crate::nodes::node_batches::{NodeBatches, SeedIds};
use crate::prefetch::batch_iter::BatchIter;
use crate::prefetch::seed_loader::SeedLoader;
use crate::seeds::epoch_segment::EpochSegment;
use crate::seeds::rest_of_epoch::SeedPartition;
use crate::seeds::seed_plan::{SeedPlan, Seeds, Shuffle, owned_seeds};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistNeighborSampler, DistRows, Hotness};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

/// A loader of a rank's mini-batches, epoch by epoch. All ranks of the job take the same number of steps.
///
/// ```no_run
/// # use edgecut_dist_loader::*;
/// # fn train(loader: DistNeighborLoader) -> Result<(), LoaderError> {
/// for epoch in 0..10 {
///     for batch in loader.epoch(epoch) {
///         let batch = batch?;
///         println!("{} seeds, {} nodes", batch.num_seeds, batch.nodes[0].input_nodes.len());
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct DistNeighborLoader {
    loader: SeedLoader<NodeBatches>,
}

impl DistNeighborLoader {
    /// Makes a loader for `seeds` of `node_type`. Every rank of `world` must call this, in the same order as other
    /// collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, and in temporal sampling for seeds without times and for
    /// in-degrees. [`LoaderError::Seeds`] if servers do not tell the seeds. [`LoaderError::Agree`] if the ranks cannot agree on the number of steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        node_type: NodeTypeId,
        seeds: Seeds,
        config: LoaderConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        if config.batch_size == 0 {
            return Err(LoaderError::Config { what: "the batch size must be at least 1".into() });
        }
        check_degrees(&sampler, config.wanted)?;
        let graph = sampler.node();
        let part = graph.part();
        let temporal = sampler.temporal().is_some();
        let node_meta = &part.meta().node_types[node_type.index()];
        if temporal && !node_meta.has_times && !matches!(seeds, Seeds::Timed(_) | Seeds::OwnedAt(_)) {
            return Err(LoaderError::Config {
                what: format!(
                    "temporal sampling needs a time for each seed, but nodes of type {} have none: pass seeds with \
                     times, or partition the dataset with node times",
                    node_meta.name
                ),
            });
        }
        let listed = matches!(seeds, Seeds::Listed(_) | Seeds::Timed(_));
        let ids = match seeds {
            Seeds::Split(split) => {
                let nodes = graph.split_nodes(node_type, split);
                SeedIds::Nodes(nodes.map_err(|source| LoaderError::Seeds { source: Box::new(source) })?)
            }
            Seeds::Owned => SeedIds::Owned(owned_seeds(graph, node_type)),
            Seeds::OwnedAt(time) => SeedIds::OwnedAt(owned_seeds(graph, node_type), time),
            Seeds::Listed(ids) => SeedIds::Nodes(ids),
            Seeds::Timed(timed) => SeedIds::Timed(timed),
        };
        if ids.len() > u32::MAX as usize {
            return Err(LoaderError::Config {
                what: format!("{} seeds exceed the limit of 2^32 - 1: divide them over several loaders", ids.len()),
            });
        }
        let mut plan = SeedPlan::new(ids.len(), listed, Shuffle::List, &config, graph, world);
        let agreed = plan.agree(config.even_batches, world)?;
        let seeds = Arc::new(ids);
        let cache = config.cache.clone();
        let batches = NodeBatches { sampler, node_type, seeds, wanted: config.wanted, cache, rows: Vec::new() };
        Ok(Self { loader: SeedLoader::new(batches, plan, agreed, &config) })
    }

    /// Returns the loader with a cache. From now on it does not fetch the features of cached nodes. Other ranks may use
    /// other caches.
    ///
    /// ```
    /// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_loader.rs"));
    /// use edgecut_dist_loader::{CachedRows, NodeBatch};
    /// use std::sync::Arc;
    /// let cached = CachedRows::new(vec![(0..100).collect()])?;
    /// let loader = loader.with_cache(Arc::new(cached));
    /// let batch = loader.epoch(0).next().expect("a batch")?;
    /// let nodes = &batch.nodes[0];
    /// assert!(nodes.features.is_empty() && nodes.cache_slots == nodes.input_nodes);
    /// assert!(!nodes.cache_slots.contains(&NodeBatch::NOT_CACHED));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        Self { loader: self.loader.with_cache(cache) }
    }

    /// Returns the loader with rows in place of the features of nodes, by node type. The features of types without rows
    /// are not fetched.
    pub fn with_rows(self, rows: Vec<Option<Arc<DistRows>>>) -> Self {
        Self { loader: self.loader.change(|batches| batches.rows = rows) }
    }

    /// Returns a loader of the seeds of an epoch that are left after `before`, the segments of the epoch in which other
    /// numbers of processes have trained. Together with these segments, its batches have each seed of the epoch once. Its
    /// batches are those of this epoch only. Every rank must call this.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for listed seeds. [`LoaderError::Agree`] if the ranks cannot agree on the seeds.
    pub fn rest_of_epoch(
        &self,
        epoch: u64,
        before: &[EpochSegment],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let batches = self.loader.seeds();
        let graph = batches.sampler.node();
        let cells = match &*batches.seeds {
            SeedIds::Nodes(seeds) => SeedPartition::of_nodes(graph, batches.node_type, seeds, world)?,
            SeedIds::Owned(_) | SeedIds::OwnedAt(..) | SeedIds::Timed(_) => {
                let what = "only the seeds of a split can be continued with another number of processes".into();
                return Err(LoaderError::Config { what });
            }
        };
        Ok(Self { loader: self.loader.rest_of_epoch(epoch, before, &cells, world)? })
    }

    /// Returns the sampler of the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.loader.seeds().sampler
    }

    /// Returns the node type of the seeds.
    pub fn node_type(&self) -> NodeTypeId {
        self.loader.seeds().node_type
    }

    /// Returns the number of steps per epoch, the same on every rank. A rank that runs out of seeds earlier gets empty
    /// batches.
    pub fn num_steps(&self) -> usize {
        self.loader.num_steps()
    }

    /// Returns the number of batches of this rank that have seeds.
    pub fn num_batches(&self) -> usize {
        self.loader.num_batches()
    }

    /// Returns the number of batches of this rank with as many seeds as the configured batch size. They come before the others.
    /// With even batches, all batches count.
    pub fn num_full_batches(&self) -> usize {
        self.loader.num_full_batches()
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.loader.peak_bytes()
    }

    /// Returns the number of seeds over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.loader.total_seeds()
    }

    /// Returns the batches of `epoch`, in order. The loader starts to make them at once. At most `concurrency` batches
    /// are in progress and one waits ready, and together they take at most `prefetch_bytes`. Dropping the iterator
    /// stops the loader.
    ///
    /// ```
    /// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_loader.rs"));
    /// let batches = loader.epoch(0).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(batches.len(), loader.num_steps());
    /// assert_eq!(batches.iter().map(|batch| batch.num_seeds).sum::<usize>(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn epoch(&self, epoch: u64) -> BatchIter {
        self.epoch_map(epoch, |batch| batch)
    }

    /// Returns the batches of `epoch` after `prepare`, which runs on the sampling threads, so that the consumer gets
    /// batches ready to use.
    ///
    /// ```
    /// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_loader.rs"));
    /// let sizes = loader.epoch_map(0, |batch| batch.num_seeds).collect::<Result<Vec<usize>, _>>()?;
    /// assert_eq!(sizes, [16, 16, 16, 16, 16, 16, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(MiniBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        self.epoch_map_from(epoch, 0, prepare)
    }

    /// Like [`epoch_map`](Self::epoch_map), from `first_step` on, counted from 0. The batches before it are not made.
    pub fn epoch_map_from<T: Send + 'static>(
        &self,
        epoch: u64,
        first_step: usize,
        prepare: impl Fn(MiniBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        self.loader.epoch_map_from(epoch, first_step, prepare)
    }

    /// Counts how often nodes are inputs of the first `num_batches` batches of this rank in `epoch`, or of all batches
    /// if there are fewer. Neighborhoods are sampled as in training, but no attributes are fetched. This is not a
    /// collective: it only needs the peers' services, so ranks may call it at different times. Must not be called from
    /// async code.
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        self.loader.hotness(epoch, num_batches)
    }
}

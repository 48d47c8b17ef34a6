//! The loader of batches with neighborhoods around seeds.

use crate::batch::cached_rows::CachedRows;
use crate::batch::collate::Collation;
use crate::bytes_held::bytes_of_neighborhood;
use crate::error::LoaderError;
use crate::loader_config::LoaderConfig;
use crate::prefetch::batch_iter::{AnyBatches, BatchIter, Prepare};
use crate::prefetch::loader_threads::LoaderThreads;
use crate::prefetch::look_ahead::NeighborhoodsAhead;
use crate::prefetch::prefetching_loader::{BatchMaker, PrefetchLimits, PrefetchingLoader};
use crate::seeds::epoch_segment::EpochSegment;
use crate::seeds::rest_of_epoch::SeedPartition;
use crate::seeds::seed_plan::{Agreed, EpochOrder, SeedPlan};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{
    BatchKey, CachedFetch, DistGraph, DistNeighborSampler, Hotness, SampleError, SampledSubgraph,
};
use std::sync::Arc;

/// A maker of batches around seeds, which are given by their positions in a plan. The loaders of this crate implement it.
pub trait SeedBatches: Clone + Send + Sync + 'static {
    /// A batch.
    type Batch: Send + 'static;
    /// The neighborhood of seeds.
    type Sampled: Send + 'static;

    /// Returns the sampler of the neighborhoods, and the attributes to fetch.
    #[doc(hidden)]
    fn collation(&self) -> &Collation;

    #[doc(hidden)]
    fn collation_mut(&mut self) -> &mut Collation;

    /// Returns the sampler of the neighborhoods.
    fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.collation().sampler
    }

    #[doc(hidden)]
    fn node(&self) -> &Arc<DistGraph> {
        self.sampler().node()
    }

    /// Counts the seeds of the parts, for the rest of an epoch.
    #[doc(hidden)]
    fn partition(&self, world: &mut ProcessGroup) -> Result<SeedPartition, LoaderError>;

    /// Samples the neighborhood of seeds. It is empty without seeds.
    #[doc(hidden)]
    fn sample(
        self: Arc<Self>,
        seeds: Vec<u32>,
        key: BatchKey,
    ) -> impl Future<Output = Result<Self::Sampled, SampleError>> + Send + 'static;

    #[doc(hidden)]
    fn subgraph(sampled: &Self::Sampled) -> &SampledSubgraph;

    /// Makes the batch of a neighborhood. Features come from the cache that looks ahead as `ahead` tells.
    #[doc(hidden)]
    fn make(
        self: Arc<Self>,
        sampled: Self::Sampled,
        key: BatchKey,
        ahead: Option<Arc<CachedFetch>>,
    ) -> impl Future<Output = Result<Self::Batch, SampleError>> + Send;

    /// Returns the bytes of memory that a batch holds.
    #[doc(hidden)]
    fn num_bytes(batch: &Self::Batch) -> usize;
}

/// Implements the methods of [`SeedBatches`] that follow from fields and from the batch: the field `collation` of the maker,
/// and the field `subgraph` of a neighborhood.
macro_rules! seed_batches {
    () => {
        fn collation(&self) -> &$crate::batch::collate::Collation {
            &self.collation
        }

        fn collation_mut(&mut self) -> &mut $crate::batch::collate::Collation {
            &mut self.collation
        }

        fn subgraph(sampled: &Self::Sampled) -> &edgecut_dist_sampler::SampledSubgraph {
            &sampled.subgraph
        }

        fn num_bytes(batch: &Self::Batch) -> usize {
            batch.num_bytes()
        }
    };
}
pub(crate) use seed_batches;

/// A loader of a rank's mini-batches, epoch by epoch. All ranks of the job take the same number of steps.
///
/// [`DistNeighborLoader`](crate::DistNeighborLoader), [`DistLinkNeighborLoader`](crate::DistLinkNeighborLoader) and
/// [`DistEdgeNeighborLoader`](crate::DistEdgeNeighborLoader) are loaders of this type, each with a `new` of its own.
pub struct SeedLoader<S: SeedBatches> {
    loader: PrefetchingLoader<PlannedBatches<S>>,
    total_seeds: usize,
    // Methods behind pointers, so that this crate alone compiles them.
    start_batches: fn(&Self, u64, usize, Prepare<S::Batch>) -> AnyBatches,
    count_hotness: fn(&Self, u64, usize) -> Result<Hotness, LoaderError>,
}

impl<S: SeedBatches> SeedLoader<S> {
    /// Makes a loader of the batches in `plan`, on whose extent the ranks have agreed.
    pub(crate) fn planned(seeds: S, plan: SeedPlan, agreed: Agreed, config: &LoaderConfig) -> Self {
        let threads = LoaderThreads::OfNode(seeds.sampler().node().clone());
        let limits = PrefetchLimits { concurrency: config.concurrency, bytes: config.prefetch_bytes };
        let plan = PlannedSeeds { plan: Arc::new(plan), num_steps: agreed.num_steps };
        let maker = PlannedBatches { seeds: Arc::new(seeds), plan, limits };
        Self {
            loader: PrefetchingLoader::new(maker, threads, limits),
            total_seeds: agreed.total_seeds,
            start_batches: Self::start_batches,
            count_hotness: Self::count_hotness,
        }
    }

    /// Returns the loader with a cache. From now on it does not fetch the features of cached nodes. Other ranks may use
    /// other caches.
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        self.change(|seeds| seeds.collation_mut().cache = Some(cache))
    }

    /// Returns the loader after a change of the maker of its batches.
    pub(crate) fn change(self, change: impl FnOnce(&mut S)) -> Self {
        let PlannedBatches { seeds, plan, limits } = self.loader.maker();
        let mut seeds = S::clone(seeds);
        change(&mut seeds);
        let maker = PlannedBatches { seeds: Arc::new(seeds), plan: plan.clone(), limits: *limits };
        Self { loader: self.loader.replace_maker(maker), ..self }
    }

    /// Returns the loader with its seeds spread evenly over `num_steps` steps, which are at least as many as before. The
    /// seeds of a loader without even batches stay as they are. Every rank must call this with the same number.
    ///
    /// ```
    /// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_loader.rs"));
    /// assert_eq!(loader.with_num_steps(3).num_steps(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_num_steps(self, num_steps: usize) -> Self {
        let PlannedBatches { seeds, plan, limits } = self.loader.maker();
        if plan.plan.even_steps.is_none() || num_steps <= plan.num_steps {
            return self;
        }
        let even = SeedPlan { even_steps: Some(num_steps), ..(*plan.plan).clone() };
        let plan = PlannedSeeds { plan: Arc::new(even), num_steps };
        let maker = PlannedBatches { seeds: seeds.clone(), plan, limits: *limits };
        Self { loader: self.loader.with_maker(maker), ..self }
    }

    /// Returns a loader of the seeds of an epoch that are left after `before`, the segments of the epoch in which other
    /// numbers of processes have trained. Together with these segments, its batches have each seed of the epoch once. Its
    /// batches belong to this epoch only. Every rank must call this.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for listed seeds, and for edges other than training edges. [`LoaderError::Agree`] if the
    /// ranks cannot agree on the seeds.
    pub fn rest_of_epoch(
        &self,
        epoch: u64,
        before: &[EpochSegment],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let cells = self.seeds().partition(world)?;
        let PlannedBatches { seeds, plan, limits } = self.loader.maker();
        let whole = &plan.plan;
        if whole.listed {
            let what = "an epoch of listed seeds cannot be continued with another number of processes".into();
            return Err(LoaderError::Config { what });
        }
        let num_groups = self.sampler().node().num_seed_groups();
        let left = cells.rest(whole, epoch, num_groups, before);
        let mut rest = whole.rest(left, before);
        let agreed = rest.agree(whole.even_steps.is_some(), world)?;
        let plan = PlannedSeeds { plan: Arc::new(rest), num_steps: agreed.num_steps };
        let maker = PlannedBatches { seeds: seeds.clone(), plan, limits: *limits };
        Ok(Self { loader: self.loader.with_maker(maker), total_seeds: agreed.total_seeds, ..*self })
    }

    pub(crate) fn seeds(&self) -> &S {
        &self.loader.maker().seeds
    }

    /// Returns the sampler of the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        self.seeds().sampler()
    }

    /// Returns the number of steps per epoch, the same on every rank. A rank that runs out of seeds earlier gets empty
    /// batches.
    pub fn num_steps(&self) -> usize {
        self.loader.maker().plan.num_steps
    }

    /// Returns the number of batches of this rank that have seeds.
    pub fn num_batches(&self) -> usize {
        self.loader.maker().plan.plan.num_batches()
    }

    /// Returns the number of batches of this rank with as many seeds as the configured batch size. They come before the others.
    /// With even batches, all batches count.
    pub fn num_full_batches(&self) -> usize {
        self.loader.maker().plan.plan.num_full_batches()
    }

    /// Returns the number of seeds over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.total_seeds
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.loader.peak_bytes()
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
    pub fn epoch(&self, epoch: u64) -> BatchIter<S::Batch> {
        self.epoch_map(epoch, |batch| batch)
    }

    /// Returns the batches of `epoch` after `prepare`, which runs on the sampling threads, so that the consumer gets
    /// batches ready to use.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(S::Batch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        self.epoch_map_from(epoch, 0, prepare)
    }

    /// Like [`epoch_map`](Self::epoch_map), from `first_step` on, counted from 0. The batches before it are not made.
    pub fn epoch_map_from<T: Send + 'static>(
        &self,
        epoch: u64,
        first_step: usize,
        prepare: impl Fn(S::Batch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        BatchIter::new(prepare, |prepare| (self.start_batches)(self, epoch, first_step, prepare))
    }

    fn start_batches(&self, epoch: u64, first_step: usize, prepare: Prepare<S::Batch>) -> AnyBatches {
        self.loader.epoch_from(epoch, first_step, prepare)
    }

    /// Counts how often nodes are inputs of the first `num_batches` batches of this rank in `epoch`, or of all batches
    /// if there are fewer. Neighborhoods are sampled as in training, but no attributes are fetched. This is not a
    /// collective: it only needs the peers' services, so ranks may call it at different times. Must not be called from
    /// async code.
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        (self.count_hotness)(self, epoch, num_batches)
    }

    fn count_hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        let PlannedBatches { seeds, plan, .. } = self.loader.maker();
        let num_steps = num_batches.min(plan.plan.num_batches());
        let neighborhoods = Neighborhoods { seeds: seeds.clone(), plan: PlannedSeeds { num_steps, ..plan.clone() } };
        let mut hotness = Hotness::new(self.sampler().node().part().meta().node_types.len());
        // Neighborhoods are smaller than batches, so their loader has a budget of its own.
        let loader = self.loader.with_maker(neighborhoods);
        for sampled in BatchIter::new(|sampled| sampled, |prepare| loader.epoch_from(epoch, 0, prepare)) {
            for (node_type, nodes) in S::subgraph(&sampled?).nodes.iter().enumerate() {
                hotness.count(node_type, &nodes.ids);
            }
        }
        Ok(hotness)
    }
}

/// The seeds of all steps.
#[derive(Clone)]
struct PlannedSeeds {
    plan: Arc<SeedPlan>,
    num_steps: usize,
}

/// The seeds of one epoch.
struct EpochSeeds {
    plan: Arc<SeedPlan>,
    order: EpochOrder,
    epoch: u64,
}

impl PlannedSeeds {
    fn of_epoch(&self, epoch: u64) -> EpochSeeds {
        EpochSeeds { plan: self.plan.clone(), order: self.plan.order(epoch), epoch }
    }
}

impl EpochSeeds {
    fn key(&self, step: usize) -> BatchKey {
        self.plan.key(self.epoch, step)
    }

    fn of_step(&self, step: usize) -> Vec<u32> {
        self.plan.seeds(&self.order, step)
    }
}

/// The batches around the seeds of a plan.
struct PlannedBatches<S> {
    seeds: Arc<S>,
    plan: PlannedSeeds,
    limits: PrefetchLimits,
}

/// The seeds of one epoch, and their neighborhoods if these are sampled ahead.
struct EpochBatches<S: SeedBatches> {
    seeds: Arc<EpochSeeds>,
    ahead: Option<NeighborhoodsAhead<S>>,
}

impl<S: SeedBatches> BatchMaker for PlannedBatches<S> {
    type Batch = S::Batch;
    type Plan = EpochBatches<S>;

    fn plan(&self, epoch: u64, first_step: usize) -> EpochBatches<S> {
        let seeds = Arc::new(self.plan.of_epoch(epoch));
        let steps = first_step..self.plan.num_steps;
        let graph = self.seeds.sampler().node();
        let fetches_features = self.seeds.collation().fetches_features();
        let cache = if fetches_features && !steps.is_empty() { graph.look_ahead_of_epoch() } else { None };
        let ahead = cache.map(|cache| {
            let of_epoch = seeds.clone();
            let seeds_of = move |step| (of_epoch.of_step(step), of_epoch.key(step));
            NeighborhoodsAhead::start(cache, self.seeds.clone(), steps, self.limits, seeds_of)
        });
        EpochBatches { seeds, ahead }
    }

    fn num_steps(&self, _: &EpochBatches<S>) -> usize {
        self.plan.num_steps
    }

    fn key(&self, plan: &EpochBatches<S>, step: usize) -> BatchKey {
        plan.seeds.key(step)
    }

    async fn make(self: Arc<Self>, plan: Arc<EpochBatches<S>>, step: usize) -> Result<S::Batch, SampleError> {
        let key = plan.seeds.key(step);
        let maker = self.seeds.clone();
        let Some(ahead) = &plan.ahead else {
            let sampled = maker.clone().sample(plan.seeds.of_step(step), key).await?;
            return maker.make(sampled, key, None).await;
        };
        let (sampled, fetch) = ahead.take(step).await?;
        let batch = maker.make(sampled, key, Some(fetch.clone())).await?;
        fetch.finish().await?;
        Ok(batch)
    }

    fn num_bytes(batch: &S::Batch) -> usize {
        S::num_bytes(batch)
    }
}

/// The neighborhoods of the seeds of a plan, without attributes.
struct Neighborhoods<S> {
    seeds: Arc<S>,
    plan: PlannedSeeds,
}

impl<S: SeedBatches> BatchMaker for Neighborhoods<S> {
    type Batch = S::Sampled;
    type Plan = EpochSeeds;

    fn plan(&self, epoch: u64, _: usize) -> EpochSeeds {
        self.plan.of_epoch(epoch)
    }

    fn num_steps(&self, _: &EpochSeeds) -> usize {
        self.plan.num_steps
    }

    fn key(&self, plan: &EpochSeeds, step: usize) -> BatchKey {
        plan.key(step)
    }

    async fn make(self: Arc<Self>, plan: Arc<EpochSeeds>, step: usize) -> Result<S::Sampled, SampleError> {
        self.seeds.clone().sample(plan.of_step(step), plan.key(step)).await
    }

    fn num_bytes(sampled: &S::Sampled) -> usize {
        bytes_of_neighborhood(S::subgraph(sampled))
    }
}

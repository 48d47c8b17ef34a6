//! A loader of batches of nodes, made ahead of the trainer.

use crate::ahead::{BatchIter, run_ahead};
use crate::batch::MiniBatch;
use crate::cached_rows::CachedRows;
use crate::error::LoaderError;
use crate::fill::{Filling, fill};
use crate::hotness::Hotness;
use crate::prefetch::{Made, PrefetchBudget, bytes_held};
use crate::seeds::{SeedPlan, Seeds, Shuffle, split_seeds};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{
    BatchKey, DistNeighborSampler, SampleError, SampleSeeds, SampledEdges, SampledNodes, SampledSubgraph, SamplingNode,
    Wanted,
};
use edgecut_graph::NodeTypeId;
use std::ops::Range;
use std::sync::Arc;

/// The configuration of a loader.
#[derive(Clone, Debug)]
pub struct LoaderConfig {
    /// The most seeds per batch and rank.
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
    pub concurrency: usize,
    /// The most bytes of batches that are in progress or wait for the trainer. The sizes of batches in progress are
    /// estimated from finished ones. A batch larger than the limit is made only when no other is held. The programs use
    /// [`DEFAULT_PREFETCH_BYTES`](crate::DEFAULT_PREFETCH_BYTES).
    pub prefetch_bytes: usize,
    /// The attributes of nodes to fetch. Labels are fetched for the seeds only.
    pub wanted: Wanted,
    /// The nodes whose features are not fetched, since the consumer has cached them. They may differ between ranks.
    pub cache: Option<Arc<CachedRows>>,
}

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
    maker: Arc<BatchMaker>,
    plan: Arc<SeedPlan>,
    concurrency: usize,
    prefetch_bytes: usize,
    budget: Arc<PrefetchBudget>,
    num_steps: usize,
    total_seeds: usize,
}

impl DistNeighborLoader {
    /// Makes a loader for `seeds` of `node_type`. Every rank of `world` must call this, in the same order as other
    /// collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, and in temporal sampling for seeds without times and for
    /// in-degrees. [`LoaderError::Agree`] if the ranks cannot agree on the number of steps.
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
        let node = sampler.node();
        let part = node.part();
        let temporal = sampler.temporal().is_some();
        let node_meta = &part.meta().node_types[node_type.index()];
        if temporal && !node_meta.has_times && !matches!(seeds, Seeds::Timed(_)) {
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
            Seeds::Split(split) => SeedIds::Nodes(split_seeds(part, node_type, split)),
            Seeds::Owned => SeedIds::Owned(part.owned(node_type)),
            Seeds::Listed(ids) => SeedIds::Nodes(ids),
            Seeds::Timed(timed) => SeedIds::Timed(timed),
        };
        if ids.len() > u32::MAX as usize {
            return Err(LoaderError::Config {
                what: format!("{} seeds exceed the limit of 2^32 - 1: divide them over several loaders", ids.len()),
            });
        }
        let mut plan = SeedPlan::new(ids.len(), listed, Shuffle::List, &config, node, world);
        let (num_steps, total_seeds) = plan.agree(config.even_batches, world)?;
        let seeds = Arc::new(ids);
        let maker = Arc::new(BatchMaker { sampler, node_type, seeds, wanted: config.wanted, cache: config.cache });
        Ok(Self {
            maker,
            plan: Arc::new(plan),
            concurrency: config.concurrency,
            prefetch_bytes: config.prefetch_bytes,
            budget: PrefetchBudget::new(config.prefetch_bytes),
            num_steps,
            total_seeds,
        })
    }

    /// Returns the loader with a cache. From now on it does not fetch the features of cached nodes. Other ranks may use
    /// other caches.
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        let maker = BatchMaker { cache: Some(cache), ..(*self.maker).clone() };
        Self { maker: Arc::new(maker), ..self }
    }

    /// Returns the sampler of the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.maker.sampler
    }

    /// Returns the node type of the seeds.
    pub fn node_type(&self) -> NodeTypeId {
        self.maker.node_type
    }

    /// Returns the number of steps per epoch, the same on every rank. A rank that runs out of seeds earlier gets empty
    /// batches.
    pub fn num_steps(&self) -> usize {
        self.num_steps
    }

    /// Returns the number of batches of this rank that have seeds.
    pub fn num_batches(&self) -> usize {
        self.plan.num_batches()
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Returns the number of seeds over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.total_seeds
    }

    /// Returns the batches of `epoch`, in order. The loader starts to make them at once. At most `concurrency` batches
    /// are in progress and one waits ready, and together they take at most `prefetch_bytes`. Dropping the iterator
    /// stops the loader.
    pub fn epoch(&self, epoch: u64) -> BatchIter {
        self.epoch_map(epoch, |batch| batch)
    }

    /// Returns the batches of `epoch` after `prepare`, which runs on the sampling threads, so that the consumer gets
    /// batches ready to use.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(MiniBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        let maker = self.maker.clone();
        let plan = self.plan.clone();
        let prepare = Arc::new(prepare);
        let order = plan.order(epoch);
        let budget = self.budget.clone();
        run_ahead(self.maker.node(), self.concurrency, budget, self.num_steps, move |step| {
            let maker = maker.clone();
            let prepare = prepare.clone();
            let (seeds, key) = plan.batch(&order, epoch, step);
            let make = async move {
                let batch = maker.make(seeds, key).await?;
                let num_bytes = batch.num_bytes();
                let batch = maker.node().run_on_workers(move || prepare(batch)).await?;
                Ok(Made { batch, num_bytes })
            };
            (key, make)
        })
    }

    /// Counts how often nodes are inputs of the first `num_batches` batches of this rank in `epoch`, or of all batches
    /// if there are fewer. Neighborhoods are sampled as in training, but no attributes are fetched. This is not a
    /// collective: it only needs the peers' services, so ranks may call it at different times. Must not be called from
    /// async code.
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        let maker = self.maker.clone();
        let plan = self.plan.clone();
        let order = plan.order(epoch);
        let num_batches = num_batches.min(self.num_batches());
        // Neighborhoods are smaller than batches, so their sizes have an estimate of their own.
        let budget = PrefetchBudget::new(self.prefetch_bytes);
        let sampled = run_ahead(self.maker.node(), self.concurrency, budget, num_batches, move |step| {
            let maker = maker.clone();
            let (seeds, key) = plan.batch(&order, epoch, step);
            (key, async move { maker.sample(&seeds, key).await.map(measured) })
        });
        count(sampled, self.maker.node())
    }
}

/// Returns a neighborhood with its size in bytes.
pub(crate) fn measured(batch: SampledSubgraph) -> Made<SampledSubgraph> {
    let of_nodes = |nodes: &SampledNodes| bytes_held(&nodes.ids) + bytes_held(&nodes.batch);
    let of_edges =
        |edges: &SampledEdges| bytes_held(&edges.indptr) + bytes_held(&edges.indices) + bytes_held(&edges.positions);
    let num_bytes = batch.nodes.iter().map(of_nodes).sum::<usize>() + batch.edges.iter().map(of_edges).sum::<usize>();
    Made { batch, num_bytes }
}

/// Rejects in-degrees in temporal sampling. In-degrees of the whole graph count edges later than the seed, from which a
/// model could learn about the future.
pub(crate) fn check_degrees(sampler: &DistNeighborSampler, wanted: Wanted) -> Result<(), LoaderError> {
    if wanted.degrees && sampler.temporal().is_some() {
        return Err(LoaderError::Config {
            what:
                "in-degrees count edges of all times, including those later than a seed: do not request degrees (a GCN \
                   needs them), or sample without times"
                    .into(),
        });
    }
    Ok(())
}

/// Counts the nodes of all neighborhoods.
pub(crate) fn count(sampled: BatchIter<SampledSubgraph>, node: &SamplingNode) -> Result<Hotness, LoaderError> {
    let mut hotness = Hotness::new(node.part().meta().node_types.len());
    for subgraph in sampled {
        hotness.count_batch(&subgraph?);
    }
    Ok(hotness)
}

/// The global ids of the seeds at a plan's positions.
enum SeedIds {
    Nodes(Vec<u32>),
    Owned(Range<u32>),
    /// Ids with times.
    Timed(Vec<(u32, i64)>),
}

impl SeedIds {
    fn len(&self) -> usize {
        match self {
            Self::Nodes(ids) => ids.len(),
            Self::Owned(range) => range.len(),
            Self::Timed(timed) => timed.len(),
        }
    }

    fn nodes(&self, positions: &[u32]) -> Vec<u32> {
        match self {
            Self::Nodes(ids) => positions.iter().map(|&at| ids[at as usize]).collect(),
            Self::Owned(range) => positions.iter().map(|&at| range.start + at).collect(),
            Self::Timed(timed) => positions.iter().map(|&at| timed[at as usize].0).collect(),
        }
    }

    /// Returns the times of seeds that are listed with times.
    fn times(&self, positions: &[u32]) -> Option<Vec<i64>> {
        match self {
            Self::Timed(timed) => Some(positions.iter().map(|&at| timed[at as usize].1).collect()),
            Self::Nodes(_) | Self::Owned(_) => None,
        }
    }
}

/// The state that turns seeds, given by position, into batches.
#[derive(Clone)]
struct BatchMaker {
    sampler: Arc<DistNeighborSampler>,
    node_type: NodeTypeId,
    seeds: Arc<SeedIds>,
    wanted: Wanted,
    cache: Option<Arc<CachedRows>>,
}

impl BatchMaker {
    fn node(&self) -> &Arc<SamplingNode> {
        self.sampler.node()
    }

    async fn sample(&self, seeds: &[u32], key: BatchKey) -> Result<SampledSubgraph, SampleError> {
        let ids = self.seeds.nodes(seeds);
        let num_types = self.node().part().meta().node_types.len();
        let mut sampled = SampleSeeds::of_type(self.node_type, ids.clone(), num_types);
        if self.sampler.is_disjoint() {
            let times = match (self.seeds.times(seeds), self.sampler.temporal()) {
                (_, None) => Vec::new(),
                (Some(times), _) => times,
                (None, _) => {
                    let wanted = Wanted { times: true, ..Wanted::default() };
                    self.node().fetch(self.node_type, ids, wanted).await?.times
                }
            };
            sampled = sampled.disjoint(times);
        }
        self.sampler.sample(sampled, key).await
    }

    async fn make(&self, seeds: Vec<u32>, key: BatchKey) -> Result<MiniBatch, SampleError> {
        if seeds.is_empty() {
            return Ok(MiniBatch::empty(key));
        }
        let num_seeds = seeds.len();
        let subgraph = self.sample(&seeds, key).await?;
        let mut labels = Vec::new();
        if self.wanted.labels {
            let wanted = Wanted { labels: true, ..Wanted::default() };
            labels = self.node().fetch(self.node_type, self.seeds.nodes(&seeds), wanted).await?.labels;
        }
        let filling =
            Filling { wanted: self.wanted, of_edges: self.sampler.edge_attributes(), cache: self.cache.clone() };
        fill(self.node(), subgraph, &filling, key, num_seeds, labels).await
    }
}

//! Makes batches ahead of the trainer.

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

/// How seeds become batches.
#[derive(Clone, Debug)]
pub struct LoaderConfig {
    /// Seeds per batch and rank, at most.
    pub batch_size: usize,
    /// Whether a rank's own seeds are spread evenly over the agreed steps, so that no step has a handful of seeds left
    /// over, which Adam would give as much weight as all others. Else every batch but the last is full. Listed seeds
    /// are always cut into full batches.
    pub even_batches: bool,
    /// Whether the seeds are shuffled each epoch, by a permutation that (seed, epoch, part) decides.
    pub shuffle: bool,
    /// The seed of the shuffles and of the sampling.
    pub seed: u64,
    /// Batches that are made at the same time, ahead of the trainer; 0 makes each when it is asked for.
    pub concurrency: usize,
    /// The most bytes of the batches that are being made or wait for the trainer. The sizes of batches that are being made
    /// are estimated from finished ones; a batch larger than the bound passes alone.
    /// [`DEFAULT_PREFETCH_BYTES`](crate::DEFAULT_PREFETCH_BYTES) is the default of the programs.
    pub prefetch_bytes: usize,
    /// What is fetched of the nodes; labels are fetched of the seeds alone.
    pub wanted: Wanted,
    /// The nodes whose features are not fetched, since the consumer has them. They may differ from rank to rank.
    pub cache: Option<Arc<CachedRows>>,
}

/// Gives a rank its mini-batches, epoch by epoch. All ranks of the job take the same number of steps.
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
    /// A loader for `seeds` of `node_type`. Every rank of `world` has to call this, in the same order as the others.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, for seeds without times in temporal sampling, and for in-degrees in temporal
    /// sampling; [`LoaderError::Agree`] if the ranks cannot agree on the steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        node_type: NodeTypeId,
        seeds: Seeds,
        config: LoaderConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        if config.batch_size == 0 {
            return Err(LoaderError::Config { what: "the batch size has to be at least 1".into() });
        }
        check_degrees(&sampler, config.wanted)?;
        let node = sampler.node();
        let part = node.part();
        let temporal = sampler.temporal().is_some();
        let node_meta = &part.meta().node_types[node_type.index()];
        if temporal && !node_meta.has_times && !matches!(seeds, Seeds::Timed(_)) {
            return Err(LoaderError::Config {
                what: format!(
                    "temporal sampling needs a time for each seed, and nodes of type {} have none: give seeds with times, or \
                     partition the dataset with node times",
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
                what: format!("{} seeds are 2^32 or more: list fewer, and make several loaders", ids.len()),
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

    /// The same loader, which leaves out the features of cached nodes from now on. Other ranks need not know.
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        let maker = BatchMaker { cache: Some(cache), ..(*self.maker).clone() };
        Self { maker: Arc::new(maker), ..self }
    }

    /// What draws the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.maker.sampler
    }

    /// The type of the seeds.
    pub fn node_type(&self) -> NodeTypeId {
        self.maker.node_type
    }

    /// Steps per epoch, the same on every rank: a rank whose seeds run out earlier gets empty batches.
    pub fn num_steps(&self) -> usize {
        self.num_steps
    }

    /// Batches of this rank that hold seeds.
    pub fn num_batches(&self) -> usize {
        self.plan.num_batches()
    }

    /// The most bytes of finished batches that waited at once, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Seeds over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.total_seeds
    }

    /// The batches of `epoch`, in order. Making them starts at once; at most `concurrency` are being made and one waits
    /// ready, however slow the consumer, and at most `prefetch_bytes` of both together. Dropping the iterator stops it.
    pub fn epoch(&self, epoch: u64) -> BatchIter {
        self.epoch_map(epoch, |batch| batch)
    }

    /// As [`DistNeighborLoader::epoch`]; each batch goes through `prepare` on the sampling threads, so that the consumer
    /// gets it ready to use.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(MiniBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        let (maker, plan, prepare) = (self.maker.clone(), self.plan.clone(), Arc::new(prepare));
        let order = plan.order(epoch);
        let budget = self.budget.clone();
        run_ahead(self.maker.node(), self.concurrency, budget, self.num_steps, move |step| {
            let (maker, prepare, (seeds, key)) = (maker.clone(), prepare.clone(), plan.batch(&order, epoch, step));
            let make = async move {
                let batch = maker.make(seeds, key).await?;
                let num_bytes = batch.num_bytes();
                let batch = maker.node().run_on_workers(move || prepare(batch)).await?;
                Ok(Made { batch, num_bytes })
            };
            (key, make)
        })
    }

    /// How often nodes are inputs of the first `num_batches` batches of this rank in `epoch`, or of as many as there are. Their
    /// neighborhoods are sampled as for training, but nothing is fetched. Takes the peers' service, not their part in it: ranks may
    /// ask at different times. Must not be called from async code.
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        let (maker, plan) = (self.maker.clone(), self.plan.clone());
        let order = plan.order(epoch);
        let num_batches = num_batches.min(self.num_batches());
        // Neighborhoods are smaller than batches, so their sizes are learned apart.
        let budget = PrefetchBudget::new(self.prefetch_bytes);
        let sampled = run_ahead(self.maker.node(), self.concurrency, budget, num_batches, move |step| {
            let (maker, (seeds, key)) = (maker.clone(), plan.batch(&order, epoch, step));
            (key, async move { maker.sample(&seeds, key).await.map(measured) })
        });
        count(sampled, self.maker.node())
    }
}

/// A neighborhood with its size.
pub(crate) fn measured(batch: SampledSubgraph) -> Made<SampledSubgraph> {
    let of_nodes = |nodes: &SampledNodes| bytes_held(&nodes.ids) + bytes_held(&nodes.batch);
    let of_edges =
        |edges: &SampledEdges| bytes_held(&edges.indptr) + bytes_held(&edges.indices) + bytes_held(&edges.positions);
    let num_bytes = batch.nodes.iter().map(of_nodes).sum::<usize>() + batch.edges.iter().map(of_edges).sum::<usize>();
    Made { batch, num_bytes }
}

/// Fails if in-degrees are wanted of nodes whose neighbors are drawn by time: those of the whole graph count the edges that are
/// later than the seed, from which a model could read the future.
pub(crate) fn check_degrees(sampler: &DistNeighborSampler, wanted: Wanted) -> Result<(), LoaderError> {
    if wanted.degrees && sampler.temporal().is_some() {
        return Err(LoaderError::Config {
            what: "in-degrees count edges of all times, also those later than a seed: leave out the degrees (a GCN needs them), or \
                   sample without times"
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

/// The seeds that a plan's positions stand for, in global ids.
enum SeedIds {
    Nodes(Vec<u32>),
    Owned(Range<u32>),
    /// With a time each.
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

    /// The times of seeds, where they are listed with one.
    fn times(&self, positions: &[u32]) -> Option<Vec<i64>> {
        match self {
            Self::Timed(timed) => Some(positions.iter().map(|&at| timed[at as usize].1).collect()),
            Self::Nodes(_) | Self::Owned(_) => None,
        }
    }
}

/// Turns seeds, given by position, into a batch.
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

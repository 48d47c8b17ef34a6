//! Makes batches ahead of the trainer.

use crate::ahead::{BatchIter, run_ahead};
use crate::batch::MiniBatch;
use crate::cached_rows::CachedRows;
use crate::error::LoaderError;
use crate::fill::{Filling, fill};
use crate::hotness::Hotness;
use crate::seeds::{SeedPlan, Seeds, split_seeds};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{
    BatchKey, DistNeighborSampler, SampleError, SampleSeeds, SampledSubgraph, SamplingNode, Wanted,
};
use edgecut_graph::NodeTypeId;
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
        let (ids, listed, timed) = match seeds {
            Seeds::Split(split) => (split_seeds(part, node_type, split), false, None),
            Seeds::Owned => (part.owned(node_type).collect(), false, None),
            Seeds::Listed(ids) => (ids, true, None),
            Seeds::Timed(timed) => ((0..timed.len() as u32).collect(), true, Some(timed)),
        };
        let mut plan = SeedPlan::new(ids, listed, &config, node, world);
        let (num_steps, total_seeds) = plan.agree(config.even_batches, world)?;
        let maker = Arc::new(BatchMaker { sampler, node_type, timed, wanted: config.wanted, cache: config.cache });
        Ok(Self { maker, plan: Arc::new(plan), concurrency: config.concurrency, num_steps, total_seeds })
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

    /// Seeds over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.total_seeds
    }

    /// The batches of `epoch`, in order. Making them starts at once; at most `concurrency` are being made and one waits
    /// ready, however slow the consumer. Dropping the iterator stops it.
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
        run_ahead(self.maker.node().handle(), self.concurrency, self.num_steps, move |step| {
            let (maker, prepare, (seeds, key)) = (maker.clone(), prepare.clone(), plan.batch(&order, epoch, step));
            let make = async move {
                let batch = maker.make(seeds, key).await?;
                maker.node().run_on_workers(move || prepare(batch)).await
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
        let sampled = run_ahead(self.maker.node().handle(), self.concurrency, num_batches, move |step| {
            let (maker, (seeds, key)) = (maker.clone(), plan.batch(&order, epoch, step));
            (key, async move { maker.sample(&seeds, key).await })
        });
        count(sampled, self.maker.node())
    }
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

/// Turns seeds into a batch.
#[derive(Clone)]
struct BatchMaker {
    sampler: Arc<DistNeighborSampler>,
    node_type: NodeTypeId,
    /// What seeds are the positions of, if they are not nodes.
    timed: Option<Vec<(u32, i64)>>,
    wanted: Wanted,
    cache: Option<Arc<CachedRows>>,
}

impl BatchMaker {
    fn node(&self) -> &Arc<SamplingNode> {
        self.sampler.node()
    }

    /// The nodes that seeds are.
    fn nodes_of(&self, seeds: &[u32]) -> Vec<u32> {
        match &self.timed {
            Some(timed) => seeds.iter().map(|&seed| timed[seed as usize].0).collect(),
            None => seeds.to_vec(),
        }
    }

    async fn sample(&self, seeds: &[u32], key: BatchKey) -> Result<SampledSubgraph, SampleError> {
        let ids = self.nodes_of(seeds);
        let num_types = self.node().part().meta().node_types.len();
        let mut sampled = SampleSeeds::of_type(self.node_type, ids.clone(), num_types);
        if self.sampler.is_disjoint() {
            let times = match (&self.timed, self.sampler.temporal()) {
                (_, None) => Vec::new(),
                (Some(timed), _) => seeds.iter().map(|&seed| timed[seed as usize].1).collect(),
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
            labels = self.node().fetch(self.node_type, self.nodes_of(&seeds), wanted).await?.labels;
        }
        let filling =
            Filling { wanted: self.wanted, of_edges: self.sampler.edge_attributes(), cache: self.cache.clone() };
        fill(self.node(), subgraph, &filling, key, num_seeds, labels).await
    }
}

//! Makes batches ahead of the trainer.

use crate::batch::{EdgeBatch, MiniBatch, NodeBatch};
use crate::error::LoaderError;
use crate::seeds::{SeedPlan, Seeds, split_seeds};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{BatchKey, DistNeighborSampler, SampleError, SampledSubgraph, SamplingNode, Wanted};
use edgecut_graph::NodeTypeId;
use futures::StreamExt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

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
    /// [`LoaderError::Config`] for a batch size of 0; [`LoaderError::Agree`] if the ranks cannot agree on the steps.
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
        let node = sampler.node();
        let part = node.part();
        let (ids, listed) = match seeds {
            Seeds::Split(split) => (split_seeds(part, node_type, split), false),
            Seeds::Listed(ids) => (ids, true),
        };
        let mut plan = SeedPlan {
            ids,
            listed,
            batch_size: config.batch_size,
            even_steps: None,
            shuffle: config.shuffle,
            seed: config.seed,
            rank: world.rank(),
            world_size: world.size(),
            sharers: node.sharers(),
            part: part.id().0,
        };
        let mut mine = [plan.num_batches() as u64];
        world.all_reduce(&mut mine, edgecut_cluster::ReduceOp::Max)?;
        let num_steps = mine[0] as usize;
        plan.even_steps = (config.even_batches && !listed).then_some(num_steps);
        let own_seeds = if listed && plan.rank > 0 { 0 } else { plan.num_seeds() as u64 };
        let mut total = [own_seeds];
        world.all_reduce(&mut total, edgecut_cluster::ReduceOp::Sum)?;
        let maker = Arc::new(BatchMaker { sampler, node_type, wanted: config.wanted });
        Ok(Self {
            maker,
            plan: Arc::new(plan),
            concurrency: config.concurrency,
            num_steps,
            total_seeds: total[0] as usize,
        })
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
        let prepare = Arc::new(prepare);
        let (maker, plan, concurrency, num_steps) =
            (self.maker.clone(), self.plan.clone(), self.concurrency, self.num_steps);
        let (ready, receiver) = mpsc::channel(1);
        let (ask, mut asked) = mpsc::unbounded_channel();
        let ahead = concurrency > 0;
        let order = Arc::new(plan.order(epoch));
        let task = self.maker.node().handle().spawn(async move {
            let batches = futures::stream::iter(0..num_steps).map(|step| {
                let (maker, prepare, (seeds, key)) = (maker.clone(), prepare.clone(), plan.batch(&order, epoch, step));
                let make = async move {
                    let batch = maker.make(seeds, key).await?;
                    maker.node().run_on_workers(move || prepare(batch)).await
                };
                let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(make));
                async move {
                    let stopped = |e: tokio::task::JoinError| SampleError::Internal { what: e.to_string() };
                    let made = task.await.map_err(stopped).and_then(|made| made);
                    made.map_err(|source| LoaderError::Batch { batch: key.batch, epoch, source: Box::new(source) })
                }
            });
            let mut batches = std::pin::pin!(batches.buffered(concurrency.max(1)));
            loop {
                if !ahead && asked.recv().await.is_none() {
                    return;
                }
                let Some(batch) = batches.next().await else { return };
                let failed = batch.is_err();
                if ready.send(batch).await.is_err() || failed {
                    return;
                }
            }
        });
        BatchIter { receiver, ask: (!ahead).then_some(ask), task, left: num_steps }
    }
}

/// The batches of one epoch; see [`DistNeighborLoader::epoch`].
pub struct BatchIter<T = MiniBatch> {
    receiver: mpsc::Receiver<Result<T, LoaderError>>,
    /// Asks for a batch, where none is made ahead.
    ask: Option<mpsc::UnboundedSender<()>>,
    task: JoinHandle<()>,
    left: usize,
}

impl<T> Iterator for BatchIter<T> {
    type Item = Result<T, LoaderError>;

    /// Waits for the next batch. Every request behind it has a deadline, so the wait ends. Must not be called from async code.
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        // If nobody listens, the receiver says so.
        if let Some(ask) = &self.ask {
            let _ = ask.send(());
        }
        let batch = self.receiver.blocking_recv();
        let stopped = || Err(LoaderError::Stopped);
        let batch = batch.unwrap_or_else(stopped);
        if batch.is_err() {
            self.left = 0;
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

impl<T> Drop for BatchIter<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Turns seeds into a batch.
struct BatchMaker {
    sampler: Arc<DistNeighborSampler>,
    node_type: NodeTypeId,
    wanted: Wanted,
}

impl BatchMaker {
    fn node(&self) -> &Arc<SamplingNode> {
        self.sampler.node()
    }

    async fn make(&self, seeds: Vec<u32>, key: BatchKey) -> Result<MiniBatch, SampleError> {
        if seeds.is_empty() {
            return Ok(MiniBatch { key, num_seeds: 0, nodes: Vec::new(), edges: Vec::new(), labels: Vec::new() });
        }
        let num_seeds = seeds.len();
        let SampledSubgraph { nodes, edges } = self.sampler.sample(self.node_type, seeds, key).await?;
        let mut batches = Vec::with_capacity(nodes.len());
        let mut labels = Vec::new();
        for (t, nodes) in nodes.into_iter().enumerate() {
            let node_type = NodeTypeId(t as u16);
            let seed_type = node_type == self.node_type;
            let node_types = &self.node().part().meta().node_types;
            // In a graph of several types some may have none.
            let has_features = node_types[t].feature_dim > 0 || node_types.len() == 1;
            let wanted = Wanted { labels: false, features: self.wanted.features && has_features, ..self.wanted };
            let attributes = self.node().fetch(node_type, nodes.ids.clone(), wanted).await?;
            if seed_type && self.wanted.labels {
                let wanted = Wanted { labels: true, ..Wanted::default() };
                labels = self.node().fetch(node_type, nodes.ids[..num_seeds].to_vec(), wanted).await?.labels;
            }
            batches.push(NodeBatch {
                input_nodes: nodes.ids,
                hop_offsets: nodes.hop_offsets,
                original_ids: attributes.original_ids,
                degrees: attributes.degrees,
                features: attributes.features,
                feature_dim: attributes.feature_dim,
            });
        }
        let edges = edges.into_iter().map(|e| EdgeBatch { indptr: e.indptr, indices: e.indices }).collect();
        Ok(MiniBatch { key, num_seeds, nodes: batches, edges, labels })
    }
}

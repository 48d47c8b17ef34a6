//! A loader of batches of whole graphs, made ahead of the trainer.

use crate::ahead::Ready;
use crate::error::LoaderError;
use crate::graph_batch::GraphBatch;
use crate::graph_plan::{EpochPlan, GraphLoaderConfig, check};
use crate::prefetch::{InFlight, Made, PrefetchBudget};
use edgecut_cluster::panic_text;
use edgecut_graph::GraphDataset;
use futures::executor::block_on;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// A loader of a rank's batches of graphs, epoch by epoch. All ranks take the same number of steps, and together they
/// see every graph once per epoch.
///
/// The number of the epoch selects the shuffle, so no `set_epoch` is needed as in PyTorch.
///
/// ```
/// use edgecut_dist_loader::{GraphDataLoader, GraphLoaderConfig, LoaderError};
/// use edgecut_graph::datasets::{FakeGraphsOptions, fake_graphs};
/// use std::sync::Arc;
/// let graphs = fake_graphs(&FakeGraphsOptions { num_graphs: 50, ..FakeGraphsOptions::default() })?;
/// let loader = GraphDataLoader::new(Arc::new(graphs), (0..50).collect(), GraphLoaderConfig::new(16), 0, 1)?;
/// let sizes = loader.epoch(3).map(|batch| Ok(batch?.graphs.len())).collect::<Result<Vec<usize>, LoaderError>>()?;
/// assert_eq!(sizes, [16, 16, 16, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphDataLoader {
    dataset: Arc<GraphDataset>,
    graphs: Arc<Vec<u32>>,
    config: GraphLoaderConfig,
    budget: Arc<PrefetchBudget>,
    rank: usize,
    world_size: usize,
}

impl GraphDataLoader {
    /// Makes a loader of some graphs of a set for `rank` of `world_size`. All ranks must pass the same graphs and the
    /// same configuration.
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
        let budget = PrefetchBudget::new(config.prefetch_bytes);
        Ok(Self { dataset, graphs: Arc::new(graphs), config, budget, rank, world_size })
    }

    /// Returns the set to which the graphs belong.
    pub fn dataset(&self) -> &Arc<GraphDataset> {
        &self.dataset
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Returns the number of graphs over all ranks.
    pub fn total_graphs(&self) -> usize {
        self.graphs.len()
    }

    /// Returns the number of steps in an epoch, the same on every rank. A rank without graphs for the last step gets an
    /// empty batch. With [`Packing::Nodes`](crate::Packing::Nodes) the number differs between epochs.
    pub fn num_steps(&self, epoch: u64) -> usize {
        self.plan(epoch).num_steps()
    }

    fn plan(&self, epoch: u64) -> EpochPlan {
        EpochPlan::new(&self.dataset, &self.graphs, &self.config, epoch, self.world_size)
    }

    /// Returns the batches of `epoch`, in order.
    pub fn epoch(&self, epoch: u64) -> GraphBatchIter {
        self.epoch_map(epoch, |batch| batch)
    }

    /// Returns the batches of `epoch` after `prepare`, which runs on the thread that makes them, so that the consumer
    /// gets them ready to use. At most `concurrency` batches, and at most `prefetch_bytes`, are made ahead of the
    /// consumer. Dropping the iterator ends the thread.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(GraphBatch) -> T + Send + 'static,
    ) -> GraphBatchIter<T> {
        let plan = self.plan(epoch);
        let rank = self.rank;
        let dataset = Arc::clone(&self.dataset);
        let left = plan.num_steps();
        let make = move |step: usize| {
            let batch = GraphBatch::new(&dataset, plan.batch(step, rank).to_vec());
            let num_bytes = batch.num_bytes();
            Made { batch: prepare(batch), num_bytes }
        };
        let source = match self.config.concurrency {
            0 => Source::Here(Box::new((0..left).map(move |step| make(step).batch))),
            // One batch is in progress while `concurrency - 1` wait in the channel.
            concurrency => {
                let (ready, receiver) = sync_channel(concurrency - 1);
                let in_flight = InFlight::new(self.budget.clone());
                let thread = std::thread::spawn(move || {
                    for step in 0..left {
                        // Dropping the iterator drops the waiting batches, which frees the budget and ends this wait.
                        let mut permit = block_on(in_flight.admit());
                        let Made { batch, num_bytes } = make(step);
                        permit.finish(num_bytes);
                        if ready.send(Ready { batch, permit }).is_err() {
                            return;
                        }
                    }
                });
                Source::Ahead { receiver, thread: Some(thread) }
            }
        };
        GraphBatchIter { source, left }
    }
}

/// An iterator over the batches of one epoch. See [`GraphDataLoader::epoch`].
pub struct GraphBatchIter<T = GraphBatch> {
    source: Source<T>,
    left: usize,
}

/// The origin of an iterator's batches.
enum Source<T> {
    Here(Box<dyn Iterator<Item = T> + Send>),
    Ahead { receiver: Receiver<Ready<T>>, thread: Option<JoinHandle<()>> },
}

/// Returns the error of a thread that has ended before its last batch.
fn early_end(thread: Option<JoinHandle<()>>) -> LoaderError {
    match thread.map(JoinHandle::join) {
        Some(Err(panic)) => LoaderError::Panicked { what: panic_text(&*panic) },
        _ => LoaderError::Stopped,
    }
}

impl<T> Iterator for GraphBatchIter<T> {
    type Item = Result<T, LoaderError>;

    /// Waits for the next batch. A panic of the thread that makes the batches is returned as an error.
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let batch = match &mut self.source {
            Source::Here(batches) => batches.next().ok_or(LoaderError::Stopped),
            Source::Ahead { receiver, thread } => match receiver.recv() {
                Ok(Ready { batch, permit }) => {
                    drop(permit);
                    Ok(batch)
                }
                Err(_) => Err(early_end(thread.take())),
            },
        };
        if batch.is_err() {
            self.left = 0;
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

//! Batches of graphs, made ahead of the trainer.

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

/// Gives a rank its batches of graphs, epoch by epoch. All ranks take the same number of steps, and together they see every
/// graph once an epoch.
///
/// The number of the epoch decides the order, which is what `set_epoch` is for elsewhere.
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
    /// A loader of these graphs of a set for `rank` of `world_size`; all ranks have to give the same graphs and the same
    /// configuration.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a graph that is not there or has more nodes than a batch may have, and for empty batches.
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

    /// The set that the graphs are from.
    pub fn dataset(&self) -> &Arc<GraphDataset> {
        &self.dataset
    }

    /// The most bytes of finished batches that waited at once, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Graphs over all ranks.
    pub fn total_graphs(&self) -> usize {
        self.graphs.len()
    }

    /// Steps of an epoch, the same on every rank: a rank without graphs for the last one gets an empty batch. With batches by
    /// number of nodes it differs between epochs.
    pub fn num_steps(&self, epoch: u64) -> usize {
        self.plan(epoch).num_steps()
    }

    fn plan(&self, epoch: u64) -> EpochPlan {
        EpochPlan::new(&self.dataset, &self.graphs, &self.config, epoch, self.world_size)
    }

    /// The batches of `epoch`, in order.
    pub fn epoch(&self, epoch: u64) -> GraphBatchIter {
        self.epoch_map(epoch, |batch| batch)
    }

    /// As [`GraphDataLoader::epoch`]; each batch goes through `prepare` on the thread that makes it, so that the consumer gets it
    /// ready to use. At most `concurrency` are ready, and at most `prefetch_bytes` of them, however slow the consumer; dropping
    /// the iterator ends the thread.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(GraphBatch) -> T + Send + 'static,
    ) -> GraphBatchIter<T> {
        let (plan, rank, dataset) = (self.plan(epoch), self.rank, Arc::clone(&self.dataset));
        let left = plan.num_steps();
        let make = move |step: usize| {
            let batch = GraphBatch::new(&dataset, plan.batch(step, rank).to_vec());
            let num_bytes = batch.num_bytes();
            Made { batch: prepare(batch), num_bytes }
        };
        let source = match self.config.concurrency {
            0 => Source::Here(Box::new((0..left).map(move |step| make(step).batch))),
            // One batch is being made while the others wait.
            concurrency => {
                let (ready, receiver) = sync_channel(concurrency - 1);
                let in_flight = InFlight::new(self.budget.clone());
                let thread = std::thread::spawn(move || {
                    for step in 0..left {
                        // Dropping the iterator drops the batches that wait, which ends this wait.
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

/// The batches of one epoch; see [`GraphDataLoader::epoch`].
pub struct GraphBatchIter<T = GraphBatch> {
    source: Source<T>,
    left: usize,
}

enum Source<T> {
    Here(Box<dyn Iterator<Item = T> + Send>),
    Ahead { receiver: Receiver<Ready<T>>, thread: Option<JoinHandle<()>> },
}

/// Why a thread has ended before its last batch.
fn early_end(thread: Option<JoinHandle<()>>) -> LoaderError {
    match thread.map(JoinHandle::join) {
        Some(Err(panic)) => LoaderError::Panicked { what: panic_text(&*panic) },
        _ => LoaderError::Stopped,
    }
}

impl<T> Iterator for GraphBatchIter<T> {
    type Item = Result<T, LoaderError>;

    /// Waits for the next batch. If the thread that makes them has panicked, that is an error and not the end of the epoch.
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

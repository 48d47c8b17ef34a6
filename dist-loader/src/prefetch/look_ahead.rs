//! Neighborhoods that are sampled ahead of their batches, so that a cache knows which rows the next batches use.

use crate::bytes_held::bytes_of_neighborhood;
use crate::prefetch::prefetching_loader::PrefetchLimits;
use crate::prefetch::seed_loader::SeedBatches;
use edgecut_dist_sampler::{BatchKey, CachedFetch, DistGraph, LookAheadEpoch, SampleError};
use futures::StreamExt;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// The divisor of the bytes of prefetched batches that the neighborhoods ahead of them may take in addition.
const SHARE_OF_BYTES: usize = 4;

/// The neighborhoods of an epoch, made ahead.
pub(crate) struct NeighborhoodsAhead<S: SeedBatches> {
    first_step: usize,
    /// By step, the neighborhood until its batch takes it.
    arriving: Vec<Mutex<Option<oneshot::Receiver<Arrival<S>>>>>,
    /// The number of neighborhoods that may be sampled now.
    room: Arc<Semaphore>,
    _task: AbortOnDropHandle<()>,
}

type Arrival<S> = Result<(<S as SeedBatches>::Sampled, Arc<CachedFetch>), SampleError>;

/// The seeds of a step and the key of its batch.
pub(crate) type SeedsOfStep = (Vec<u32>, BatchKey);

impl<S: SeedBatches> NeighborhoodsAhead<S> {
    /// Starts to sample the neighborhoods of some steps of an epoch, whose seeds `seeds_of` returns.
    pub(crate) fn start(
        epoch: LookAheadEpoch,
        maker: Arc<S>,
        steps: Range<usize>,
        limits: PrefetchLimits,
        seeds_of: impl Fn(usize) -> SeedsOfStep + Send + 'static,
    ) -> Self {
        let mut senders = VecDeque::with_capacity(steps.len());
        let mut arriving = Vec::with_capacity(steps.len());
        for _ in steps.clone() {
            let (sender, receiver) = oneshot::channel();
            senders.push_back(sender);
            arriving.push(Mutex::new(Some(receiver)));
        }
        let concurrency = limits.concurrency.max(1);
        let room = Arc::new(Semaphore::new(epoch.num_batches() + concurrency));
        let first_step = steps.start;
        let graph = maker.sampler().node().clone();
        let driver = Driver { graph: graph.clone(), epoch, maker, senders, max_bytes: limits.bytes / SHARE_OF_BYTES };
        let driver = driver.run(steps, concurrency, room.clone(), seeds_of);
        let task = AbortOnDropHandle::new(graph.handle().spawn(driver));
        Self { first_step, arriving, room, _task: task }
    }

    /// Waits for the neighborhood of a step, and what its batch reads from the cache.
    pub(crate) async fn take(&self, step: usize) -> Arrival<S> {
        let slot = &self.arriving[step - self.first_step];
        let receiver = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let receiver =
            receiver.ok_or_else(|| SampleError::Internal { what: format!("step {step} was taken twice") })?;
        let arrival = receiver.await.map_err(|source| SampleError::process("sample ahead", source))?;
        self.room.add_permits(1);
        arrival
    }
}

/// The task that samples ahead.
struct Driver<S: SeedBatches> {
    graph: Arc<DistGraph>,
    epoch: LookAheadEpoch,
    maker: Arc<S>,
    /// The senders of the batches that have not left the window.
    senders: VecDeque<oneshot::Sender<Arrival<S>>>,
    max_bytes: usize,
}

impl<S: SeedBatches> Driver<S> {
    async fn run(
        mut self,
        steps: Range<usize>,
        concurrency: usize,
        room: Arc<Semaphore>,
        seeds_of: impl Fn(usize) -> SeedsOfStep + Send + 'static,
    ) {
        let maker = self.maker.clone();
        let admitted = futures::stream::iter(steps).then(|step| {
            let room = room.clone();
            async move {
                // The semaphore is never closed.
                if let Ok(permit) = room.acquire().await {
                    permit.forget();
                }
                step
            }
        });
        let started = admitted.map(move |step| {
            let (seeds, key) = seeds_of(step);
            let task = AbortOnDropHandle::new(tokio::spawn(maker.clone().sample(seeds, key)));
            async move { task.await.unwrap_or_else(|source| Err(SampleError::process("sample ahead", source))) }
        });
        let mut sampled = std::pin::pin!(started.buffered(concurrency));
        let num_ahead = self.epoch.num_batches();
        let mut window: VecDeque<Result<S::Sampled, SampleError>> = VecDeque::new();
        let mut bytes = 0;
        let mut is_over = false;
        loop {
            while !is_over && window.len() < num_ahead && (window.is_empty() || bytes < self.max_bytes) {
                match sampled.next().await {
                    Some(neighborhood) => {
                        is_over = neighborhood.is_err();
                        bytes += neighborhood.as_ref().map_or(0, num_bytes::<S>);
                        let Ok((this, neighborhood)) = self.enter(neighborhood).await else { return };
                        self = this;
                        window.push_back(neighborhood);
                    }
                    None => is_over = true,
                }
            }
            let Some(next) = window.pop_front() else { return };
            bytes -= next.as_ref().map_or(0, num_bytes::<S>);
            let Ok(this) = self.leave(next).await else { return };
            let Some(this) = this else { return };
            self = this;
        }
    }

    /// Adds a neighborhood to the window of the cache.
    async fn enter(
        mut self,
        neighborhood: Result<S::Sampled, SampleError>,
    ) -> Result<(Self, Result<S::Sampled, SampleError>), SampleError> {
        let graph = self.graph.clone();
        let enter = move || {
            let nodes = neighborhood.as_ref().map_or(&[][..], |sampled| &S::subgraph(sampled).nodes);
            self.epoch.enter(nodes.iter().map(|nodes| &nodes.ids[..]));
            (self, neighborhood)
        };
        graph.run_on_workers(enter).await
    }

    /// Takes the first neighborhood out of the window and sends it to its batch. Returns `None` after the last one.
    async fn leave(mut self, next: Result<S::Sampled, SampleError>) -> Result<Option<Self>, SampleError> {
        let graph = self.graph.clone();
        let leave = move || {
            let nodes = next.as_ref().map_or(&[][..], |sampled| &S::subgraph(sampled).nodes);
            let fetch = Arc::new(self.epoch.leave(nodes.iter().map(|nodes| nodes.ids.len())));
            let sender = self.senders.pop_front();
            let arrival = next.map(|sampled| (sampled, fetch.clone()));
            let this = if self.senders.is_empty() {
                self.epoch.end(&fetch);
                None
            } else {
                Some(self)
            };
            if let Some(sender) = sender {
                // A batch that is not made any more needs no neighborhood.
                let _ = sender.send(arrival);
            }
            this
        };
        graph.run_on_workers(leave).await
    }
}

fn num_bytes<S: SeedBatches>(sampled: &S::Sampled) -> usize {
    bytes_of_neighborhood(S::subgraph(sampled))
}

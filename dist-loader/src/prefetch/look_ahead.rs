//! Neighborhoods that are sampled ahead of their batches, so that a cache knows which rows the next batches use.

use crate::bytes_held::bytes_of_neighborhood;
use crate::prefetch::prefetching_loader::PrefetchLimits;
use crate::prefetch::seed_loader::SeedBatches;
use edgecut_dist_sampler::{BatchKey, CachedFetch, DistGraph, LookAheadEpoch, SampleError, SampledNodes};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// The divisor of the bytes of prefetched batches that the neighborhoods ahead of them may take in addition.
const SHARE_OF_BYTES: usize = 4;

/// The neighborhoods of an epoch, made ahead.
pub(crate) struct NeighborhoodsAhead<S: SeedBatches> {
    first_step: usize,
    /// By step, the neighborhood until its batch takes it.
    arriving: Vec<Mutex<Option<oneshot::Receiver<Arrival<S>>>>>,
    waiting: Arc<Waiting>,
    _task: AbortOnDropHandle<()>,
}

type Arrival<S> = Result<(<S as SeedBatches>::Sampled, Arc<CachedFetch>), SampleError>;

/// The seeds of a step and the key of its batch.
pub(crate) type SeedsOfStep = (Vec<u32>, BatchKey);

/// The neighborhoods that their batches have not taken.
#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// The number of neighborhoods that have left the window.
    sent: AtomicUsize,
    taken: Notify,
}

impl<S: SeedBatches> NeighborhoodsAhead<S> {
    /// Starts to sample the neighborhoods of some steps of an epoch, whose seeds `seeds_of` returns.
    pub(crate) fn start(
        epoch: LookAheadEpoch,
        maker: Arc<S>,
        steps: Range<usize>,
        limits: PrefetchLimits,
        seeds_of: impl Fn(usize) -> SeedsOfStep + Send + Sync + 'static,
    ) -> Self {
        let mut senders = VecDeque::with_capacity(steps.len());
        let mut arriving = Vec::with_capacity(steps.len());
        for _ in steps.clone() {
            let (sender, receiver) = oneshot::channel();
            senders.push_back(sender);
            arriving.push(Mutex::new(Some(receiver)));
        }
        let first_step = steps.start;
        let graph = maker.sampler().node().clone();
        let waiting = Arc::new(Waiting::default());
        let driver = Driver {
            graph: graph.clone(),
            num_ahead: epoch.num_batches(),
            planner: Planner { epoch, senders },
            maker,
            steps,
            concurrency: limits.concurrency.max(1),
            max_bytes: limits.bytes / SHARE_OF_BYTES,
            largest: 0,
            window: VecDeque::new(),
            waiting: waiting.clone(),
        };
        let task = AbortOnDropHandle::new(graph.handle().spawn(driver.run(seeds_of)));
        Self { first_step, arriving, waiting, _task: task }
    }

    /// Waits for the neighborhood of a step, and what its batch reads from the cache.
    pub(crate) async fn take(&self, step: usize) -> Arrival<S> {
        let slot = &self.arriving[step - self.first_step];
        let receiver = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let receiver =
            receiver.ok_or_else(|| SampleError::Internal { what: format!("step {step} was taken twice") })?;
        let arrival = receiver.await.map_err(|source| SampleError::process("sample ahead", source))?;
        let bytes = arrival.as_ref().map_or(0, |(sampled, _)| num_bytes::<S>(sampled));
        self.waiting.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.waiting.sent.fetch_sub(1, Ordering::AcqRel);
        self.waiting.taken.notify_one();
        arrival
    }
}

/// The task that samples ahead.
struct Driver<S: SeedBatches> {
    graph: Arc<DistGraph>,
    planner: Planner<S>,
    maker: Arc<S>,
    /// The steps whose neighborhoods are not sampled yet.
    steps: Range<usize>,
    num_ahead: usize,
    concurrency: usize,
    max_bytes: usize,
    /// The bytes of the largest neighborhood so far.
    largest: usize,
    window: VecDeque<Result<S::Sampled, SampleError>>,
    waiting: Arc<Waiting>,
}

/// The window of the cache, and the senders of the batches that have not left it.
struct Planner<S: SeedBatches> {
    epoch: LookAheadEpoch,
    senders: VecDeque<oneshot::Sender<Arrival<S>>>,
}

impl<S: SeedBatches> Driver<S> {
    async fn run(mut self, seeds_of: impl Fn(usize) -> SeedsOfStep + Send + Sync + 'static) {
        let mut sampling = FuturesOrdered::new();
        loop {
            while self.has_room(sampling.len()) {
                let Some(step) = self.steps.next() else { break };
                let (seeds, key) = seeds_of(step);
                sampling.push_back(AbortOnDropHandle::new(tokio::spawn(self.maker.clone().sample(seeds, key))));
            }
            if let Some(sampled) = sampling.next().await {
                let sampled = sampled.unwrap_or_else(|source| Err(SampleError::process("sample ahead", source)));
                if sampled.is_err() {
                    // The epoch ends with the batch of this step.
                    self.steps = 0..0;
                    sampling = FuturesOrdered::new();
                }
                let bytes = sampled.as_ref().map_or(0, num_bytes::<S>);
                self.largest = self.largest.max(bytes);
                self.waiting.bytes.fetch_add(bytes, Ordering::AcqRel);
                let planner = self.planner;
                let entered = self.graph.run_on_workers(move || planner.enter(sampled)).await;
                let Ok((planner, sampled)) = entered else { return };
                self.planner = planner;
                self.window.push_back(sampled);
            } else if self.waiting.sent.load(Ordering::Acquire) >= self.concurrency
                || (self.window.is_empty() && !self.steps.is_empty())
            {
                self.waiting.taken.notified().await;
            } else {
                let Some(next) = self.window.pop_front() else { return };
                self.waiting.sent.fetch_add(1, Ordering::AcqRel);
                let planner = self.planner;
                let left = self.graph.run_on_workers(move || planner.leave(next)).await;
                let Ok(Some(planner)) = left else { return };
                self.planner = planner;
            }
        }
    }

    /// Returns true if another neighborhood may be sampled beside `num_sampling` others. One at a time may exceed the limit
    /// on bytes.
    fn has_room(&self, num_sampling: usize) -> bool {
        let num_ahead = self.window.len() + num_sampling;
        let held = self.waiting.bytes.load(Ordering::Acquire);
        let expected = held.saturating_add((num_sampling + 1).saturating_mul(self.largest));
        let is_alone = num_ahead == 0 && self.waiting.sent.load(Ordering::Acquire) == 0;
        let fits = self.largest > 0 && expected <= self.max_bytes;
        num_sampling < self.concurrency && num_ahead < self.num_ahead && (fits || is_alone)
    }
}

impl<S: SeedBatches> Planner<S> {
    /// Adds a neighborhood to the window of the cache.
    fn enter(mut self, neighborhood: Result<S::Sampled, SampleError>) -> (Self, Result<S::Sampled, SampleError>) {
        self.epoch.enter(nodes_of::<S>(&neighborhood).iter().map(|nodes| &nodes.ids[..]));
        (self, neighborhood)
    }

    /// Takes the first neighborhood out of the window and sends it to its batch. Returns `None` after the last one.
    fn leave(mut self, next: Result<S::Sampled, SampleError>) -> Option<Self> {
        let fetch = Arc::new(self.epoch.leave(nodes_of::<S>(&next).iter().map(|nodes| nodes.ids.len())));
        let sender = self.senders.pop_front();
        let arrival = next.map(|sampled| (sampled, fetch.clone()));
        let is_last = self.senders.is_empty();
        let this = if is_last {
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
    }
}

/// Returns the nodes of a neighborhood by type. A failed one has none.
fn nodes_of<S: SeedBatches>(neighborhood: &Result<S::Sampled, SampleError>) -> &[SampledNodes] {
    neighborhood.as_ref().map_or(&[], |sampled| &S::subgraph(sampled).nodes)
}

fn num_bytes<S: SeedBatches>(sampled: &S::Sampled) -> usize {
    bytes_of_neighborhood(S::subgraph(sampled))
}

//! Batches of any kind, made ahead of their consumer.

use crate::error::LoaderError;
use crate::prefetch::batch_iter::{AnyBatches, Batches, Prepare, Ready};
use crate::prefetch::loader_threads::LoaderThreads;
use crate::prefetch::prefetch_budget::{InFlight, Permit, PrefetchBudget};
use edgecut_dist_sampler::{BatchKey, SampleError};
use futures::StreamExt;
use futures::future::BoxFuture;
use std::ops::Range;
use std::sync::Arc;

/// A maker of the batches of one kind: nodes, links or graphs.
pub(crate) trait BatchMaker: Send + Sync + 'static {
    type Batch: Send + 'static;
    /// The assignment of seeds to the batches of one epoch.
    type Plan: Send + Sync + 'static;

    /// Returns the plan of an epoch whose batches are made from `first_step` on.
    fn plan(&self, epoch: u64, first_step: usize) -> Self::Plan;

    /// Returns the number of batches in an epoch.
    fn num_steps(&self, plan: &Self::Plan) -> usize;

    /// Returns the key of the batch of a step, which identifies it in errors.
    fn key(&self, plan: &Self::Plan, step: usize) -> BatchKey;

    /// Makes the batch of a step.
    fn make(
        self: Arc<Self>,
        plan: Arc<Self::Plan>,
        step: usize,
    ) -> impl Future<Output = Result<Self::Batch, SampleError>> + Send;

    /// Returns the bytes of memory that a batch holds.
    fn num_bytes(batch: &Self::Batch) -> usize;
}

/// A loader that makes batches in the order of the steps, ahead of their consumer and within a limit on their bytes.
pub(crate) struct PrefetchingLoader<M> {
    maker: Arc<M>,
    threads: LoaderThreads,
    limits: PrefetchLimits,
    budget: Arc<PrefetchBudget>,
}

/// The limits on the batches that a loader makes ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchLimits {
    /// The number of batches to make ahead. 0 makes each batch on request.
    pub(crate) concurrency: usize,
    /// The most bytes of batches in progress or waiting.
    pub(crate) bytes: usize,
}

impl<M: BatchMaker> PrefetchingLoader<M> {
    pub(crate) fn new(maker: M, threads: LoaderThreads, limits: PrefetchLimits) -> Self {
        Self { maker: Arc::new(maker), threads, limits, budget: PrefetchBudget::new(limits.bytes) }
    }

    pub(crate) fn maker(&self) -> &M {
        &self.maker
    }

    /// Returns the loader with another maker of the same batches.
    pub(crate) fn replace_maker(self, maker: M) -> Self {
        Self { maker: Arc::new(maker), ..self }
    }

    /// Returns a loader of other batches with the same threads and limits, and a budget of its own.
    pub(crate) fn with_maker<N: BatchMaker>(&self, maker: N) -> PrefetchingLoader<N> {
        PrefetchingLoader::new(maker, self.threads.clone(), self.limits)
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Returns the batches of `epoch` from `first_step` on after `prepare`, which runs on the loader's threads. The batches
    /// before it are not made.
    ///
    /// A failure is reported to the job at once. It is the last item.
    pub(crate) fn epoch_from(&self, epoch: u64, first_step: usize, prepare: Prepare<M::Batch>) -> AnyBatches {
        let plan = Arc::new(self.maker.plan(epoch, first_step));
        let steps = first_step..self.maker.num_steps(&plan);
        let num_left = steps.len();
        let PrefetchLimits { concurrency, .. } = self.limits;
        let maker = self.maker.clone();
        let threads = self.threads.clone();
        let start = Box::new(move |step, mut permit: Permit| {
            let maker = maker.clone();
            let on = threads.clone();
            let prepare = prepare.clone();
            let plan = plan.clone();
            threads.start(async move {
                let key = maker.key(&plan, step);
                let make = async {
                    let batch = maker.make(plan, step).await?;
                    let num_bytes = M::num_bytes(&batch);
                    let batch = on.run(move || prepare(batch)).await?;
                    permit.finish(num_bytes);
                    Ok(Ready { batch, permit })
                };
                make.await.map_err(|source| LoaderError::Batch {
                    batch: key.batch,
                    epoch: key.epoch,
                    source: Box::new(source),
                })
            })
        });
        let in_flight = InFlight::new(self.budget.clone());
        let batches = in_order(steps, in_flight, start, self.threads.num_in_progress(concurrency));
        AnyBatches::new(batches, self.threads.clone(), concurrency, num_left)
    }
}

/// A function that starts to make the batch of a step.
type Start = dyn Fn(usize, Permit) -> BoxFuture<'static, Result<Ready, LoaderError>> + Send;

/// Returns the batches of some steps in order. At most `at_once` batches are in progress. A batch is started when the budget has
/// room for it.
fn in_order(steps: Range<usize>, in_flight: Arc<InFlight>, start: Box<Start>, at_once: usize) -> Batches {
    let admitted = futures::stream::iter(steps).then(move |step| {
        let in_flight = in_flight.clone();
        async move { (step, in_flight.admit().await) }
    });
    // `buffered` keeps the order of the steps.
    admitted.map(move |(step, permit)| start(step, permit)).buffered(at_once).boxed()
}

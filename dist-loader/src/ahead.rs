//! Makes batches ahead of their consumer.

use crate::batch::MiniBatch;
use crate::error::LoaderError;
use crate::prefetch::{InFlight, Made, Permit, PrefetchBudget};
use edgecut_dist_sampler::{BatchKey, SampleError};
use futures::StreamExt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::AbortOnDropHandle;

/// The batches of `num_steps` steps in order, made by `make` on `runtime`: at most `concurrency` are being made and one waits
/// ready, and all of these together have at most as many bytes as `budget` allows. With a `concurrency` of 0 each is made
/// when it is asked for.
pub(crate) fn run_ahead<T, F>(
    runtime: &Handle,
    concurrency: usize,
    budget: Arc<PrefetchBudget>,
    num_steps: usize,
    make: impl Fn(usize) -> (BatchKey, F) + Send + Sync + 'static,
) -> BatchIter<T>
where
    T: Send + 'static,
    F: Future<Output = Result<Made<T>, SampleError>> + Send + 'static,
{
    let (ready, receiver) = mpsc::channel(1);
    let (ask, mut asked) = mpsc::unbounded_channel();
    let ahead = concurrency > 0;
    let in_flight = InFlight::new(budget);
    let task = runtime.spawn(async move {
        let admitted = futures::stream::iter(0..num_steps).then(|step| {
            let in_flight = in_flight.clone();
            async move { (step, in_flight.admit().await) }
        });
        let batches = admitted.map(|(step, mut permit)| {
            let (key, make) = make(step);
            let make = async move {
                let Made { batch, num_bytes } = make.await?;
                permit.finish(num_bytes);
                Ok(Ready { batch, permit })
            };
            let task = AbortOnDropHandle::new(tokio::spawn(make));
            async move {
                let stopped = |e: JoinError| SampleError::Internal { what: e.to_string() };
                let made = task.await.map_err(stopped).and_then(|made| made);
                made.map_err(|source| LoaderError::Batch {
                    batch: key.batch,
                    epoch: key.epoch,
                    source: Box::new(source),
                })
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

/// A batch that waits for its consumer.
pub(crate) struct Ready<T> {
    pub(crate) batch: T,
    /// Counts the batch until the consumer has it.
    pub(crate) permit: Permit,
}

/// The batches of one epoch; see [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
pub struct BatchIter<T = MiniBatch> {
    receiver: mpsc::Receiver<Result<Ready<T>, LoaderError>>,
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
        let batch = batch.unwrap_or_else(stopped).map(|Ready { batch, permit }| {
            drop(permit);
            batch
        });
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

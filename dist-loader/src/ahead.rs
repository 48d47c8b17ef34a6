//! Batches made ahead of their consumer.

use crate::batch::MiniBatch;
use crate::error::LoaderError;
use crate::prefetch::{InFlight, Made, Permit, PrefetchBudget};
use edgecut_cluster::{Cluster, panic_text};
use edgecut_dist_sampler::{BatchKey, SampleError, SamplingNode};
use futures::StreamExt;
use std::error::Error;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::AbortOnDropHandle;

/// Makes the batches of `num_steps` steps in order with `make`, on the runtime of `node`. At most `concurrency` batches
/// are in progress and one waits ready. All of these together take at most the bytes that `budget` allows. With a
/// `concurrency` of 0, each batch is made on request.
///
/// A failure is reported to the job at once, since the consumer may be in a collective with ranks that wait for a reply
/// of this rank.
pub(crate) fn run_ahead<T, F>(
    node: &SamplingNode,
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
    let cluster = node.cluster().clone();
    let task = node.handle().spawn(async move {
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
            // A task of its own per batch, so that batches advance together. Dropping the handle aborts the task.
            let task = AbortOnDropHandle::new(tokio::spawn(make));
            async move {
                let made = task.await.map_err(stopped)?;
                made.map_err(|source| LoaderError::Batch {
                    batch: key.batch,
                    epoch: key.epoch,
                    source: Box::new(source),
                })
            }
        });
        // `buffered` keeps the order of the steps.
        let mut batches = std::pin::pin!(batches.buffered(concurrency.max(1)));
        loop {
            if !ahead && asked.recv().await.is_none() {
                return;
            }
            let Some(batch) = batches.next().await else { return };
            let failed = batch.is_err();
            if let Err(error @ (LoaderError::Batch { .. } | LoaderError::Panicked { .. })) = &batch {
                report(&cluster, error);
            }
            if ready.send(batch).await.is_err() || failed {
                return;
            }
        }
    });
    BatchIter { receiver, ask: (!ahead).then_some(ask), task, left: num_steps }
}

/// A finished batch that waits for its consumer.
pub(crate) struct Ready<T> {
    pub(crate) batch: T,
    /// Counts the batch against the budget until the consumer takes it.
    pub(crate) permit: Permit,
}

/// Converts the error of a task that made a batch and was cancelled or panicked.
fn stopped(error: JoinError) -> LoaderError {
    match error.try_into_panic() {
        Ok(panic) => LoaderError::Panicked { what: panic_text(&*panic) },
        // A task whose result is awaited is cancelled only when the runtime shuts down.
        Err(_) => LoaderError::Stopped,
    }
}

/// Reports an error to the other ranks, unless it is a consequence of another rank's failure. Finding that out takes
/// time, so it runs on a blocking thread.
fn report(cluster: &Cluster, error: &LoaderError) {
    let cluster = cluster.clone();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    tokio::task::spawn_blocking(move || cluster.blame(text));
}

/// An iterator over the batches of one epoch. See [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
pub struct BatchIter<T = MiniBatch> {
    receiver: mpsc::Receiver<Result<Ready<T>, LoaderError>>,
    /// Requests a batch if batches are not made ahead.
    ask: Option<mpsc::UnboundedSender<()>>,
    task: JoinHandle<()>,
    left: usize,
}

impl<T> Iterator for BatchIter<T> {
    type Item = Result<T, LoaderError>;

    /// Waits for the next batch. Every request that it needs has a deadline, so the wait ends. Must not be called from
    /// async code.
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        // If the task has ended, the receiver reports it.
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

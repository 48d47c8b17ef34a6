//! Makes batches ahead of their consumer.

use crate::batch::MiniBatch;
use crate::error::LoaderError;
use edgecut_dist_sampler::{BatchKey, SampleError};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::AbortOnDropHandle;

/// The batches of `num_steps` steps in order, made by `make` on `runtime`: at most `concurrency` are being made and one waits
/// ready, however slow the consumer. With a `concurrency` of 0 each is made when it is asked for.
pub(crate) fn run_ahead<T, F>(
    runtime: &Handle,
    concurrency: usize,
    num_steps: usize,
    make: impl Fn(usize) -> (BatchKey, F) + Send + Sync + 'static,
) -> BatchIter<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, SampleError>> + Send + 'static,
{
    let (ready, receiver) = mpsc::channel(1);
    let (ask, mut asked) = mpsc::unbounded_channel();
    let ahead = concurrency > 0;
    let task = runtime.spawn(async move {
        let batches = futures::stream::iter(0..num_steps).map(|step| {
            let (key, make) = make(step);
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

/// The batches of one epoch; see [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
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

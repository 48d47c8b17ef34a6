//! The iterator over the batches of one epoch.

use crate::batch::mini_batch::MiniBatch;
use crate::error::LoaderError;
use crate::prefetch::loader_threads::{Driver, LoaderThreads};
use crate::prefetch::prefetch_budget::Permit;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A batch of any type. The code that makes batches ahead is the same for all types, so it is compiled once.
pub(crate) type AnyBatch = Box<dyn Any + Send>;

/// The last step of making a batch, which the consumer defines.
pub(crate) type Prepare<B> = Arc<dyn Fn(B) -> AnyBatch + Send + Sync>;

/// A finished batch that waits for its consumer.
pub(crate) struct Ready {
    pub(crate) batch: AnyBatch,
    /// Counts the batch against the budget until the consumer takes it.
    pub(crate) permit: Permit,
}

/// The batches of an epoch, or the errors that end it.
pub(crate) type Batches = BoxStream<'static, Result<Ready, LoaderError>>;

/// An iterator over the batches of one epoch. See [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
pub struct BatchIter<T = MiniBatch> {
    batches: AnyBatches,
    kind: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> BatchIter<T> {
    /// Makes the batches that `start` starts, after `prepare`.
    pub(crate) fn new<B: 'static>(
        prepare: impl Fn(B) -> T + Send + Sync + 'static,
        start: impl FnOnce(Prepare<B>) -> AnyBatches,
    ) -> Self {
        let batches = start(Arc::new(move |batch| Box::new(prepare(batch)) as AnyBatch));
        Self { batches, kind: PhantomData }
    }
}

impl<T: 'static> Iterator for BatchIter<T> {
    type Item = Result<T, LoaderError>;

    /// Waits for the next batch. Every request that it needs has a deadline, so the wait ends. Must not be called from
    /// async code.
    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map(|batch| *batch.downcast().expect("the iterator was made with a function that returns its type")))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.batches.left))
    }
}

/// The batches of one epoch, of any type.
pub(crate) struct AnyBatches {
    source: Source,
    left: usize,
}

/// The origin of an iterator's batches.
enum Source {
    /// Each batch is made on request.
    OnRequest { batches: Batches, threads: LoaderThreads },
    /// Batches are made ahead and wait in a channel.
    Ahead { receiver: mpsc::Receiver<Result<Ready, LoaderError>>, driver: Driver, threads: LoaderThreads },
}

impl AnyBatches {
    /// Makes `num_steps` batches on request if `concurrency` is 0, and otherwise ahead.
    pub(crate) fn new(batches: Batches, threads: LoaderThreads, concurrency: usize, num_steps: usize) -> Self {
        if concurrency == 0 {
            return Self { source: Source::OnRequest { batches, threads }, left: num_steps };
        }
        let (ready, receiver) = mpsc::channel(threads.num_ready(concurrency));
        let driver = threads.drive(send_all(batches, ready, threads.clone()));
        Self { source: Source::Ahead { receiver, driver, threads }, left: num_steps }
    }

    /// See [`BatchIter::next`].
    fn next(&mut self) -> Option<Result<AnyBatch, LoaderError>> {
        self.left = self.left.checked_sub(1)?;
        let ready = match &mut self.source {
            Source::OnRequest { batches, threads } => {
                let ready = threads.block_on(batches.next());
                if let Some(Err(error)) = &ready {
                    threads.report(error);
                }
                ready.unwrap_or(Err(LoaderError::Stopped))
            }
            Source::Ahead { receiver, driver, threads } => {
                threads.count_taken(receiver.len());
                receiver.blocking_recv().unwrap_or_else(|| Err(driver.early_end()))
            }
        };
        if ready.is_err() {
            self.left = 0;
        }
        Some(ready.map(|Ready { batch, permit }| {
            drop(permit);
            batch
        }))
    }
}

/// Makes batches and sends them, until one fails or the receiver is dropped. Reports a failure at once.
async fn send_all(mut batches: Batches, ready: mpsc::Sender<Result<Ready, LoaderError>>, threads: LoaderThreads) {
    // A batch gets its slot before it is made, so that the slots bound the batches ahead of the consumer.
    while let Ok(slot) = ready.reserve().await {
        let Some(batch) = batches.next().await else { return };
        let has_failed = batch.is_err();
        if let Err(error) = &batch {
            threads.report(error);
        }
        slot.send(batch);
        if has_failed {
            return;
        }
    }
}

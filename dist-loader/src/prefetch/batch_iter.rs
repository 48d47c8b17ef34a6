//! The iterator over the batches of one epoch.

use crate::batch::mini_batch::MiniBatch;
use crate::error::LoaderError;
use crate::prefetch::loader_threads::{Driver, LoaderThreads};
use crate::prefetch::prefetch_budget::Permit;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

/// A finished batch that waits for its consumer.
pub(crate) struct Ready<T> {
    pub(crate) batch: T,
    /// Counts the batch against the budget until the consumer takes it.
    pub(crate) permit: Permit,
}

/// The batches of an epoch, or the errors that end it.
pub(crate) type Batches<T> = BoxStream<'static, Result<Ready<T>, LoaderError>>;

/// An iterator over the batches of one epoch. See [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
pub struct BatchIter<T = MiniBatch> {
    source: Source<T>,
    left: usize,
}

/// The origin of an iterator's batches.
enum Source<T> {
    /// Each batch is made on request.
    OnRequest { batches: Batches<T>, threads: LoaderThreads },
    /// Batches are made ahead and wait in a channel.
    Ahead { receiver: mpsc::Receiver<Result<Ready<T>, LoaderError>>, driver: Driver, threads: LoaderThreads },
}

impl<T> BatchIter<T> {
    pub(crate) fn on_request(batches: Batches<T>, threads: LoaderThreads, num_steps: usize) -> Self {
        Self { source: Source::OnRequest { batches, threads }, left: num_steps }
    }

    pub(crate) fn ahead(
        receiver: mpsc::Receiver<Result<Ready<T>, LoaderError>>,
        driver: Driver,
        threads: LoaderThreads,
        num_steps: usize,
    ) -> Self {
        Self { source: Source::Ahead { receiver, driver, threads }, left: num_steps }
    }
}

impl<T> Iterator for BatchIter<T> {
    type Item = Result<T, LoaderError>;

    /// Waits for the next batch. Every request that it needs has a deadline, so the wait ends. Must not be called from
    /// async code.
    fn next(&mut self) -> Option<Self::Item> {
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

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

//! The threads on which a loader makes its batches.

use crate::error::LoaderError;
use edgecut_cluster::{panic_text, with_causes};
use edgecut_dist_sampler::{DistGraph, SampleError};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// The threads on which a loader makes its batches.
#[derive(Clone)]
pub(crate) enum LoaderThreads {
    /// The network threads of a process, which wait for peers, and its sampling threads. Several batches are in
    /// progress at the same time.
    OfNode(Arc<DistGraph>),
    /// One thread per epoch, for batches that need no other process. One batch is in progress.
    OfEpoch,
}

/// The task or thread that makes the batches of one epoch ahead. Dropping it stops the task. A thread ends when the
/// receiver of its batches is dropped.
pub(crate) enum Driver {
    Task { _task: AbortOnDropHandle<()> },
    Thread(Option<std::thread::JoinHandle<()>>),
}

impl Driver {
    /// Returns the error of a driver that has ended before its last batch.
    pub(crate) fn early_end(&mut self) -> LoaderError {
        match self {
            Self::Task { .. } => LoaderError::Stopped,
            Self::Thread(thread) => match thread.take().map(std::thread::JoinHandle::join) {
                Some(Err(panic)) => LoaderError::Panicked { what: panic_text(&*panic) },
                _ => LoaderError::Stopped,
            },
        }
    }
}

impl LoaderThreads {
    /// Returns the number of batches in progress if `concurrency` batches are made ahead.
    pub(crate) fn num_in_progress(&self, concurrency: usize) -> usize {
        match self {
            Self::OfNode(_) => concurrency.max(1),
            Self::OfEpoch => 1,
        }
    }

    /// Returns the number of batches that may wait for the consumer, including the one that the driver waits for.
    pub(crate) fn num_ready(&self, concurrency: usize) -> usize {
        match self {
            Self::OfNode(_) => 2,
            Self::OfEpoch => concurrency.max(1),
        }
    }

    /// Starts to make a batch and returns a future of it. Dropping the future stops the work.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        make: impl Future<Output = Result<T, LoaderError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, LoaderError>> {
        match self {
            // A task of its own per batch, so that batches advance together. Dropping the handle aborts the task.
            Self::OfNode(_) => {
                let task = AbortOnDropHandle::new(tokio::spawn(make));
                async move { task.await.unwrap_or_else(|error| Err(stopped(error))) }.boxed()
            }
            Self::OfEpoch => make.boxed(),
        }
    }

    /// Runs CPU work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SampleError> {
        match self {
            Self::OfNode(graph) => graph.run_on_workers(work).await,
            Self::OfEpoch => Ok(work()),
        }
    }

    /// Waits for a future on the calling thread.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::OfNode(graph) => graph.handle().block_on(future),
            Self::OfEpoch => block_on(future),
        }
    }

    /// Runs the future that makes the batches of an epoch ahead.
    pub(crate) fn drive(&self, batches: impl Future<Output = ()> + Send + 'static) -> Driver {
        match self {
            Self::OfNode(graph) => Driver::Task { _task: AbortOnDropHandle::new(graph.handle().spawn(batches)) },
            Self::OfEpoch => Driver::Thread(Some(std::thread::spawn(|| block_on(batches)))),
        }
    }

    /// Counts a batch that the consumer takes, while `ready` finished batches wait.
    pub(crate) fn count_taken(&self, ready: usize) {
        if let Self::OfNode(node) = self {
            node.traffic().count_taken(ready);
        }
    }

    /// Reports an error to the other ranks at once, unless it is a consequence of another rank's failure. The consumer
    /// may be in a collective with ranks that wait for a reply of this rank. Finding the cause takes time, so it runs
    /// on a blocking thread.
    pub(crate) fn report(&self, error: &LoaderError) {
        let Self::OfNode(graph) = self else { return };
        if !matches!(error, LoaderError::Batch { .. } | LoaderError::Panicked { .. }) {
            return;
        }
        let cluster = graph.cluster().clone();
        let text = with_causes(error);
        graph.handle().spawn_blocking(move || cluster.blame(text));
    }
}

/// Converts the error of a task that made a batch and was cancelled or panicked.
fn stopped(error: tokio::task::JoinError) -> LoaderError {
    match error.try_into_panic() {
        Ok(panic) => LoaderError::Panicked { what: panic_text(&*panic) },
        // A task whose result is awaited is cancelled only when the runtime shuts down.
        Err(_) => LoaderError::Stopped,
    }
}

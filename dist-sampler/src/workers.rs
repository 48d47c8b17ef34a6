//! The threads that sample and gather, apart from the network's and the trainer's.

use crate::SampleError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;
/// Work on up to so many cache lines, some 200 µs, may run on the async runtime.
const INLINE_LINES: usize = 8192;

/// A pool of CPU threads that async code hands work to.
#[derive(Debug)]
pub(crate) struct Workers(rayon::ThreadPool);

impl Workers {
    pub(crate) fn new(num_workers: usize) -> Result<Self, SampleError> {
        rayon::ThreadPoolBuilder::new()
            .num_threads(num_workers.max(1))
            .thread_name(|i| format!("sampler-{i}"))
            .build()
            .map(Self)
            .map_err(|e| SampleError::Internal { what: format!("start {num_workers} sampling threads: {e}") })
    }

    /// As [`Workers::run`] for work that touches about `lines` cache lines: where that takes less time than handing it to
    /// another thread and waiting for it, it is done at once.
    pub(crate) async fn run_sized<T: Send + 'static>(
        &self,
        lines: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SampleError> {
        if lines > INLINE_LINES {
            return self.run(work).await;
        }
        catch_unwind(AssertUnwindSafe(work)).map_err(panicked)
    }

    /// Runs `work` on the pool and waits for it without blocking the async runtime. A panic becomes an error, so that
    /// one bad batch ends the job with a message and does not leave a peer waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SampleError> {
        let (send, receive) = oneshot::channel();
        self.0.spawn(move || {
            let _ = send.send(catch_unwind(AssertUnwindSafe(work)));
        });
        match receive.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => Err(panicked(panic)),
            Err(_) => Err(SampleError::Internal { what: "the sampling threads have stopped".into() }),
        }
    }
}

fn panicked(panic: Box<dyn Any + Send>) -> SampleError {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    SampleError::Internal { what: format!("a sampling thread panicked: {}", text.unwrap_or("no message")) }
}

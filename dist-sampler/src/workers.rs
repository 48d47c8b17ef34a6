//! The threads that sample and gather, separate from the threads of the network and of training.
//!
//! Invariant: each kind of work has its threads. Network work runs on a small tokio runtime. Sampling, gathering and
//! making tensors run on this pool, burn's operations on rayon's global pool, and collectives on the thread that
//! trains. Only async tasks are spawned per batch, and one per request of a peer. The async runtime runs CPU work only
//! where a handover to a worker would cost more ([`Workers::run_sized`]); it also groups nodes by owner and places the
//! attributes of sampled edges. Feature rows for peers are gathered there in small pieces, each of which is sent from the
//! cache, and received rows are placed there as they arrive. Work that reads a mapped file runs on a worker, since it may
//! wait for the disk. Gathers of nodes' attributes run in place all the same, as long as the latest ones found all rows
//! in memory ([`DiskWaits`](crate::part::disk_waits::DiskWaits)).
//!
//! Batches of whole graphs are made by one thread per epoch, which uses rayon's global pool for data that only a
//! backward pass reads.

use crate::error::SampleError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Size of a cache line in bytes.
pub(crate) const LINE_BYTES: usize = 64;
/// The largest number of cache lines, about 200 µs of work, that may be processed on the async runtime.
const INLINE_LINES: usize = 8192;

/// The size to declare for work that must run on the pool, since it may wait for a disk or a device.
pub(crate) const ON_POOL: usize = usize::MAX;

/// A pool of CPU threads that does work for async code.
#[derive(Debug)]
pub(crate) struct Workers {
    pool: rayon::ThreadPool,
    /// Permits for the gathers for peers that may be in the pool at the same time.
    gathers: Arc<Semaphore>,
}

impl Workers {
    pub(crate) fn new(num_workers: usize) -> Result<Self, SampleError> {
        let num_workers = num_workers.max(1);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(num_workers)
            .thread_name(|i| format!("sampler-{i}"))
            .build()
            .map_err(|source| SampleError::process(format!("start {num_workers} sampling threads"), source))?;
        Ok(Self { pool, gathers: Arc::new(Semaphore::new(num_workers.min(Semaphore::MAX_PERMITS))) })
    }

    /// Runs work that gathers rows for a peer, as [`Workers::run_sized`] does. At most one gather per thread enters the
    /// pool at a time, so a hop waits for at most one gather on each thread.
    pub(crate) async fn run_gather<T: Send + 'static>(
        &self,
        lines: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SampleError> {
        if lines <= INLINE_LINES {
            return self.run_sized(lines, work).await;
        }
        let permit = self.gathers.clone().acquire_owned().await;
        let permit = permit.map_err(|_| SampleError::Internal { what: "the sampling threads have stopped".into() })?;
        // The work owns the permit, since it continues if this future is dropped.
        let gather = move || {
            let _permit = permit;
            work()
        };
        self.run(gather).await
    }

    /// Runs `work`, which touches about `lines` cache lines. Small work runs in place, since handing it to another
    /// thread would take longer. Other work runs on the pool as in [`Workers::run`].
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

    /// Runs `work` on the pool and waits for it without blocking the async runtime. A panic becomes an error, so that a
    /// failing batch ends the job with a message instead of leaving a peer waiting. If this future is dropped before a
    /// thread is free, `work` does not run.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SampleError> {
        let (send, receive) = oneshot::channel();
        self.pool.spawn(move || {
            if send.is_closed() {
                return;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_name() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn only_small_work_stays_on_the_calling_thread() {
        let workers = Workers::new(2).unwrap();
        let here = thread_name();
        assert_eq!(workers.run_sized(INLINE_LINES, thread_name).await.unwrap(), here);
        assert_eq!(workers.run_gather(INLINE_LINES, thread_name).await.unwrap(), here);
        for name in [
            workers.run_sized(ON_POOL, thread_name).await.unwrap(),
            workers.run_gather(ON_POOL, thread_name).await.unwrap(),
            workers.run_sized(INLINE_LINES + 1, thread_name).await.unwrap(),
        ] {
            assert!(name.starts_with("sampler-"), "{name}");
        }
    }

    #[tokio::test]
    async fn a_gather_waits_while_as_many_run_as_there_are_threads() {
        let workers = Arc::new(Workers::new(2).unwrap());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let gathers: Vec<_> = (0..8)
            .map(|_| {
                let workers = workers.clone();
                let released = released.clone();
                let wait = move || released.lock().unwrap().recv().unwrap();
                tokio::spawn(async move { workers.run_gather(ON_POOL, wait).await })
            })
            .collect();
        while workers.gathers.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        (0..8).for_each(|_| release.send(()).unwrap());
        for gather in gathers {
            gather.await.unwrap().unwrap();
        }
        assert_eq!(workers.gathers.available_permits(), 2);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_any_more_does_not_start() {
        let workers = Arc::new(Workers::new(1).unwrap());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (ran, has_run) = std::sync::mpsc::channel::<()>();
        let first = {
            let workers = workers.clone();
            tokio::spawn(async move { workers.run(move || released.recv()).await })
        };
        tokio::task::yield_now().await;
        let second = {
            let workers = workers.clone();
            tokio::spawn(async move { workers.run(move || ran.send(())).await })
        };
        tokio::task::yield_now().await;
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        release.send(()).unwrap();
        first.await.unwrap().unwrap().unwrap();
        workers.run(|| ()).await.unwrap();
        assert!(has_run.try_recv().is_err());
    }
}

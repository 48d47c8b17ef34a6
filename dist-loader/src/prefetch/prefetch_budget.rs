//! The memory limit of batches that are made ahead.
//!
//! A batch is started when the finished batches and the estimates of the unfinished ones leave room, in the order of
//! the batches. It counts until the consumer takes it. A batch above the limit is made alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The divisor of the difference by which the estimate falls when a batch is smaller.
const DECAY: usize = 8;

/// The memory limit of one loader, and the estimated size of its next batch.
#[derive(Debug)]
pub(crate) struct PrefetchBudget {
    limit_bytes: usize,
    /// The estimated bytes of a batch, 0 before the first is finished. The estimate rises to a larger batch at once and
    /// falls slowly, so that batches of varying size rarely exceed the limit.
    estimate_bytes: AtomicUsize,
    /// The most bytes of finished batches that were held at the same time.
    peak_bytes: AtomicUsize,
}

impl PrefetchBudget {
    pub(crate) fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes, estimate_bytes: AtomicUsize::new(0), peak_bytes: AtomicUsize::new(0) })
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Updates the estimate with the size of a finished batch. Batches without seeds are ignored, since they tell
    /// nothing about others.
    fn learn(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let next = |estimate: usize| Some(bytes.max(estimate - estimate.saturating_sub(bytes) / DECAY));
        // The closure always returns a value, so the update cannot fail.
        let _ = self.estimate_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// The batches of one epoch that are in progress or wait for the consumer.
#[derive(Debug)]
pub(crate) struct InFlight {
    budget: Arc<PrefetchBudget>,
    held: Mutex<Held>,
    freed: Notify,
}

/// The counts of the batches in flight.
#[derive(Debug, Default)]
struct Held {
    /// Batches in progress.
    unfinished: usize,
    /// Batches that wait for the consumer.
    finished: usize,
    /// The bytes of the finished batches.
    finished_bytes: usize,
}

impl InFlight {
    pub(crate) fn new(budget: Arc<PrefetchBudget>) -> Arc<Self> {
        Arc::new(Self { budget, held: Mutex::default(), freed: Notify::new() })
    }

    /// Waits until another batch fits the limit, or until no batch is in flight, so that a batch larger than the limit
    /// passes alone. One task may wait at a time.
    pub(crate) async fn admit(self: &Arc<Self>) -> Permit {
        loop {
            if let Some(permit) = self.try_admit() {
                return permit;
            }
            // `notify_one` stores a notification that comes between the two calls, so none is lost.
            self.freed.notified().await;
        }
    }

    fn try_admit(self: &Arc<Self>) -> Option<Permit> {
        let mut held = self.held();
        let estimate = self.budget.estimate_bytes.load(Ordering::Relaxed);
        let expected = held.finished_bytes.saturating_add((held.unfinished + 1).saturating_mul(estimate));
        // Before the first batch of a loader is finished, the sizes are unknown, so no second one is admitted.
        let fits = estimate > 0 && expected <= self.budget.limit_bytes;
        if held.unfinished + held.finished > 0 && !fits {
            return None;
        }
        held.unfinished += 1;
        Some(Permit { in_flight: self.clone(), finished_bytes: None })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch in flight. Dropping the permit frees its memory in the budget.
#[derive(Debug)]
pub(crate) struct Permit {
    in_flight: Arc<InFlight>,
    finished_bytes: Option<usize>,
}

impl Permit {
    /// Records the size of the batch, which is now finished. Later calls have no effect.
    pub(crate) fn finish(&mut self, bytes: usize) {
        if self.finished_bytes.replace(bytes).is_some() {
            return;
        }
        let budget = &self.in_flight.budget;
        budget.learn(bytes);
        let mut held = self.in_flight.held();
        held.unfinished -= 1;
        held.finished += 1;
        held.finished_bytes += bytes;
        budget.peak_bytes.fetch_max(held.finished_bytes, Ordering::Relaxed);
        drop(held);
        // The batch may be smaller than estimated, so another may fit.
        self.in_flight.freed.notify_one();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.in_flight.held();
        match self.finished_bytes {
            Some(bytes) => {
                held.finished -= 1;
                held.finished_bytes -= bytes;
            }
            None => held.unfinished -= 1,
        }
        drop(held);
        self.in_flight.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(in_flight: &Arc<InFlight>, bytes: usize) -> Option<Permit> {
        let mut permit = in_flight.try_admit()?;
        permit.finish(bytes);
        Some(permit)
    }

    #[test]
    fn the_first_batch_is_alone_and_the_others_fill_the_limit() {
        let in_flight = InFlight::new(PrefetchBudget::new(100));
        let first = in_flight.try_admit().expect("the first passes");
        assert!(in_flight.try_admit().is_none(), "its size is unknown");
        drop(first);
        let mut held: Vec<Permit> = std::iter::from_fn(|| finished(&in_flight, 30)).collect();
        assert_eq!(held.len(), 3);
        held.pop();
        // Batches in progress count as much as finished ones.
        held.push(in_flight.try_admit().expect("one fits"));
        assert!(in_flight.try_admit().is_none());
        assert_eq!(in_flight.budget.peak_bytes(), 90);
    }

    #[test]
    fn a_batch_larger_than_the_limit_passes_alone() {
        for limit in [0, 1, 99] {
            let in_flight = InFlight::new(PrefetchBudget::new(limit));
            for _ in 0..3 {
                let large = finished(&in_flight, 100).expect("it is alone");
                assert!(in_flight.try_admit().is_none());
                drop(large);
            }
        }
    }

    #[test]
    fn the_estimate_rises_at_once_and_falls_slowly() {
        let budget = PrefetchBudget::new(1000);
        let estimate = || budget.estimate_bytes.load(Ordering::Relaxed);
        budget.learn(10);
        budget.learn(80);
        assert_eq!(estimate(), 80);
        budget.learn(0);
        assert_eq!(estimate(), 80);
        budget.learn(16);
        assert_eq!(estimate(), 72);
        (0..100).for_each(|_| budget.learn(16));
        assert!(estimate() < 16 + DECAY, "{}", estimate());
    }

    #[test]
    fn a_waiting_batch_is_admitted_when_another_leaves() {
        let in_flight = InFlight::new(PrefetchBudget::new(1));
        for _ in 0..100 {
            let held = finished(&in_flight, 5).expect("it is alone");
            let waiting = in_flight.clone();
            let waiter = std::thread::spawn(move || drop(futures::executor::block_on(waiting.admit())));
            drop(held);
            waiter.join().expect("it is admitted");
        }
    }
}

//! The end of the job as known to this process: the first failure, or that all ranks are done.

use crate::timeouts::STOPWATCH_INTERVAL;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::Failure;
use crate::locks::{lock, wait_for};
use crate::stopwatch::Stopwatch;

type Watcher = Box<dyn FnOnce(Failure) + Send>;

/// The end of the job, if it has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The job is running.
    Open,
    /// All ranks are done.
    Finished,
    /// A rank or a connection failed.
    Failed(Failure),
}

/// The state of the job, shared by the threads of a process.
#[derive(Default)]
pub(crate) struct JobState {
    state: Mutex<State>,
    changed: Condvar,
    // Waiting collectives check this in every iteration of their loops, so the check must not take a lock.
    failed: AtomicBool,
    // Wakes async tasks when a failure is recorded.
    failure_came: Notify,
    // The ranks that the threads of this process wait for in collectives, with repetitions.
    waits: Mutex<Vec<usize>>,
}

/// A record that a thread waits for a rank, removed on drop.
pub(crate) struct Waiting<'a> {
    job_state: &'a JobState,
    rank: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waits = lock(&self.job_state.waits);
        if let Some(index) = waits.iter().position(|&rank| rank == self.rank) {
            waits.swap_remove(index);
        }
    }
}

#[derive(Default)]
struct State {
    failure: Option<Failure>,
    finished: bool,
    watchers: Vec<Watcher>,
}

impl JobState {
    /// Records a failure, unless an earlier one is known, and calls the watchers on a separate thread.
    pub(crate) fn record(&self, failure: Failure) {
        if let Some(watchers) = self.record_first(&failure) {
            run_watchers(watchers, failure);
        }
    }

    /// Records the failure of this process. It does not call the watchers, since this process knows that it fails.
    pub(crate) fn record_own(&self, failure: &Failure) {
        self.record_first(failure);
    }

    /// Records a failure unless an earlier one is known. Returns the watchers to call.
    fn record_first(&self, failure: &Failure) -> Option<Vec<Watcher>> {
        let mut state = lock(&self.state);
        if state.failure.is_some() {
            return None;
        }
        state.failure = Some(failure.clone());
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
        self.failure_came.notify_waiters();
        Some(std::mem::take(&mut state.watchers))
    }

    /// Records that all ranks are done.
    pub(crate) fn finish(&self) {
        let mut state = lock(&self.state);
        state.finished = true;
        self.changed.notify_all();
        // A watcher may own a handle of the cluster, which owns this value. Dropping the watchers breaks that cycle.
        // The lock is released first, since a dropped handle may use it.
        let watchers = std::mem::take(&mut state.watchers);
        drop(state);
        drop(watchers);
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        if self.has_failed() { lock(&self.state).failure.clone() } else { None }
    }

    /// Records that the calling thread waits for `rank`, until the returned value is dropped.
    pub(crate) fn wait_for_rank(&self, rank: usize) -> Waiting<'_> {
        lock(&self.waits).push(rank);
        Waiting { job_state: self, rank }
    }

    /// Returns the ranks that threads of this process wait for.
    pub(crate) fn waits(&self) -> Vec<usize> {
        lock(&self.waits).clone()
    }

    /// Waits until a failure is recorded.
    pub(crate) async fn failed(&self) -> Failure {
        loop {
            let mut came = std::pin::pin!(self.failure_came.notified());
            // Register for the notification before the check, so that a failure in between is not missed.
            came.as_mut().enable();
            if let Some(failure) = self.failure() {
                return failure;
            }
            came.await;
        }
    }

    /// Returns whether the job is running, as known to this process.
    pub(crate) fn is_open(&self) -> bool {
        let state = lock(&self.state);
        state.failure.is_none() && !state.finished
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Calls `watcher` when a failure is recorded; immediately if one has been recorded already.
    pub(crate) fn watch(&self, watcher: Watcher) {
        let mut state = lock(&self.state);
        match state.failure.clone() {
            Some(failure) => {
                drop(state);
                run_watchers(vec![watcher], failure);
            }
            None if !state.finished => state.watchers.push(watcher),
            None => {}
        }
    }

    /// Waits for at most `timeout` until the job has failed or finished.
    pub(crate) fn wait(&self, timeout: Duration) -> Ending {
        self.wait_until(timeout, |state| state.finished)
    }

    /// Waits for a failure for at most `timeout`.
    pub(crate) fn wait_for_failure(&self, timeout: Duration) -> Option<Failure> {
        match self.wait_until(timeout, |_| false) {
            Ending::Failed(failure) => Some(failure),
            Ending::Open | Ending::Finished => None,
        }
    }

    fn wait_until(&self, timeout: Duration, done: impl Fn(&State) -> bool) -> Ending {
        let mut waited = Stopwatch::start();
        let mut state = lock(&self.state);
        loop {
            if let Some(failure) = &state.failure {
                return Ending::Failed(failure.clone());
            }
            if done(&state) {
                return Ending::Finished;
            }
            let remaining = timeout.saturating_sub(waited.elapsed());
            if remaining.is_zero() {
                return Ending::Open;
            }
            state = wait_for(&self.changed, state, remaining.min(STOPWATCH_INTERVAL));
        }
    }
}

/// Runs watchers on a separate thread, because the control thread has to tell the other ranks meanwhile.
fn run_watchers(watchers: Vec<Watcher>, failure: Failure) {
    if watchers.is_empty() {
        return;
    }
    // Shared rather than moved, because a thread that cannot be started drops its closure.
    let shared = Arc::new(Mutex::new(watchers));
    let for_thread = Arc::clone(&shared);
    let reported = failure.clone();
    let thread = std::thread::Builder::new().name("edgecut-failure".to_owned());
    if thread.spawn(move || call_all(&for_thread, &reported)).is_err() {
        // No thread could be started: run them here, although that delays the control thread.
        call_all(&shared, &failure);
    }
}

fn call_all(watchers: &Mutex<Vec<Watcher>>, failure: &Failure) {
    let watchers = std::mem::take(&mut *lock(watchers));
    for watcher in watchers {
        watcher(failure.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn failure(rank: usize) -> Failure {
        Failure { rank, addr: ([127, 0, 0, 1], 1).into(), reason: "test".to_owned(), link_to: None, is_own: false }
    }

    #[test]
    fn the_first_failure_stays_and_watchers_hear_it_once() {
        let job_state = JobState::default();
        let (sender, heard) = mpsc::channel();
        let early = sender.clone();
        job_state.watch(Box::new(move |failure| early.send(failure.rank).unwrap()));
        job_state.record(failure(1));
        job_state.record(failure(2));
        job_state.watch(Box::new(move |failure| sender.send(failure.rank).unwrap()));
        assert_eq!(heard.iter().collect::<Vec<_>>(), [1, 1]);
        assert_eq!(job_state.failure(), Some(failure(1)));
        assert_eq!(job_state.wait(Duration::from_secs(9)), Ending::Failed(failure(1)));
    }

    #[test]
    fn waits_are_forgotten_when_they_end() {
        let job_state = JobState::default();
        let first = job_state.wait_for_rank(3);
        let second = job_state.wait_for_rank(1);
        assert_eq!(job_state.waits(), [3, 1]);
        drop(first);
        assert_eq!(job_state.waits(), [1]);
        drop(second);
        assert!(job_state.waits().is_empty());
    }

    #[test]
    fn waiting_ends_with_the_deadline_or_the_finish() {
        let job_state = JobState::default();
        assert_eq!(job_state.wait(Duration::ZERO), Ending::Open);
        job_state.finish();
        assert_eq!(job_state.wait(Duration::from_secs(9)), Ending::Finished);
        assert_eq!(job_state.wait_for_failure(Duration::ZERO), None);
    }
}

//! Detection of suspensions of this process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A detector of suspensions (Ctrl-Z, a paused container), fed by a thread that calls [`SuspensionWatch::look`]
/// periodically. A gap between two calls that is much longer than the period means that the process did not run.
pub(crate) struct SuspensionWatch {
    start: Instant,
    // A longer time between two looks is a suspension.
    longest_gap: Duration,
    // In milliseconds since `start`.
    last_look: AtomicU64,
    // The same; 0 if there was no suspension.
    last_resume: AtomicU64,
    // The thread has ended, so the time since its last look no longer indicates a suspension.
    has_ended: AtomicBool,
}

impl SuspensionWatch {
    /// Creates a detector for a thread that looks at least once per `period`. It detects gaps that exceed the period by
    /// more than a quarter of `timeout` and by more than a second period.
    pub(crate) fn new(period: Duration, timeout: Duration) -> Self {
        Self {
            start: Instant::now(),
            longest_gap: period + (timeout / 4).max(period),
            last_look: AtomicU64::new(0),
            last_resume: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Records a look at time `now`. Returns whether the process was suspended since the previous one.
    pub(crate) fn look(&self, now: Instant) -> bool {
        let now = self.millis(now);
        let resumed = self.is_gap(self.last_look.load(Ordering::Acquire), now);
        if resumed {
            self.last_resume.store(now, Ordering::Release);
        }
        // Last, so that a reader that no longer sees the gap sees the resume. Only one thread looks.
        self.last_look.store(now, Ordering::Release);
        resumed
    }

    /// Records that the thread has ended. From now on only suspensions that it has seen count.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Returns whether the process was suspended at some time after `since`, even if the looking thread has not noticed
    /// the suspension yet.
    pub(crate) fn was_suspended_since(&self, since: Instant) -> bool {
        // `last_look` is read before `last_resume`. If the thread looks between the two reads, the old `last_look`
        // still shows the gap. In the other order both reads could miss it.
        let last = self.last_look.load(Ordering::Acquire);
        let resume = self.last_resume.load(Ordering::Acquire);
        let is_suspended = self.is_gap(last, self.millis(Instant::now())) && !self.has_ended.load(Ordering::Acquire);
        is_suspended || (resume > 0 && resume >= self.millis(since))
    }

    fn is_gap(&self, last: u64, now: u64) -> bool {
        u128::from(now.saturating_sub(last)) > self.longest_gap.as_millis()
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_gap_between_two_looks_is_a_suspension() {
        let watch = SuspensionWatch::new(Duration::from_secs(1), Duration::from_secs(10));
        let at = |millis| watch.start + Duration::from_millis(millis);
        assert!(!watch.look(at(1_000)));
        assert!(!watch.look(at(4_000)), "a busy machine may be late");
        assert!(watch.look(at(19_000)));
        assert!(!watch.look(at(20_000)));
        assert!(watch.was_suspended_since(at(5_000)));
        assert!(!watch.was_suspended_since(at(19_500)));
    }

    #[test]
    fn a_suspension_is_known_before_the_thread_has_looked() {
        let watch = SuspensionWatch::new(Duration::ZERO, Duration::ZERO);
        let before = Instant::now();
        while before.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(watch.was_suspended_since(before));
        watch.end();
        assert!(!watch.was_suspended_since(before), "nobody looks any more");
    }
}

//! Finding out that this process was suspended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The looks of a thread that looks regularly: a time between two looks that is much longer than their period means that
/// the process did not run meanwhile.
pub(crate) struct SuspensionWatch {
    start: Instant,
    // A longer time between two looks is a suspension.
    longest_gap: Duration,
    // In milliseconds since the start.
    last_look: AtomicU64,
    last_resume: AtomicU64,
    // The thread looks no more, so that the time since its last look means nothing.
    has_ended: AtomicBool,
}

impl SuspensionWatch {
    /// A watch for a thread that looks at least once per `period`, and needs to know of suspensions that are a
    /// considerable part of `timeout`.
    pub(crate) fn new(period: Duration, timeout: Duration) -> Self {
        Self {
            start: Instant::now(),
            longest_gap: period + (timeout / 4).max(period),
            last_look: AtomicU64::new(0),
            last_resume: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Looks, and says whether the process was suspended since the last look.
    pub(crate) fn look(&self, now: Instant) -> bool {
        let now = self.millis(now);
        let last = self.last_look.swap(now, Ordering::AcqRel);
        let resumed = self.is_gap(last, now);
        if resumed {
            self.last_resume.store(now, Ordering::Release);
        }
        resumed
    }

    /// Ends the looks. From now on only suspensions that the thread has seen count.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Returns whether the process was suspended at some time after `since`, though the thread that looks may not know it yet.
    pub(crate) fn was_suspended_since(&self, since: Instant) -> bool {
        // The last look is read first: the thread may look, and note the end of a suspension, in between.
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

//! Notices that this process stood still: it was suspended, or its machine slept.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// When the clock was looked at last, by a clock that goes on while the machine sleeps.
#[derive(Debug)]
pub(crate) struct Standstill {
    looked: Duration,
    /// A shorter time between two looks says nothing: the machine may be busy.
    shortest: Duration,
}

impl Standstill {
    /// For a process that looks several times a second, and counts as gone after `silence`.
    pub(crate) fn new(silence: Duration) -> Self {
        Self { looked: boot_time(), shortest: silence / 2 }
    }

    /// Looks at the clock after some time in which nobody was to look.
    pub(crate) fn restart(&mut self) {
        self.looked = boot_time();
    }

    /// Looks at the clock; gives the time since it was last looked at, if that is so long that the process stood still.
    pub(crate) fn look(&mut self) -> Option<Duration> {
        self.look_at(boot_time())
    }

    fn look_at(&mut self, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.looked);
        self.looked = now;
        (passed >= self.shortest).then_some(passed)
    }
}

/// Time since the machine was started, its sleep included.
fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_between_two_looks_is_a_standstill_once() {
        let mut standstill = Standstill { looked: Duration::from_secs(10), ..Standstill::new(Duration::from_secs(4)) };
        assert_eq!(standstill.look_at(Duration::from_secs(11)), None);
        assert_eq!(standstill.look_at(Duration::from_secs(20)), Some(Duration::from_secs(9)));
        assert_eq!(standstill.look_at(Duration::from_millis(20_200)), None);
        assert!(boot_time() > Duration::ZERO);
    }
}

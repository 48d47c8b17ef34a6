//! Detection of standstills: this process was suspended, or its machine slept.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The last look at a clock that continues while the machine sleeps.
#[derive(Debug)]
pub(crate) struct Standstill {
    looked: Duration,
    /// The shortest time between two looks that counts. Shorter ones may come from a busy machine.
    shortest: Duration,
}

impl Standstill {
    /// Creates a detector for a process that looks several times a second, and that counts as gone after `silence`.
    pub(crate) fn new(silence: Duration) -> Self {
        Self { looked: boot_time(), shortest: silence / 2 }
    }

    /// Looks at the clock after a time in which no look was due.
    pub(crate) fn restart(&mut self) {
        self.looked = boot_time();
    }

    /// Looks at the clock. Returns the time since the last look if it is so long that the process must have stood
    /// still.
    pub(crate) fn look(&mut self) -> Option<Duration> {
        self.look_at(boot_time())
    }

    fn look_at(&mut self, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.looked);
        self.looked = now;
        (passed >= self.shortest).then_some(passed)
    }
}

/// Returns the time since the machine was started, including its sleep.
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

//! Waiting times that leave out the time in which this process was suspended.

use std::time::{Duration, Instant};

/// The longest time between two looks that counts. Waits look several times a second, so a longer time means that the
/// process was stopped, or that the machine was.
const MAX_STEP: Duration = Duration::from_secs(1);

/// The time that a wait has taken. A suspension of the process (Ctrl-Z, Slurm's suspend, `docker pause`) counts as one
/// second at most, so that the peers of a process that goes on get the rest of their time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    last: Instant,
    total: Duration,
}

impl Stopwatch {
    /// Starts at zero.
    pub(crate) fn start() -> Self {
        Self { last: Instant::now(), total: Duration::ZERO }
    }

    /// Returns the time since the start. Callers have to look more often than once a second.
    pub(crate) fn elapsed(&mut self) -> Duration {
        self.look(Instant::now())
    }

    fn look(&mut self, now: Instant) -> Duration {
        self.total += now.saturating_duration_since(self.last).min(MAX_STEP);
        self.last = now;
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_counts_as_one_second() {
        let mut watch = Stopwatch::start();
        let start = watch.last;
        assert_eq!(watch.look(start + Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(watch.look(start + Duration::from_secs(900)), Duration::from_millis(1_300));
        assert_eq!(watch.look(start + Duration::from_millis(900_100)), Duration::from_millis(1_400));
    }
}

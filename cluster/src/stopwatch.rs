//! Measurement of waiting times without the time in which this process was suspended.

use crate::timeouts::MAX_COUNTED_INTERVAL;
use std::time::{Duration, Instant};

/// The duration of a wait. A suspension of the process (Ctrl-Z, `scontrol suspend`, `docker pause`) counts as at most
/// one second, so a process that resumes still grants its peers the rest of the timeout.
///
/// Collectives and waits for the connections of a process group use it. Requests of a sampler go on if
/// `Cluster::was_suspended_since` is true. Deadlines of the rendezvous and of dialing include the suspension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    last: Instant,
    total: Duration,
}

impl Stopwatch {
    /// Starts a stopwatch at zero.
    pub(crate) fn start() -> Self {
        Self { last: Instant::now(), total: Duration::ZERO }
    }

    /// Returns the time since the start. Callers must call this more than once a second.
    pub(crate) fn elapsed(&mut self) -> Duration {
        self.look(Instant::now())
    }

    fn look(&mut self, now: Instant) -> Duration {
        self.total += now.saturating_duration_since(self.last).min(MAX_COUNTED_INTERVAL);
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

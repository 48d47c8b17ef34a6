//! The time for which a peer has not answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The requests that wait for a peer, and the time of its last reply.
#[derive(Default)]
pub(crate) struct Silence {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    num_waiting: usize,
    /// The later of the last reply and the first waiting request.
    since: Option<Instant>,
}

/// A request that waits for the peer until this value is dropped.
pub(crate) struct Waiting<'a>(&'a Silence);

impl Silence {
    /// Counts a request that waits.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        let mut state = self.lock();
        if state.num_waiting == 0 {
            state.since = Some(Instant::now());
        }
        state.num_waiting += 1;
        Waiting(self)
    }

    /// Notes a reply.
    pub(crate) fn end(&self) {
        self.lock().since = Some(Instant::now());
    }

    /// Returns for how long requests have waited without a reply to any. Returns zero if no request waits.
    pub(crate) fn duration(&self) -> Duration {
        let state = self.lock();
        match state.since {
            Some(since) if state.num_waiting > 0 => since.elapsed(),
            _ => Duration::ZERO,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().num_waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(20);

    #[test]
    fn a_silence_lasts_from_the_first_request_or_the_last_reply() {
        let silence = Silence::default();
        assert_eq!(silence.duration(), Duration::ZERO);
        let first = silence.wait();
        std::thread::sleep(PAUSE);
        let second = silence.wait();
        let before = silence.duration();
        assert!(before >= PAUSE, "a second request does not shorten the silence");
        silence.end();
        assert!(silence.duration() < before, "a reply ends the silence");
        drop((first, second));
        assert_eq!(silence.duration(), Duration::ZERO, "nothing waits");
    }
}

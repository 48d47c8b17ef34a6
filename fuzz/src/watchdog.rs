//! A thread that ends the process if an input takes too long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time for an input, for any target and on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// The number of no input.
const NONE: u64 = u64::MAX;

/// The current input, watched by a thread.
pub(crate) struct Watchdog {
    number: AtomicU64,
    since: Mutex<Instant>,
}

impl Watchdog {
    /// Starts the thread. It calls `too_slow` with the number of an input that takes too long, and ends the process.
    pub(crate) fn start(too_slow: impl Fn(u64) + Send + 'static) -> Arc<Self> {
        let watchdog = Arc::new(Self { number: AtomicU64::new(NONE), since: Mutex::new(Instant::now()) });
        let watched = Arc::downgrade(&watchdog);
        std::thread::spawn(move || {
            while let Some(watched) = watched.upgrade() {
                let number = watched.number.load(Ordering::Acquire);
                if number != NONE && watched.since().elapsed() > DEADLINE {
                    too_slow(number);
                    std::process::exit(1);
                }
                drop(watched);
                std::thread::sleep(DEADLINE / 100);
            }
        });
        watchdog
    }

    fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches `work` on the input with this number.
    pub(crate) fn watch<T>(&self, number: u64, work: impl FnOnce() -> T) -> T {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.number.store(number, Ordering::Release);
        let done = work();
        self.number.store(NONE, Ordering::Release);
        done
    }
}

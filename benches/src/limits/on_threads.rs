//! Timing of work on several threads at once.

use crate::measure::timing::cpu_time;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Runs `work` once for each item, each on its own thread. Returns the wall-clock and CPU time from the moment that all
/// threads have started until the last one is done.
pub(crate) fn on_threads<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) -> (Duration, Duration) {
    let barrier = Barrier::new(items.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| {
                let barrier = &barrier;
                let work = &work;
                scope.spawn(move || {
                    barrier.wait();
                    work(item);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let cpu = cpu_time();
        for thread in threads {
            // Propagates a panic of the thread.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        (start.elapsed(), cpu_time() - cpu)
    })
}

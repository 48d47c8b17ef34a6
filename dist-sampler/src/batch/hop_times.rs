//! Times of the hops of a sampler.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time spent on the hops of all batches so far.
///
/// `drawing[hop][edge type]` is the time of the threads that draw this process's own rows and number the nodes that all
/// parts drew. `hops[hop]` is wall-clock time, including the waits for other parts and for a free thread. Batches may
/// overlap, so the sum may exceed the elapsed time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HopTimes {
    /// By hop and edge type.
    pub drawing: Vec<Vec<Duration>>,
    /// By hop.
    pub hops: Vec<Duration>,
}

impl HopTimes {
    /// Returns the time spent since an earlier count of the same sampler.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: &[Duration], then: &[Duration]| -> Vec<Duration> {
            now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect()
        };
        Self {
            drawing: self.drawing.iter().zip(&earlier.drawing).map(|(now, then)| less(now, then)).collect(),
            hops: less(&self.hops, &earlier.hops),
        }
    }
}

/// The counters behind [`HopTimes`], in nanoseconds.
#[derive(Debug)]
pub(crate) struct HopClock {
    drawing: Vec<Vec<AtomicU64>>,
    hops: Vec<AtomicU64>,
}

impl HopClock {
    pub(crate) fn new(num_hops: usize, num_edge_types: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        Self { drawing: (0..num_hops).map(|_| zeros(num_edge_types)).collect(), hops: zeros(num_hops) }
    }

    pub(crate) fn add_drawing(&self, hop: usize, edge_type: usize, elapsed: Duration) {
        self.drawing[hop][edge_type].fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_hop(&self, hop: usize, elapsed: Duration) {
        self.hops[hop].fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> HopTimes {
        let durations = |counts: &[AtomicU64]| -> Vec<Duration> {
            counts.iter().map(|count| Duration::from_nanos(count.load(Ordering::Relaxed))).collect()
        };
        HopTimes { drawing: self.drawing.iter().map(|hop| durations(hop)).collect(), hops: durations(&self.hops) }
    }
}

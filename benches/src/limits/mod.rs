//! The limits of the machine, measured with as little overhead as possible.

pub(crate) mod all_reduce;
mod memory_copy;
mod on_threads;
mod random_reads;
mod raw_tcp;
mod sgemm;

pub(crate) use memory_copy::memory_copy;
pub(crate) use random_reads::{Pages, RandomReads};
pub(crate) use raw_tcp::RawTcp;
pub(crate) use sgemm::sgemm;

/// A measured limit: a time, and the amount of work done in it.
pub(crate) struct Limit {
    pub(crate) timing: crate::measure::timing::Timing,
    pub(crate) amount: f64,
    /// The name of the limit with its parameters.
    pub(crate) name: String,
}

impl Limit {
    /// Returns the amount of work per second at the median time.
    pub(crate) fn rate(&self) -> f64 {
        self.amount / self.timing.median_s
    }
}

fn plural(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

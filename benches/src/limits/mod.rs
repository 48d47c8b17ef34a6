//! What the machine allows, measured with as little in between as there can be.

mod memory_copy;
mod on_threads;
mod random_reads;
mod raw_tcp;
mod sgemm;

pub(crate) use memory_copy::memory_copy;
pub(crate) use random_reads::{Pages, RandomReads};
pub(crate) use raw_tcp::RawTcp;
pub(crate) use sgemm::sgemm;

/// A time and the work that was done in it.
pub(crate) struct Limit {
    pub(crate) timing: crate::timing::Timing,
    pub(crate) amount: f64,
    /// What it is, with its parameters.
    pub(crate) name: String,
}

impl Limit {
    /// Work per second, by the median.
    pub(crate) fn rate(&self) -> f64 {
        self.amount / self.timing.median_s
    }
}

fn plural(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

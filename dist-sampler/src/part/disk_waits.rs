//! Detection of reads of mapped files that wait for the disk.
//!
//! Rows of a mapped file are in memory, or a read of them waits for the disk. The kernel counts such waits per thread.

use nix::sys::resource::{UsageWho, getrusage};
use std::sync::atomic::{AtomicU32, Ordering};

/// The consecutive reads without a wait for the disk after which the next one is expected to have none either.
const QUIET_READS: u32 = 64;

/// The waits for the disk of the reads of a part's mapped files.
#[derive(Debug, Default)]
pub(crate) struct DiskWaits {
    /// The latest consecutive reads without a wait, at most [`QUIET_READS`].
    quiet: AtomicU32,
}

impl DiskWaits {
    /// Returns true if none of the last [`QUIET_READS`] reads has waited for the disk.
    pub(crate) fn are_rare(&self) -> bool {
        self.quiet.load(Ordering::Relaxed) >= QUIET_READS
    }

    /// Runs `read` and records whether the calling thread has waited for the disk meanwhile. Other threads that take part
    /// in the read do not count.
    pub(crate) fn watch<T>(&self, read: impl FnOnce() -> T) -> T {
        let watched = WatchedRead::start();
        let value = read();
        self.record(watched.has_waited());
        value
    }

    /// Records whether a read has waited for the disk.
    pub(crate) fn record(&self, has_waited: bool) {
        if has_waited {
            self.quiet.store(0, Ordering::Relaxed);
        } else if !self.are_rare() {
            self.quiet.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A read of the thread that has started it.
pub(crate) struct WatchedRead {
    waits_before: Option<i64>,
}

impl WatchedRead {
    pub(crate) fn start() -> Self {
        Self { waits_before: waits_of_thread() }
    }

    /// Returns true if the thread has waited for the disk since the start. A kernel that does not count waits may have had
    /// one.
    pub(crate) fn has_waited(&self) -> bool {
        self.waits_before.is_none() || waits_of_thread() != self.waits_before
    }
}

/// Returns the page faults of the calling thread that waited for the disk.
fn waits_of_thread() -> Option<i64> {
    getrusage(UsageWho::RUSAGE_THREAD).ok().map(|usage| usage.major_page_faults())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rare_after_enough_reads_without_one_until_the_next_one() {
        let waits = DiskWaits::default();
        for round in 0..2 {
            for read in 0..QUIET_READS {
                assert!(!waits.are_rare(), "round {round}, read {read}");
                waits.watch(|| ());
            }
            assert!(waits.are_rare());
            waits.watch(|| ());
            assert!(waits.are_rare());
            waits.record(true);
        }
    }
}

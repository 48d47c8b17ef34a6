//! The progress of a download or an upload.

use crate::cache::show_progress;
use crate::timeouts::PROGRESS_INTERVAL;
use std::cell::Cell;
use std::fmt::Display;
use std::fs::File;
use std::time::Instant;

/// The progress of a transfer, as lines: at the start, at the end, and at times between.
pub(crate) struct Progress<'a> {
    say: fn(&str),
    /// The lock for which other processes may wait.
    lock: Option<&'a File>,
    /// The files and their size.
    what: String,
    total: u64,
    done: Cell<u64>,
    start: Instant,
    shown: Cell<Instant>,
}

impl<'a> Progress<'a> {
    /// Announces the transfer of files with `total` bytes, of which `action` tells the direction, as in "fetching".
    pub(crate) fn start(say: fn(&str), action: &str, url: &impl Display, files: usize, total: u64) -> Self {
        let noun = if files == 1 { "file" } else { "files" };
        let what = format!("{action} {url} ({files} {noun}, {:.1} MB)", total as f64 / 1e6);
        say(&what);
        let now = Instant::now();
        Self { say, lock: None, what, total, done: Cell::new(0), start: now, shown: Cell::new(now) }
    }

    /// Sets the lock for which other processes may wait.
    pub(crate) fn with_lock(self, lock: &'a File) -> Self {
        Self { lock: Some(lock), ..self }
    }

    /// Counts bytes that were transferred.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
        if self.shown.get().elapsed() >= PROGRESS_INTERVAL {
            self.shown.set(Instant::now());
            if let Some(lock) = self.lock {
                show_progress(lock);
            }
            (self.say)(&format!("{}: {} %", self.what, self.done.get() * 100 / self.total.max(1)));
        }
    }

    /// Reports the end of the transfer.
    pub(crate) fn finish(&self) {
        (self.say)(&format!("{}: done in {:.1} s", self.what, self.start.elapsed().as_secs_f64()));
    }
}

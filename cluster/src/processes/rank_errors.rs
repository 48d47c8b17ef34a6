//! The errors of a node's ranks, which their parent prints once.
//!
//! Ranks often fail together: by the same wrong file, or one by its own error and the others because of it. A rank
//! passes its last error to its parent by a pipe instead of printing it. The parent prints each error of a rank's own
//! once, and an error that another rank caused only if no rank has an own one, such as after a kill.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};

use crate::processes::end_with_parent::SPAWNED;

/// The variable with the path of the pipe.
const ERROR_PIPE: &str = "EDGECUT_ERROR_PIPE";
/// The most bytes of an error. A pipe takes as many without a reader.
const MAX_ERROR_LEN: usize = 32 << 10;
/// The first byte of an error that this rank caused, and of one that another rank caused.
const OWN: u8 = b'+';
const OTHERS: u8 = b'-';

/// Passes the error that ends this process to the parent, if [`LocalRanks::run`](crate::LocalRanks::run) started this
/// process. The parent prints it. `is_own` is false if another rank caused the error.
///
/// Returns false if there is no such parent, so that this process has to print the error.
pub fn report_to_parent(error: &str, is_own: bool) -> bool {
    let pipe = std::env::var_os(SPAWNED).and_then(|_| std::env::var_os(ERROR_PIPE));
    let Some(mut pipe) = pipe.and_then(|pipe| OpenOptions::new().write(true).open(pipe).ok()) else { return false };
    let error = &error[..error.floor_char_boundary(MAX_ERROR_LEN)];
    let mut message = vec![if is_own { OWN } else { OTHERS }];
    message.extend(error.as_bytes());
    pipe.write_all(&message).is_ok()
}

/// The error on which a rank has ended.
pub(super) struct RankError {
    is_own: bool,
    text: String,
}

/// The end of a rank's pipe in the parent.
pub(super) struct ErrorPipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl ErrorPipe {
    /// Makes a pipe, whose other end the process of `command` inherits.
    pub(super) fn new(command: &mut Command) -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        fcntl_setfd(&writer, FdFlags::empty())?;
        ioctl_fionbio(&reader, true)?;
        command.env(ERROR_PIPE, format!("/proc/self/fd/{}", writer.as_raw_fd()));
        Ok(Self { reader, writer })
    }

    /// Closes the end of the process, once that is started. Later processes do not inherit it.
    pub(super) fn started(self) -> PipeReader {
        drop(self.writer);
        self.reader
    }
}

/// Reads the error of a rank that has ended. Waits for nothing.
pub(super) fn error_in(mut pipe: PipeReader) -> Option<RankError> {
    let mut message = Vec::new();
    // A process that the rank has left behind may hold the pipe open; what was written is read all the same.
    let _ = pipe.read_to_end(&mut message);
    let (&kind, text) = message.split_first()?;
    Some(RankError { is_own: kind == OWN, text: String::from_utf8_lossy(text).into_owned() })
}

/// The errors that were printed, or may have to be.
#[derive(Default)]
pub(super) struct RankErrors {
    printed: Vec<String>,
    of_other_ranks: Option<String>,
}

impl RankErrors {
    /// Prints an error of a rank's own, unless another rank has ended on the same one.
    pub(super) fn add(&mut self, rank: usize, error: RankError, notice: impl Fn(&str)) {
        if !error.is_own {
            self.of_other_ranks.get_or_insert(error.text);
            return;
        }
        // The text of a job on several machines starts with the rank and its host.
        let of_rank = error.text.strip_prefix(&format!("rank {rank}"));
        let without_rank =
            of_rank.and_then(|text| text.split_once(": ")).map_or(&*error.text, |(_, why)| why).to_owned();
        if !self.printed.contains(&without_rank) {
            notice(&format!("error: {}", error.text));
            self.printed.push(without_rank);
        }
    }

    /// Prints an error that another rank caused, if that one has reported none.
    pub(super) fn finish(self, notice: impl Fn(&str)) {
        if let Some(text) = self.of_other_ranks.filter(|_| self.printed.is_empty()) {
            notice(&format!("error: {text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Returns the lines that a parent prints for errors of ranks, each with true if it is the rank's own.
    fn printed(errors: &[(usize, bool, &str)]) -> Vec<String> {
        let lines = RefCell::new(Vec::new());
        let mut found = RankErrors::default();
        for &(rank, is_own, text) in errors {
            found.add(rank, RankError { is_own, text: text.to_owned() }, |line| {
                lines.borrow_mut().push(line.to_owned())
            });
        }
        found.finish(|line| lines.borrow_mut().push(line.to_owned()));
        lines.into_inner()
    }

    #[test]
    fn equal_errors_are_printed_once_and_effects_only_without_a_cause() {
        let same = [(1, true, "rank 1: no such file"), (0, true, "rank 0: no such file")];
        assert_eq!(printed(&same), ["error: rank 1: no such file"]);
        let on_hosts = [(5, true, "rank 5 on a: no such file"), (4, true, "rank 4 on a: no such file")];
        assert_eq!(printed(&on_hosts), ["error: rank 5 on a: no such file"]);
        let effect = (1, false, "rank 1: rank 0 at 127.0.0.1:5 failed: no such file");
        assert_eq!(printed(&[effect, (0, true, "rank 0: no such file")]), ["error: rank 0: no such file"]);
        let killed = [(0, false, "rank 0: rank 1 failed"), (2, false, "rank 2: rank 1 failed")];
        assert_eq!(printed(&killed), ["error: rank 0: rank 1 failed"]);
        let different = [(0, true, "rank 0: a is missing"), (1, true, "rank 1: b is missing")];
        assert_eq!(printed(&different), ["error: rank 0: a is missing", "error: rank 1: b is missing"]);
    }
}

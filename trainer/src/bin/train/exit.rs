//! Exit statuses, and the errors that have one of their own.

pub(crate) use edgecut_cluster::OTHER_RANK_FAILED;
use edgecut_cluster::RanksEnd;
use std::fmt;
use std::os::unix::process::ExitStatusExt;

/// An error of this process.
pub(crate) const ERROR: u8 = 1;
/// Flags that are wrong or contradict each other.
pub(crate) const USAGE: u8 = 2;
/// An interrupt ended the program.
pub(crate) const INTERRUPTED: u8 = 130;

/// Flags that contradict each other.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

/// An error that another rank is the cause of.
#[derive(Debug)]
pub(crate) struct OtherRankFailed(pub(crate) String);

/// The exit status that `error` means.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error {
        error if error.is::<OtherRankFailed>() => OTHER_RANK_FAILED,
        error if error.is::<UsageError>() => USAGE,
        _ => ERROR,
    }
}

/// The exit status of a process whose ranks have ended so.
pub(crate) fn code_of_ranks(end: RanksEnd) -> u8 {
    match end {
        RanksEnd::Done => 0,
        RanksEnd::Interrupted => INTERRUPTED,
        RanksEnd::Failed { status, .. } => {
            let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
            u8::try_from(code).unwrap_or(1)
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl fmt::Display for OtherRankFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OtherRankFailed {}

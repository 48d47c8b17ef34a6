//! Exit statuses, and the errors that have one of their own.

use std::fmt;

/// An error of this process.
pub(crate) const ERROR: u8 = 1;
/// Flags that are wrong or contradict each other.
pub(crate) const USAGE: u8 = 2;
/// Another rank failed; the error names it.
pub(crate) const OTHER_RANK_FAILED: u8 = 3;
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

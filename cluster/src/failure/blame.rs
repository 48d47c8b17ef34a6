//! The attribution of an error to this process or to another rank.

use crate::say::say;

/// The exit status of a rank that ends because another rank failed. Such a rank is not the cause of a failure, even if
/// it ends first.
pub const OTHER_RANK_FAILED: u8 = 3;

/// The origin of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame<E> {
    /// The error is this process's own. It has been reported to the other ranks.
    Own(E),
    /// The cause is another rank, or the connection between two ranks. The text names that failure and its effect on
    /// this process.
    Other(String),
}

/// Prints an error of this process.
pub(crate) fn say_error(error: &str) {
    // Without standard error, the exit status still shows the failure.
    say(&format!("error: {error}"));
}

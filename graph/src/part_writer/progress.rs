//! Progress and cancellation of writing.

use crate::GraphError;
use thiserror::Error;

/// An observer of writing. All methods have defaults, and `()` is an observer that ignores progress.
pub trait WriteProgress: Sync {
    /// Called when `done` of `total` bytes are written, from several threads.
    fn written(&self, _done: u64, _total: u64) {}

    /// Returns true if writing should stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

impl WriteProgress for () {}

/// An error while writing parts.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The dataset is inconsistent, or a file could not be written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The caller's [`WriteProgress`] cancelled the writing.
    #[error("stopped while writing parts")]
    Cancelled,
}

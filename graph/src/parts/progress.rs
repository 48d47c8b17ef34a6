//! How a caller watches and stops writing.

use crate::GraphError;
use thiserror::Error;

/// A caller's view of writing. All methods have defaults, and `()` is a `WriteProgress` that shows nothing.
pub trait WriteProgress: Sync {
    /// Of `total` bytes `done` are written. Called from several threads.
    fn written(&self, _done: u64, _total: u64) {}

    /// Whether to stop. Asked often.
    fn cancelled(&self) -> bool {
        false
    }
}

impl WriteProgress for () {}

/// Why parts were not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The dataset is wrong, or a file could not be written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The caller's [`WriteProgress`] asked to stop.
    #[error("stopped while writing parts")]
    Cancelled,
}

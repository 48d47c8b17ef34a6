//! The turns of threads to use burn's autodiff.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock of the thread that uses autodiff.
static TURN: Mutex<()> = Mutex::new(());

/// The turn of a thread to run a forward pass and its backward pass.
///
/// In burn 0.21, the backward pass of one thread removes steps from the graphs that other threads of the process are
/// building, and some of their gradients are lost without an error (<https://github.com/tracel-ai/burn/issues/5573>).
/// Ranks that are threads of one process therefore take turns. With one rank per process, no thread waits.
pub(crate) struct AutodiffTurn {
    _turn: MutexGuard<'static, ()>,
}

impl AutodiffTurn {
    /// Waits for the turn. It lasts until the value is dropped, which must be before any collective.
    pub(crate) fn take() -> Self {
        Self { _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

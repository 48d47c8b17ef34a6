//! Waits that Ctrl-C ends.

use crate::errors::EdgecutError;
use crate::fork_guard::enter;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The time between two checks for signals during a wait.
pub(crate) const SIGNALS: Duration = Duration::from_millis(50);

/// Runs `work` on a thread and waits for it, but not in a forked process, which is an error. If a signal handler of Python raises an exception, the wait ends with it. The
/// thread then ends at the deadline of its own waits.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    enter()?;
    let (sender, receiver) = sync_channel(1);
    let run = move || {
        // Without a receiver the wait was interrupted.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("edgecut wait".into()).spawn(run)?;
    let receiver = Mutex::new(receiver);
    loop {
        match py.detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(EdgecutError::new_err("a thread has panicked, see its message above"));
            }
        }
    }
}

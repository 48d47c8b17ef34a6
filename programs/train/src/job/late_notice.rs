//! Lines about what takes long.

use edgecut_cli::message;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time until the line is printed.
const NOTICE_AFTER: Duration = Duration::from_secs(5);

/// Prints a line if it still exists after some seconds.
pub(crate) struct LateNotice {
    /// Hangs up when the notice is dropped.
    _done: Sender<()>,
}

impl LateNotice {
    pub(crate) fn new(line: String) -> Self {
        let (done, is_done) = channel::<()>();
        std::thread::spawn(move || {
            if is_done.recv_timeout(NOTICE_AFTER) == Err(RecvTimeoutError::Timeout) {
                message!("{line}");
            }
        });
        Self { _done: done }
    }
}

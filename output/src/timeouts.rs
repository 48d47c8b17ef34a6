//! The timeouts and intervals of this crate.

use std::time::Duration;

/// The time for which a job waits for a folder of an earlier job, which may be about to end.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two attempts to lock a folder.
pub(crate) const LOCK_INTERVAL: Duration = Duration::from_millis(50);

//! The timeouts and intervals of this crate.

use std::time::Duration;

/// The time for which a job waits for a folder of an earlier job, which may be about to end.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a job on another machine. If that machine is lost, a file server may keep its locks for two minutes.
pub(crate) const LOST_LOCK_TIMEOUT: Duration = Duration::from_secs(180);
/// The time between two attempts to lock a folder.
pub(crate) const LOCK_INTERVAL: Duration = Duration::from_millis(50);

//! All timeouts and intervals of this crate.

use std::time::Duration;

/// The time between two lines about the progress.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The time in which a request and its answer must be complete.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses before a request is sent again.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

//! All timeouts and intervals of this crate.

use std::time::Duration;

/// The time between two lines about the progress, and between two signs of progress for processes that wait for a lock.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The time in which a request and its answer must be complete.
#[cfg(feature = "clouds")]
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
#[cfg(feature = "clouds")]
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses before a request is sent again.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The time in which a failed request is sent again. Longer than [`REQUEST_TIMEOUT`], so that a request without an answer is sent
/// again too.
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(300);

/// The time without progress after which a process gives up waiting for another one that fetches. Longer than all retries of a
/// request, after which the other one ends.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// The time that the processes of an earlier job have to end before this one writes its outputs.
pub(crate) const OUTPUTS_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const LOCK_POLL: Duration = Duration::from_millis(100);
/// The time between two looks of a process for what the first process of its machine fetches.
pub(crate) const MIRROR_POLL: Duration = Duration::from_millis(500);

//! All timeouts and intervals of sampling servers.

use std::time::Duration;

/// The interval at which a server that ends looks whether requests are still in progress.
pub(crate) const SHUTDOWN_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The time for the network threads to hand the last replies to the system.
pub(crate) const LAST_REPLIES_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest that readiness waits for answers of the other servers.
pub(crate) const READINESS_TIMEOUT: Duration = Duration::from_millis(900);

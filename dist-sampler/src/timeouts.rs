//! All timeouts and intervals of requests between processes and to servers.

use std::time::Duration;

/// The longest deadline of a request. Longer deadlines are shortened, on the client and on the server.
pub(crate) const MAX_RPC_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The extra wait after a request's deadline, so that tarpc's own deadline error comes first.
pub(crate) const DEADLINE_EXTRA_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after the first failed attempt. It doubles with each further attempt.
pub(crate) const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(50);
pub(crate) const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest that a description waits for connections to the other servers.
pub(crate) const SERVER_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time before the deadline of a client's batch at which a server names the servers for which it waits.
/// Otherwise the client would blame this server.
pub(crate) const BLAME_LEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest time for a description to arrive: more than the wait for connections to the other servers.
pub(crate) const MIN_DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(4);
/// The pause before a server is asked again that still waits for the others.
pub(crate) const DESCRIPTION_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The time after which a gather on a network thread leaves the other rows of its piece to a worker, if it has waited for the
/// disk. A piece that is in memory takes less than a tenth of it.
pub(crate) const MAX_NETWORK_GATHER_TIMEOUT: Duration = Duration::from_millis(1);

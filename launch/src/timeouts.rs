//! All timeouts and intervals of the launcher and its agents.

use std::time::Duration;

/// The time that a node has to end the processes that a lost agent has left.
pub(crate) const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two signs of life, in both directions.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// The default of `--silence`: the time without a sign of life after which the other side counts as gone.
pub(crate) const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);
/// The default of `--grace`: the time between asking processes to end and killing them.
pub(crate) const TERMINATION_TIMEOUT: Duration = Duration::from_secs(3);
/// The time until the first line of the other side, including the connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time without output and without progress after which a transfer fails.
pub(crate) const TRANSFER_STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// The interval at which progress is checked.
pub(crate) const TRANSFER_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The time for `ssh` to report why it ends.
pub(crate) const SSH_REASON_TIMEOUT: Duration = Duration::from_millis(500);
/// The time that a connection to the master's port may take.
pub(crate) const PORT_PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// The pause after a connection to the held port that could not be accepted.
pub(crate) const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The time that the rest of an ended rank's process group has to end by itself. It may be writing the last lines.
pub(crate) const PROCESS_GROUP_TIMEOUT: Duration = Duration::from_millis(500);
/// The silence after which an ended rank's output is complete, even if another process still holds it open.
pub(crate) const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// The same if another process keeps writing: by then, everything that the rank wrote before it ended has been read.
pub(crate) const FOREIGN_OUTPUT_TIMEOUT: Duration = Duration::from_secs(3);
/// The time that a killed process has to disappear.
pub(crate) const REAP_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two reports that the receiver works.
pub(crate) const PROGRESS_REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// The time for writing the last reports.
pub(crate) const LAST_REPORTS_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that a node has for its checks: a checksum of the program, the sizes of files, a connection.
pub(crate) const NODE_CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which clocks are checked.
pub(crate) const CLOCK_INTERVAL: Duration = Duration::from_millis(200);
/// The pause before a job is restarted.
pub(crate) const JOB_RESTART_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after the loss of a node, in addition to the silence and the grace period, after which the node has ended
/// its processes.
pub(crate) const NODE_LOSS_INTERVAL: Duration = Duration::from_secs(2);
/// The time for which a restart retries the checks: processes of the last attempt may still hold the master's port.
pub(crate) const RESTART_CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that a lost node has to come back before a restart goes on without it.
pub(crate) const NODE_RETURN_TIMEOUT: Duration = Duration::from_secs(15);
/// The time to wait for a blocked terminal.
pub(crate) const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(5);
/// The time in which the other ranks may end by themselves after the first failure. They report what they know of it.
pub(crate) const OTHER_RANKS_TIMEOUT: Duration = Duration::from_secs(3);
/// The time for a stopped node's reports, in addition to the grace period of its processes.
pub(crate) const REPORT_TIMEOUT: Duration = HEARTBEAT_TIMEOUT;
/// The time after a standstill of this program within which a lost connection is blamed on it. `ssh` takes some seconds
/// to notice.
pub(crate) const STANDSTILL_BLAME_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause before a server is started again.
pub(crate) const SERVER_RESTART_INTERVAL: Duration = Duration::from_secs(1);

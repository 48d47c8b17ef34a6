//! All timeouts and intervals of the job: joining, heartbeats, collectives and the end.

use std::time::Duration;

/// The duration from which a wait is recorded, for ranks that search for the one that holds up a collective.
pub(crate) const RECORDED_WAIT: Duration = Duration::from_millis(50);
/// The time for which a waiting rank polls before it sleeps: about the time to wake up a thread, and far more than a
/// neighbor needs that has reached the same collective. It yields its core to other threads between two polls.
pub(crate) const POLL_BEFORE_SLEEP_TIMEOUT: Duration = Duration::from_micros(50);
/// The interval at which a waiting collective checks whether the job has failed.
pub(crate) const FAILURE_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest interval of probes: the kernel counts in whole seconds.
pub(crate) const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time to deliver the last messages after a request to stop.
pub(crate) const LAST_MESSAGES_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval at which a waiting thread updates its stopwatch.
pub(crate) const STOPWATCH_INTERVAL: Duration = Duration::from_millis(500);
/// The time that the other ranks have to end by themselves after the first failure. Then they are asked to end: they may
/// wait for a rank that never joins. A rank whose thread is stuck ends by itself after 8 seconds.
pub(crate) const OTHER_RANKS_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that ranks have to end when they are asked to. Then they are killed.
pub(crate) const TERMINATION_TIMEOUT: Duration = Duration::from_secs(5);
/// The same time for ranks that store their state first.
pub(crate) const STORE_STATE_TIMEOUT: Duration = Duration::from_secs(300);
/// The most that the time between two looks adds to the total. Waiting loops look several times a second, so a longer
/// gap means that the process or the machine was suspended.
pub(crate) const MAX_COUNTED_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait of an error for the control plane to name its cause.
pub(crate) const VERDICT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that a process has to end by itself after a failure of the job. A process that is stuck is then ended.
pub(crate) const STUCK_PROCESS_TIMEOUT: Duration = Duration::from_secs(8);
/// The interval at which waiting threads check whether they should stop.
pub(crate) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest that a connection to a process of another version stays open, so that the peer can read the answer.
pub(crate) const VERSION_ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest that a connection to a rejected process of another user stays open, so that the peer can look up the
/// user of this end and report the reason itself.
pub(crate) const USER_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause before the next attempt to connect to a peer that has closed the connection.
pub(crate) const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after the first attempt to reach rank 0. It doubles with each further attempt. It is short, since the ranks of a
/// machine start together, and rank 0 may be some milliseconds behind.
pub(crate) const MIN_MASTER_RETRY_INTERVAL: Duration = Duration::from_millis(5);
pub(crate) const MAX_MASTER_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The longest plausible difference between the start times of a job's processes. A process that started earlier than
/// that, compared with rank 0 or with another process of its rank, may be left over from an earlier attempt.
pub(crate) const MAX_START_DIFFERENCE: Duration = Duration::from_secs(5);
/// The interval at which a thread that waits for room checks again.
pub(crate) const HANDSHAKE_ROOM_INTERVAL: Duration = Duration::from_millis(100);
/// The time for which rank 0 stays after a failed rendezvous, to tell the reason to ranks that come later.
pub(crate) const FAILED_RENDEZVOUS_TIMEOUT: Duration = Duration::from_secs(2);
/// The time by which other ranks wait longer than rank 0, so that the error of rank 0, which names the missing ranks,
/// comes first.
pub(crate) const JOIN_EXTRA_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval at which rank 0 checks that registered ranks are still connected.
pub(crate) const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time to send an answer to a rank.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest wait of a rank that has lost rank 0 for a connection to another rank, which may print the failure.
pub(crate) const PRINTER_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// The time for which a rank that prints the failure must stay, as others see it.
pub(crate) const PRINTER_STAYS: Duration = Duration::from_millis(500);
/// The time for which a rank stays after it has printed the failure: longer than [`PRINTER_STAYS`], since others may lose
/// rank 0 a little later.
pub(crate) const AFTER_PRINTING: Duration = Duration::from_secs(1);
/// The longest search of a rank that has lost rank 0 for another one that prints the failure. Then it prints it itself.
pub(crate) const PRINTER_SEARCH_TIMEOUT: Duration = Duration::from_secs(2);

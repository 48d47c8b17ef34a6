//! Detection of ranks that died, hang or cannot be reached, from the connections of the control thread.

use std::io;
use std::time::{Duration, Instant};

use crate::error::{Failure, seconds};
use crate::failure::control_thread::{ControlLoop, Heartbeat};

use crate::failure::heartbeat_connection::{ConnectionKind, HeartbeatConnection};
use crate::secure::is_modified;

/// The number of heartbeat intervals by which a rank waits longer for rank 0 than rank 0 waits for it. If the network
/// between the two is cut, rank 0 then decides first, and all ranks learn its verdict.
const GRACE_BEATS: u32 = 2;
/// The number of heartbeat intervals without data from a rank after which rank 0 blames that rank itself, if another
/// rank reports that the connection to it failed.
const MISSED_BEATS: u32 = 3;

impl ControlLoop {
    /// Returns the end of a failed connection that rank 0 does not hear from either, with a reason. The process at that
    /// end hangs or is unreachable for all ranks, so it is to blame and not the connection.
    pub(super) fn unheard_end(&self, failure: &Failure) -> Option<(usize, String)> {
        let other = failure.link_to?;
        let limit = self.heartbeat.interval * MISSED_BEATS;
        let now = Instant::now();
        [failure.rank, other].into_iter().find_map(|end| {
            let silence = self.controls().find(|connection| connection.rank == end && end != 0)?.silence(now);
            (silence > limit).then(|| (end, silent_rank(end, 0, silence)))
        })
    }

    /// Handles the end of a connection.
    pub(super) fn end_connection(&mut self, kind: ConnectionKind, rank: usize, error: &io::Error) {
        if is_modified(error) {
            // The other direction still works, and takes the news to the peer.
            self.lose_connection(rank, &error.to_string());
            self.flush();
        }
        self.connections.retain(|connection| connection.rank != rank || connection.kind != kind);
        if is_modified(error) {
            if kind == ConnectionKind::Control && !self.is_hub() {
                // This rank cannot hear the verdict of rank 0 any more.
                let actions = self.control_plane.on_lost_hub(&error.to_string());
                self.execute(actions);
            }
        } else if kind == ConnectionKind::Control {
            let actions = self.control_plane.on_lost(rank, death_notice(error));
            self.execute(actions);
        } else if is_cut(error) {
            self.lose_connection(rank, &format!("it ended with: {error}"));
        }
    }

    /// Reports that the network between this process and `rank` is cut.
    fn lose_connection(&mut self, rank: usize, reason: &str) {
        if let Some(failure) = self.control_plane.lost_connection(rank, reason) {
            self.report(failure);
        }
    }

    /// Returns the silence after which a connection counts as dead.
    pub(super) fn limit(&self, connection: &HeartbeatConnection) -> Duration {
        let Heartbeat { interval, timeout } = self.heartbeat;
        let waits_for_hub = connection.kind == ConnectionKind::Control && !self.is_hub();
        if waits_for_hub { timeout + interval * GRACE_BEATS } else { timeout }
    }

    pub(super) fn restart_clocks(&mut self, now: Instant) {
        for connection in &mut self.connections {
            connection.last_heard = now;
        }
    }

    /// Closes the connections that have been silent for too long, and reports them.
    pub(super) fn find_silent(&mut self, now: Instant) {
        let is_silent = |connection: &&HeartbeatConnection| connection.silence(now) >= self.limit(connection);
        let silent: Vec<_> =
            self.connections.iter().filter(is_silent).map(|connection| (connection.kind, connection.rank)).collect();
        let timeout = self.heartbeat.timeout;
        let own = self.control_plane.rank();
        for (kind, rank) in silent {
            self.connections.retain(|connection| connection.rank != rank || connection.kind != kind);
            if kind == ConnectionKind::Control {
                let actions = self.control_plane.on_lost(rank, silent_rank(rank, own, timeout));
                self.execute(actions);
            } else {
                let silence = seconds(timeout);
                self.lose_connection(rank, &format!("no data reached rank {own} from rank {rank} for {silence}"));
            }
        }
    }
}

/// Describes the silence of `rank`. The text names both ends, since a process that hangs and a cut connection look the
/// same.
fn silent_rank(rank: usize, heard_by: usize, silence: Duration) -> String {
    format!(
        "no sign of life for {}: no data reached rank {heard_by} from rank {rank}, so its process hangs or the network \
         between the two is cut",
        seconds(silence)
    )
}

/// Returns whether an error means that the network ended a connection, rather than the process at the other end.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

fn death_notice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "its process ended before the job was done".to_owned()
        }
        io::ErrorKind::InvalidData => format!("it sent a malformed control message: {error}"),
        _ => format!("its control connection broke: {error}"),
    }
}

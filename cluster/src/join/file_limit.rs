//! The limit of open files of this process, which is raised and checked before a job starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::ClusterConfig;
use crate::error::ClusterError;

/// The file descriptors that are reserved for connections of process groups, for files and for the runtimes of a rank.
const RESERVED: usize = 64;
/// The number of pulses between two ranks: one from each side.
const PULSES_PER_PEER: usize = 2;
/// The assumed number of open files if the system does not tell it.
const ASSUMED_OPEN: usize = 32;

/// Raises the soft limit of open files to the hard limit, and checks that it allows the connections of this rank.
///
/// # Errors
/// [`ClusterError::FileLimit`] with the number of open files that this rank needs.
pub(crate) fn reserve(config: &ClusterConfig) -> Result<(), ClusterError> {
    let limit = raise_to_hard_limit();
    if config.world_size == 1 {
        return Ok(());
    }
    let demand = Demand::of(config, count_open());
    if limit.is_none_or(|limit| demand.total() as u64 <= limit) {
        return Ok(());
    }
    Err(ClusterError::FileLimit { needed: demand.total(), limit: limit.unwrap_or(u64::MAX), parts: demand.to_string() })
}

/// The file descriptors that a rank needs.
struct Demand {
    // Files that are open already.
    open: usize,
    // Control connections.
    controls: usize,
    // Other ranks.
    peers: usize,
    streams_per_peer: usize,
}

impl Demand {
    fn of(config: &ClusterConfig, open: usize) -> Self {
        let peers = config.world_size - 1;
        let controls = if config.rank == 0 { peers } else { 1 };
        Self { open, controls, peers, streams_per_peer: config.streams_per_peer }
    }

    fn total(&self) -> usize {
        let streams = self.peers.saturating_mul(self.streams_per_peer.saturating_add(PULSES_PER_PEER));
        self.open.saturating_add(self.controls).saturating_add(streams).saturating_add(RESERVED)
    }
}

impl std::fmt::Display for Demand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { open, controls, peers, streams_per_peer } = self;
        write!(
            f,
            "{open} are open, {controls} for control connections, {streams_per_peer} streams and {PULSES_PER_PEER} \
             pulses for each of {peers} other ranks, {RESERVED} for process groups and files"
        )
    }
}

/// Raises the soft limit to the hard limit, if the system allows it. Returns the soft limit that then applies; `None`
/// for no limit.
fn raise_to_hard_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If the system does not allow this, the check uses the limit that still applies.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    soft_limit()
}

fn soft_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn count_open() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(ASSUMED_OPEN, |entries| entries.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(rank: usize, world_size: usize) -> usize {
        let mut config = ClusterConfig::new(rank, world_size, "localhost", 29_500);
        config.streams_per_peer = 3;
        Demand::of(&config, 10).total()
    }

    #[test]
    fn rank_0_needs_a_control_connection_from_each_other_rank() {
        assert_eq!(total(0, 101), 10 + 100 + 500 + RESERVED);
        assert_eq!(total(1, 101), 10 + 1 + 500 + RESERVED);
    }
}

//! Configuration of a sampler, and the limits on the network traffic of a process.

use crate::dialer::DialLimits;
use crate::num_neighbors::NumNeighbors;
use crate::rule::Temporal;
use crate::wire::WantedOfEdges;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The number of in-neighbors to draw per node in one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fanout {
    /// All in-neighbors, each once. Written `-1`.
    All,
    /// At most this many in-neighbors. At least 1.
    Count(u32),
}

impl FromStr for Fanout {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<i64>() {
            Ok(-1) => Ok(Self::All),
            Ok(count @ 1..=0x7fff_ffff) => Ok(Self::Count(count as u32)),
            _ => Err(format!("fan-out {text:?} must be -1 (all neighbors) or a number from 1 to 2147483647")),
        }
    }
}

impl Fanout {
    /// Returns the number of neighbors, or `None` for [`Fanout::All`].
    pub(crate) fn count(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Count(count) => Some(count),
        }
    }
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "-1"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// Parses a list such as `15,10,5`: one fan-out per hop, starting with the hop nearest to the seeds.
///
/// # Errors
/// A message that names the first invalid entry.
///
/// ```
/// use edgecut_dist_sampler::{Fanout, parse_num_neighbors};
/// assert_eq!(parse_num_neighbors("15,-1")?, [Fanout::Count(15), Fanout::All]);
/// assert!(parse_num_neighbors("15,,5").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn parse_num_neighbors(text: &str) -> Result<Vec<Fanout>, String> {
    text.split(',').map(str::parse).collect()
}

/// The configuration of a [`DistNeighborSampler`](crate::DistNeighborSampler).
///
/// ```
/// use edgecut_dist_sampler::{Fanout, SamplerConfig};
/// let config = SamplerConfig::new(vec![Fanout::Count(15), Fanout::Count(10)]).with_weights(true);
/// assert!(config.weighted && !config.replace);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Fan-outs by hop and edge type.
    pub num_neighbors: NumNeighbors,
    /// True to draw neighbors with replacement. A fan-out of [`Fanout::All`] takes each neighbor once either way.
    pub replace: bool,
    /// True to draw edges with probabilities in proportion to their weights. Without replacement, edges are drawn one
    /// after the other, each in proportion to its weight among the edges that are left. Edges of weight 0 are never
    /// drawn, not even by [`Fanout::All`].
    pub weighted: bool,
    /// The times that limit sampling: nothing later than the seed's time is drawn. `None` ignores times.
    pub temporal: Option<Temporal>,
    /// True to sample a separate neighborhood for each seed. A node in the neighborhoods of several seeds then appears
    /// once per seed. Temporal sampling is always disjoint, since each seed has its own time.
    pub disjoint: bool,
    /// The attributes to fetch for the sampled edges.
    pub edge_attributes: WantedOfEdges,
}

impl SamplerConfig {
    /// Returns a configuration that draws uniformly without replacement, from all times, with shared neighborhoods and
    /// without edge attributes.
    pub fn new(num_neighbors: impl Into<NumNeighbors>) -> Self {
        Self {
            num_neighbors: num_neighbors.into(),
            replace: false,
            weighted: false,
            temporal: None,
            disjoint: false,
            edge_attributes: WantedOfEdges::default(),
        }
    }

    /// Sets whether neighbors are drawn with replacement.
    pub fn with_replacement(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Sets whether edges are drawn by their weights.
    pub fn with_weights(mut self, weighted: bool) -> Self {
        self.weighted = weighted;
        self
    }

    /// Sets the times that limit sampling.
    pub fn with_times(mut self, temporal: Option<Temporal>) -> Self {
        self.temporal = temporal;
        self
    }

    /// Sets the attributes to fetch for the sampled edges.
    pub fn with_edge_attributes(mut self, edge_attributes: WantedOfEdges) -> Self {
        self.edge_attributes = edge_attributes;
        self
    }

    /// Sets whether each seed has a separate neighborhood.
    pub fn with_disjoint(mut self, disjoint: bool) -> Self {
        self.disjoint = disjoint;
        self
    }
}

/// The longest deadline of a request. Longer deadlines are shortened, on the client and on the server.
pub(crate) const MAX_RPC_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// CPU cores per network thread.
const CORES_PER_NETWORK_THREAD: usize = 16;
const MAX_NETWORK_THREADS: usize = 8;

/// The resources and limits of a process that samples and answers its peers.
#[derive(Clone, Debug)]
pub struct SamplingNodeConfig {
    /// Threads that sample and gather for this process's batches and its peers' requests. Default: all cores.
    pub num_workers: usize,
    /// Network threads. One thread carries about 3 GB/s. More threads than needed cost extra wake-ups. Default:
    /// [`SamplingNodeConfig::network_threads_of`] all cores.
    pub num_network_threads: usize,
    /// The longest wait for one reply, in milliseconds, at most one day. Default: 60 000.
    pub rpc_timeout_ms: u64,
    /// The largest reply in bytes. A hop with a larger reply is requested in pieces. Default: 64 MiB.
    pub max_message_bytes: usize,
    /// The size of the chunks of feature replies, in bytes. Default: 2 MiB.
    pub fetch_chunk_bytes: usize,
    /// The most feature bytes in flight from one peer, and the most gradient bytes in flight to one peer. Default: 16
    /// MiB.
    pub max_bytes_in_flight: usize,
    /// The time for all attempts to open one connection to a peer, in milliseconds. An error is reported at most 3 s
    /// later. Default: 12 000.
    pub connect_budget_ms: u64,
    /// The time for which an unreachable peer is not tried again, in milliseconds. Default: 30 000.
    pub failed_peer_memory_ms: u64,
    /// The most connections that this process opens at the same time. Default: 8.
    pub max_connecting: usize,
    /// The most requests of one connection that run or whose replies wait to be sent. Further requests wait. Default:
    /// 16.
    pub max_working_requests: usize,
    /// The most requests of one connection that wait, either to run or for a version of an embedding. Further requests
    /// are refused. Default: 4096, four times what a peer of this implementation sends.
    pub max_waiting_requests: usize,
    /// The most bytes of waiting requests of one connection. Further requests are refused. Default: 1 GiB.
    pub max_waiting_request_bytes: usize,
    /// Memory for sorted copies of the in-neighbors of hubs, in bytes. Edge lookups search these copies instead of
    /// scanning all in-neighbors. Default: 256 MiB.
    pub max_hub_index_bytes: usize,
}

impl Default for SamplingNodeConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            num_workers: cores,
            num_network_threads: Self::network_threads_of(cores),
            rpc_timeout_ms: 60_000,
            max_message_bytes: 64 << 20,
            fetch_chunk_bytes: 2 << 20,
            max_bytes_in_flight: 16 << 20,
            connect_budget_ms: 12_000,
            failed_peer_memory_ms: 30_000,
            max_connecting: 8,
            max_working_requests: 16,
            max_waiting_requests: 4096,
            max_waiting_request_bytes: 1 << 30,
            max_hub_index_bytes: 256 << 20,
        }
    }
}

impl SamplingNodeConfig {
    /// Returns the number of network threads for a process with `cores` CPU cores: one per 16 cores, rounded up, at
    /// most 8.
    ///
    /// ```
    /// use edgecut_dist_sampler::SamplingNodeConfig;
    /// assert_eq!([1, 16, 17, 64, 4096].map(SamplingNodeConfig::network_threads_of), [1, 1, 2, 4, 8]);
    /// ```
    pub fn network_threads_of(cores: usize) -> usize {
        cores.div_ceil(CORES_PER_NETWORK_THREAD).clamp(1, MAX_NETWORK_THREADS)
    }

    pub(crate) fn rpc_timeout(&self) -> Duration {
        Duration::from_millis(self.rpc_timeout_ms).min(MAX_RPC_TIMEOUT)
    }

    pub(crate) fn dial_limits(&self) -> DialLimits {
        DialLimits {
            budget: Duration::from_millis(self.connect_budget_ms).min(MAX_RPC_TIMEOUT),
            failure_memory: Duration::from_millis(self.failed_peer_memory_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_fan_outs_that_mean_nothing() {
        for text in ["", "0", "-2", "a", "15,", "1.5", "99999999999"] {
            assert!(parse_num_neighbors(text).is_err(), "{text:?}");
        }
    }
}

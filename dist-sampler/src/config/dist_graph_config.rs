//! The resources of a process that samples, and the limits on its network traffic.

use crate::timeouts::MAX_RPC_TIMEOUT;
use std::time::Duration;

/// CPU cores per network thread.
const CORES_PER_NETWORK_THREAD: usize = 16;
const MAX_NETWORK_THREADS: usize = 8;

/// The resources and limits of a process that samples and answers its peers.
#[derive(Clone, Debug)]
pub struct DistGraphConfig {
    /// Threads that sample and gather for this process's batches and its peers' requests. Default: all cores.
    pub num_workers: usize,
    /// Network threads. One thread carries about 3 GB/s. More threads than needed cost extra wake-ups. Default:
    /// [`DistGraphConfig::network_threads_of`] all cores.
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
    /// The most batches that a server samples at the same time for one client, or whose replies wait to be sent to it.
    /// Further ones wait. Clients thus get equal shares of a busy server. Default: 4.
    pub max_client_batches: usize,
    /// The most requests of one connection that wait, either to run or for a version of an embedding. Further requests
    /// are refused. Default: 4096, four times what a peer of this implementation sends.
    pub max_waiting_requests: usize,
    /// The most bytes of waiting requests of one connection. Further requests are refused. Default: 1 GiB.
    pub max_waiting_request_bytes: usize,
    /// Memory for sorted copies of the in-neighbors of hubs, in bytes. Edge lookups search these copies instead of
    /// scanning all in-neighbors. Default: 256 MiB.
    pub max_hub_index_bytes: usize,
}

impl Default for DistGraphConfig {
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
            max_client_batches: 4,
            max_waiting_requests: 4096,
            max_waiting_request_bytes: 1 << 30,
            max_hub_index_bytes: 256 << 20,
        }
    }
}

impl DistGraphConfig {
    /// Returns the number of network threads for a process with `cores` CPU cores: one per 16 cores, rounded up, at
    /// most 8.
    pub fn network_threads_of(cores: usize) -> usize {
        cores.div_ceil(CORES_PER_NETWORK_THREAD).clamp(1, MAX_NETWORK_THREADS)
    }

    pub(crate) fn rpc_timeout(&self) -> Duration {
        Duration::from_millis(self.rpc_timeout_ms).min(MAX_RPC_TIMEOUT)
    }
}

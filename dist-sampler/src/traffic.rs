//! Counters of the network traffic for this process's batches.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals since the process started.
#[derive(Debug, Default)]
pub struct Traffic {
    pub(crate) nodes: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) requests: AtomicU64,
}

/// A snapshot of the totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Nodes whose features were fetched from another part, counted once per batch.
    pub remote_nodes: u64,
    /// Bytes of payload received from other parts.
    pub remote_bytes: u64,
    /// Requests sent to other parts.
    pub requests: u64,
}

impl Traffic {
    /// Returns the current totals.
    pub fn count(&self) -> TrafficCount {
        TrafficCount {
            remote_nodes: self.nodes.load(Ordering::Relaxed),
            remote_bytes: self.bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}

impl std::ops::Sub for TrafficCount {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self {
            remote_nodes: self.remote_nodes - before.remote_nodes,
            remote_bytes: self.remote_bytes - before.remote_bytes,
            requests: self.requests - before.requests,
        }
    }
}

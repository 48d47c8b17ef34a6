//! The cluster to predict for.

use serde::Serialize;

/// A cluster of equal nodes, with a rank and a part on each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClusterShape {
    /// The number of nodes.
    pub nodes: usize,
    /// The cores of a node, or a share of one core.
    pub cores: f64,
    /// The bandwidth of each link, in each direction.
    pub gbit_per_second: f64,
    /// The microseconds that a byte takes from one node to another.
    pub delay_us: f64,
    /// The number of batches that a rank makes at the same time, ahead of its steps. 0 makes each batch when it is needed.
    pub batches_ahead: usize,
    /// The fraction of neighbors that are in another part, if the graph is also partitioned into as many parts as there are
    /// nodes; `None` if it is to be estimated.
    pub remote_neighbors: Option<f64>,
    /// The memory of a node; `None` if it is not to be compared.
    pub memory_bytes: Option<u64>,
}

/// The bytes of a full Ethernet frame on the wire, and the bytes of data that it carries over TCP with timestamps.
const FRAME_BYTES: f64 = 1538.0;
const DATA_BYTES: f64 = 1448.0;
/// The time in which the software of two ranks handles an empty message.
const MESSAGE_SECONDS: f64 = 50e-6;

impl ClusterShape {
    /// Returns the time in which a link transfers the frames of `bytes` bytes of data.
    pub(super) fn transfer_seconds(&self, bytes: f64) -> f64 {
        bytes * (FRAME_BYTES / DATA_BYTES) * 8.0 / (self.gbit_per_second * 1e9)
    }

    /// Returns the time of an empty message.
    pub(super) fn message_seconds(&self) -> f64 {
        self.delay_us * 1e-6 + MESSAGE_SECONDS
    }
}

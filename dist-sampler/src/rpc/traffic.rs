//! Counters of the network traffic for this process's batches.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Totals since the process started.
#[derive(Debug)]
pub struct Traffic {
    /// By rank.
    peers: Vec<OfPeer>,
    /// By node type.
    features: Vec<OfNodeType>,
    /// By edge type.
    hops: Vec<OfEdgeType>,
    /// Requests for attributes of nodes.
    fetches: AtomicU64,
    /// Batches that were taken from a loader.
    taken_batches: AtomicU64,
    /// The sum, over these batches, of the finished batches that waited then.
    ready_batches: AtomicU64,
}

/// The requests to one rank.
#[derive(Debug, Default)]
struct OfPeer {
    requests: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    wait_nanos: AtomicU64,
}

/// The features of nodes of one type.
#[derive(Debug, Default)]
struct OfNodeType {
    read_nodes: AtomicU64,
    read_bytes: AtomicU64,
    fetched_nodes: AtomicU64,
    shared_nodes: AtomicU64,
    cached_nodes: AtomicU64,
    cached_bytes: AtomicU64,
}

/// The in-edges of other parts' nodes of one type.
#[derive(Debug, Default)]
struct OfEdgeType {
    expanded_nodes: AtomicU64,
    drawn_edges: AtomicU64,
}

/// A snapshot of the totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Nodes whose features batches have read, from any part, counted once per batch.
    pub read_nodes: u64,
    /// The bytes of these features in the memory of batches.
    pub read_bytes: u64,
    /// Nodes of other parts whose features came over the network, counted once per batch.
    pub remote_nodes: u64,
    /// The part of these nodes whose features came with the reply to another batch.
    pub shared_nodes: u64,
    /// Bytes of payload received from other parts.
    pub remote_bytes: u64,
    /// Bytes of payload sent with requests to other parts.
    pub sent_bytes: u64,
    /// Requests sent to other parts.
    pub requests: u64,
    /// The part of these requests that asks for attributes of nodes.
    pub fetches: u64,
    /// Nodes of other parts whose features came from the cache of this machine, counted once per batch.
    pub cached_nodes: u64,
    /// Bytes of these features, as they would have been received.
    pub cached_bytes: u64,
    /// Batches that were taken from loaders that make them ahead.
    pub taken_batches: u64,
    /// The sum, over these batches, of the finished batches that waited when they were taken, at most 2 each.
    pub ready_batches: u64,
}

impl TrafficCount {
    /// Returns the mean number of finished batches that waited when one was taken. `None` if none was taken.
    pub fn queue_depth(&self) -> Option<f64> {
        (self.taken_batches > 0).then(|| self.ready_batches as f64 / self.taken_batches as f64)
    }
}

/// The requests of this process to one rank, and their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerTraffic {
    /// The rank that answered.
    pub peer: usize,
    /// The number of requests.
    pub requests: u64,
    /// Bytes of payload sent: ids of nodes and gradients.
    pub sent_bytes: u64,
    /// Bytes of payload received: neighbors and attributes.
    pub received_bytes: u64,
    /// The sum of the seconds between requests and their replies. Requests in flight at the same time are all counted.
    pub wait_seconds: f64,
}

/// The origin of the features of other parts' nodes of one type. A node counts once per batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureTraffic {
    /// Nodes whose features were fetched from their owners for this batch.
    pub fetched_nodes: u64,
    /// Nodes whose features came with the reply to another batch, which had requested them already.
    pub shared_nodes: u64,
    /// Nodes whose features came from the cache of this machine.
    pub cached_nodes: u64,
    /// Bytes of these cached features, as they would have been received.
    pub cached_bytes: u64,
}

/// The in-edges of one type that other processes drew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeTraffic {
    /// Nodes whose in-edges were requested. A node counts once per batch and edge type.
    pub expanded_nodes: u64,
    /// In-edges that were received.
    pub drawn_edges: u64,
}

impl Traffic {
    pub(crate) fn new(num_peers: usize, num_node_types: usize, num_edge_types: usize) -> Self {
        Self {
            peers: (0..num_peers).map(|_| OfPeer::default()).collect(),
            features: (0..num_node_types).map(|_| OfNodeType::default()).collect(),
            hops: (0..num_edge_types).map(|_| OfEdgeType::default()).collect(),
            fetches: AtomicU64::default(),
            taken_batches: AtomicU64::default(),
            ready_batches: AtomicU64::default(),
        }
    }

    /// Counts a batch that a trainer takes from its loader, while `ready` finished batches wait. Loaders call this.
    pub fn count_taken(&self, ready: usize) {
        add(&self.taken_batches, 1);
        add(&self.ready_batches, ready as u64);
    }

    /// Counts nodes whose in-edges of a type another process has drawn.
    pub(crate) fn count_edges(&self, edge_type: usize, nodes: usize, edges: usize) {
        add(&self.hops[edge_type].expanded_nodes, nodes as u64);
        add(&self.hops[edge_type].drawn_edges, edges as u64);
    }

    /// Counts a request to a rank, and the payload that it carries.
    pub(crate) fn count_request(&self, rank: usize, bytes: usize) {
        add(&self.peers[rank].requests, 1);
        add(&self.peers[rank].sent_bytes, bytes as u64);
    }

    /// Counts a reply: its payload, and the time since its request.
    pub(crate) fn count_reply(&self, rank: usize, bytes: usize, wait: Duration) {
        add(&self.peers[rank].received_bytes, bytes as u64);
        add(&self.peers[rank].wait_nanos, wait.as_nanos() as u64);
    }

    /// Counts nodes whose features a batch reads, and the bytes of these features in its memory.
    pub(crate) fn count_read(&self, node_type: usize, nodes: usize, bytes: usize) {
        add(&self.features[node_type].read_nodes, nodes as u64);
        add(&self.features[node_type].read_bytes, bytes as u64);
    }

    /// Counts a request for attributes of nodes, which also counts as a request to a rank.
    pub(crate) fn count_fetch(&self) {
        add(&self.fetches, 1);
    }

    /// Counts nodes whose features are fetched from another part.
    pub(crate) fn count_fetched(&self, node_type: usize, nodes: usize) {
        add(&self.features[node_type].fetched_nodes, nodes as u64);
    }

    /// Counts nodes whose features another batch has requested.
    pub(crate) fn count_shared(&self, node_type: usize, nodes: usize) {
        add(&self.features[node_type].shared_nodes, nodes as u64);
    }

    /// Counts nodes of other parts whose features come from the cache, and their bytes.
    pub(crate) fn count_cached(&self, node_type: usize, nodes: usize, bytes: usize) {
        add(&self.features[node_type].cached_nodes, nodes as u64);
        add(&self.features[node_type].cached_bytes, bytes as u64);
    }

    /// Returns the current totals over all peers and node types.
    pub fn count(&self) -> TrafficCount {
        let mut count = TrafficCount {
            fetches: get(&self.fetches),
            taken_batches: get(&self.taken_batches),
            ready_batches: get(&self.ready_batches),
            ..TrafficCount::default()
        };
        for peer in &self.peers {
            count.remote_bytes += get(&peer.received_bytes);
            count.sent_bytes += get(&peer.sent_bytes);
            count.requests += get(&peer.requests);
        }
        for features in &self.features {
            count.read_nodes += get(&features.read_nodes);
            count.read_bytes += get(&features.read_bytes);
        }
        for features in self.by_node_type() {
            count.remote_nodes += features.fetched_nodes + features.shared_nodes;
            count.shared_nodes += features.shared_nodes;
            count.cached_nodes += features.cached_nodes;
            count.cached_bytes += features.cached_bytes;
        }
        count
    }

    /// Returns the totals of each rank that this process has sent requests to.
    pub fn by_peer(&self) -> Vec<PeerTraffic> {
        let count = |(peer, of_peer): (usize, &OfPeer)| PeerTraffic {
            peer,
            requests: get(&of_peer.requests),
            sent_bytes: get(&of_peer.sent_bytes),
            received_bytes: get(&of_peer.received_bytes),
            wait_seconds: Duration::from_nanos(get(&of_peer.wait_nanos)).as_secs_f64(),
        };
        self.peers.iter().enumerate().map(count).filter(|count| count.requests > 0).collect()
    }

    /// Returns the totals of each edge type.
    pub fn by_edge_type(&self) -> Vec<EdgeTraffic> {
        let count = |of_type: &OfEdgeType| EdgeTraffic {
            expanded_nodes: get(&of_type.expanded_nodes),
            drawn_edges: get(&of_type.drawn_edges),
        };
        self.hops.iter().map(count).collect()
    }

    /// Returns the totals of each node type.
    pub fn by_node_type(&self) -> Vec<FeatureTraffic> {
        let count = |of_type: &OfNodeType| FeatureTraffic {
            fetched_nodes: get(&of_type.fetched_nodes),
            shared_nodes: get(&of_type.shared_nodes),
            cached_nodes: get(&of_type.cached_nodes),
            cached_bytes: get(&of_type.cached_bytes),
        };
        self.features.iter().map(count).collect()
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl TrafficCount {
    /// Combines each total with the total of `other`.
    fn combined(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            read_nodes: combine(self.read_nodes, other.read_nodes),
            read_bytes: combine(self.read_bytes, other.read_bytes),
            remote_nodes: combine(self.remote_nodes, other.remote_nodes),
            shared_nodes: combine(self.shared_nodes, other.shared_nodes),
            remote_bytes: combine(self.remote_bytes, other.remote_bytes),
            sent_bytes: combine(self.sent_bytes, other.sent_bytes),
            requests: combine(self.requests, other.requests),
            fetches: combine(self.fetches, other.fetches),
            cached_nodes: combine(self.cached_nodes, other.cached_nodes),
            cached_bytes: combine(self.cached_bytes, other.cached_bytes),
            taken_batches: combine(self.taken_batches, other.taken_batches),
            ready_batches: combine(self.ready_batches, other.ready_batches),
        }
    }
}

impl std::ops::AddAssign for TrafficCount {
    fn add_assign(&mut self, more: Self) {
        *self = self.combined(more, |total, more| total + more);
    }
}

impl std::ops::Sub for TrafficCount {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        self.combined(before, |total, before| total - before)
    }
}

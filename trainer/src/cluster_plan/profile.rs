//! The measured costs of batches and steps.

use super::ClusterShape;
use serde::{Deserialize, Serialize};

/// The costs of the batches and steps of a training, as means over ranks and steps unless a field says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchProfile {
    /// The number of ranks, and of parts.
    pub ranks: usize,
    /// The number of measured steps.
    pub measured_steps: usize,
    /// The number of steps of an epoch.
    pub epoch_steps: usize,
    /// The seeds of a rank's batch.
    pub seeds: f64,
    /// CPU seconds of making a batch, and of serving the batches of other ranks.
    pub batch_cpu_seconds: f64,
    /// CPU seconds of the step of the slowest rank, without the all-reduce.
    pub step_cpu_seconds: f64,
    /// CPU seconds of the all-reduce.
    pub all_reduce_cpu_seconds: f64,
    /// CPU seconds of a request without data, on both of its ends.
    pub request_cpu_seconds: f64,
    /// CPU seconds by which a feature row of another part takes longer than one of the own part, on both ends.
    pub remote_row_cpu_seconds: f64,
    /// Feature rows of a batch.
    pub rows: f64,
    /// Feature rows of a batch that came from other parts.
    pub remote_rows: f64,
    /// The fraction of neighbors that are in another part.
    pub remote_neighbors: f64,
    /// Payload bytes that a batch received from other parts.
    pub received_bytes: f64,
    /// Payload bytes of the requests of a batch.
    pub sent_bytes: f64,
    /// Requests of a batch.
    pub requests: f64,
    /// The part of these requests that asks for attributes of nodes, in pieces of bounded size.
    pub fetches: f64,
    /// Hops of a batch.
    pub hops: usize,
    /// The bytes of the vector that the ranks sum in each step.
    pub gradient_bytes: u64,
    /// Bytes of the features of a batch in memory.
    pub batch_bytes: f64,
    /// The largest anonymous memory of a rank, without batches ahead.
    pub anonymous_bytes: u64,
    /// Bytes of this memory that hold the edges and ids of the rank's part.
    pub copied_bytes: u64,
    /// Bytes of the files of all parts.
    pub file_bytes: u64,
}

impl BatchProfile {
    /// Returns the number of rounds of requests of a batch. The requests of a round are sent to all other ranks at the same
    /// time.
    pub(super) fn rounds(&self, nodes: usize) -> f64 {
        let fetching = if self.fetches > 0.0 { 1.0 } else { 0.0 };
        if nodes < 2 { 0.0 } else { self.sampling_rounds() + fetching }
    }

    /// Returns the number of rounds that sample. A large one sends several requests to a rank.
    fn sampling_rounds(&self) -> f64 {
        if self.ranks < 2 {
            return 0.0;
        }
        ((self.requests - self.fetches) / (self.ranks - 1) as f64).min(self.hops as f64)
    }

    /// Returns the number of requests of a batch on a number of nodes, whose rows of other parts are `growth` times the
    /// measured ones.
    pub(super) fn requests(&self, nodes: usize, growth: f64) -> f64 {
        if nodes < 2 {
            return 0.0;
        }
        let peers = (nodes - 1) as f64;
        let rounds = self.sampling_rounds();
        let fetches = if self.fetches > 0.0 { peers.max(self.fetches * growth) } else { 0.0 };
        let more = self.requests - self.fetches - rounds * (self.ranks - 1) as f64;
        rounds * peers + fetches + more * growth
    }

    /// Returns the factor between the rows of other parts on a cluster and the measured ones.
    pub(super) fn growth(&self, cluster: &ClusterShape) -> f64 {
        if self.ranks < 2 || cluster.nodes < 2 {
            return 0.0;
        }
        if cluster.nodes == self.ranks {
            return 1.0;
        }
        let estimated = elsewhere(cluster.nodes) / elsewhere(self.ranks);
        let measured = self.remote_neighbors;
        let there = cluster.remote_neighbors.unwrap_or(measured * estimated);
        // Without a cut there is no constant, and without features no share of rows.
        if measured <= 0.0 || measured >= 1.0 || self.rows <= 0.0 || self.remote_rows >= self.rows {
            return estimated;
        }
        let share = self.remote_rows / self.rows;
        let odds = odds(share) * odds(there.min(LARGEST_FRACTION)) / odds(measured);
        if share > 0.0 { odds / (1.0 + odds) / share } else { 1.0 }
    }
}

/// The largest fraction whose odds are taken.
const LARGEST_FRACTION: f64 = 0.999;

fn odds(fraction: f64) -> f64 {
    fraction / (1.0 - fraction)
}

/// Returns the probability that a node is in another part than a given one, if it is in any part at random.
fn elsewhere(parts: usize) -> f64 {
    1.0 - 1.0 / parts as f64
}

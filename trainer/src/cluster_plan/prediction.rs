//! The model of a training on a cluster.

use super::queueing::seconds_per_customer;
use super::{BatchProfile, ClusterShape};
use edgecut_cluster::AllReduceCost;
use edgecut_settings::words;
use serde::Serialize;

/// The predicted cost of a training on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The cluster.
    #[serde(flatten)]
    pub cluster: ClusterShape,
    /// Seconds of an epoch without validation.
    pub epoch_seconds: f64,
    /// Steps of a rank in an epoch, as if all batches were as large as the measured ones.
    pub epoch_steps: f64,
    /// Seconds of a step and its batch.
    pub batch_seconds: f64,
    /// The time of a batch on one node, divided by its time here: the share of the added nodes that makes training faster.
    pub efficiency: f64,
    /// The resource that sets the time of a batch, or the memory if it is too small.
    pub bound: Bound,
    /// Feature rows of a batch that come from other parts.
    pub remote_rows: f64,
    /// The basis of the number of these rows.
    pub rows_basis: RowsBasis,
    /// Bytes that a rank receives in a step: replies, requests and gradients.
    pub received_bytes: f64,
    /// Bytes that a rank receives in an epoch.
    pub epoch_received_bytes: f64,
    /// Bytes of memory of a rank: its anonymous memory, with the batches ahead, and the files of its part.
    pub memory_bytes: f64,
    /// Seconds of all work on the cores for a batch and its step.
    pub compute_seconds: f64,
    /// Seconds of all transfers for a batch and its step.
    pub bandwidth_seconds: f64,
    /// Seconds of a step without its batch.
    pub step_seconds: f64,
    /// Seconds of making a batch while nothing else runs.
    pub making_seconds: f64,
}

/// The basis of a number of rows of other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowsBasis {
    /// As many ranks were measured.
    Measured,
    /// The cut of as many parts, which exist.
    Cut,
    /// The growth of the cut with the number of parts.
    Estimated,
}

/// The resource that bounds the time of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The cores of a node.
    Compute,
    /// The bandwidth of a link.
    Bandwidth,
    /// The delay of messages that wait for each other.
    Latency,
    /// The memory of a node, which is too small.
    Memory,
}

words!(Bound, "bound", Compute = "compute", Bandwidth = "bandwidth", Latency = "latency", Memory = "memory");

/// The times of work that follows each other.
#[derive(Clone, Copy, Debug)]
struct Chain {
    compute: f64,
    bandwidth: f64,
    latency: f64,
}

impl Chain {
    fn seconds(self) -> f64 {
        self.compute + self.bandwidth + self.latency
    }

    /// Returns the resource that takes most of the time.
    fn bound(self) -> Bound {
        if self.compute >= self.bandwidth.max(self.latency) {
            Bound::Compute
        } else if self.bandwidth >= self.latency {
            Bound::Bandwidth
        } else {
            Bound::Latency
        }
    }

    fn then(self, next: Self) -> Self {
        Self {
            compute: self.compute + next.compute,
            bandwidth: self.bandwidth + next.bandwidth,
            latency: self.latency + next.latency,
        }
    }
}

impl BatchProfile {
    /// Predicts the cost of the measured training on a cluster.
    pub fn predict(&self, cluster: ClusterShape) -> Prediction {
        let batch = BatchCost::new(self, cluster);
        let alone = BatchCost::new(self, ClusterShape { nodes: 1, ..cluster });
        let (seconds, mut bound) = batch.seconds(cluster);
        // Every seed is in one batch. The last step of an epoch may have fewer seeds.
        let epoch_steps = self.epoch_steps as f64 * self.ranks as f64 / cluster.nodes as f64;
        let first = if cluster.batches_ahead == 0 { 0.0 } else { batch.making.seconds() };
        let memory_bytes = self.memory_bytes(cluster);
        if cluster.memory_bytes.is_some_and(|limit| memory_bytes > limit as f64) {
            bound = Bound::Memory;
        }
        Prediction {
            cluster,
            epoch_seconds: epoch_steps * seconds + first,
            epoch_steps,
            batch_seconds: seconds,
            efficiency: alone.seconds(cluster).0 / seconds,
            bound,
            remote_rows: self.remote_rows * self.growth(&cluster),
            rows_basis: if cluster.nodes == self.ranks || cluster.nodes == 1 {
                RowsBasis::Measured
            } else if cluster.remote_neighbors.is_some() {
                RowsBasis::Cut
            } else {
                RowsBasis::Estimated
            },
            received_bytes: batch.received_bytes,
            epoch_received_bytes: batch.received_bytes * epoch_steps,
            memory_bytes,
            compute_seconds: batch.compute,
            bandwidth_seconds: batch.bandwidth,
            step_seconds: batch.step.seconds(),
            making_seconds: batch.making.seconds(),
        }
    }

    /// Returns the bytes of memory of a rank.
    fn memory_bytes(&self, cluster: ClusterShape) -> f64 {
        let growth = self.ranks as f64 / cluster.nodes as f64;
        let copied = self.copied_bytes as f64;
        let anonymous = self.anonymous_bytes as f64 - copied + copied * growth;
        // One finished batch waits besides those in progress.
        let ahead =
            if cluster.batches_ahead == 0 { 0.0 } else { (cluster.batches_ahead + 1) as f64 * self.batch_bytes };
        anonymous + ahead + self.file_bytes as f64 / cluster.nodes as f64
    }
}

/// The cost of a batch and its step on a cluster.
#[derive(Clone, Copy, Debug)]
struct BatchCost {
    /// The time of all work on the cores.
    compute: f64,
    /// The time of all transfers.
    bandwidth: f64,
    /// The time of a step.
    step: Chain,
    /// The time of making a batch while nothing else runs.
    making: Chain,
    received_bytes: f64,
}

impl BatchCost {
    fn new(profile: &BatchProfile, cluster: ClusterShape) -> Self {
        let growth = profile.growth(&cluster);
        let rounds = profile.rounds(cluster.nodes);
        let more_rows = profile.remote_rows * (growth - 1.0);
        let more_requests = profile.requests(cluster.nodes, growth) - profile.requests;
        let making_cpu = profile.batch_cpu_seconds
            + profile.remote_row_cpu_seconds * more_rows
            + profile.request_cpu_seconds * more_requests;
        // Serving others takes CPU time that the few measured rows may not show.
        let making_cpu = making_cpu.max(0.0);
        let fetched_bytes = (profile.received_bytes + profile.sent_bytes) * growth;

        let gradient_bytes = profile.gradient_bytes as usize;
        let measured = AllReduceCost::new(gradient_bytes, profile.ranks);
        let all_reduce = AllReduceCost::new(gradient_bytes, cluster.nodes);
        let moved = if measured.bytes == 0 { 0.0 } else { all_reduce.bytes as f64 / measured.bytes as f64 };
        let all_reduce_cpu = profile.all_reduce_cpu_seconds * moved;

        let received_bytes = fetched_bytes + all_reduce.bytes as f64;
        let making = Chain {
            compute: making_cpu / cluster.cores.min(1.0),
            bandwidth: cluster.transfer_seconds(fetched_bytes),
            latency: 2.0 * rounds * cluster.message_seconds(),
        };
        let step = Chain {
            compute: profile.step_cpu_seconds / cluster.cores,
            bandwidth: cluster.transfer_seconds(all_reduce.bytes as f64),
            latency: all_reduce.messages as f64 * cluster.message_seconds(),
        };
        Self {
            compute: (making_cpu + profile.step_cpu_seconds + all_reduce_cpu) / cluster.cores,
            bandwidth: cluster.transfer_seconds(received_bytes),
            step,
            making,
            received_bytes,
        }
    }

    /// Returns the seconds of a batch and its step, and the resource that sets them.
    fn seconds(&self, cluster: ClusterShape) -> (f64, Bound) {
        if cluster.batches_ahead == 0 {
            let chain = self.making.then(self.step);
            return (chain.seconds(), chain.bound());
        }
        let on_one_core = self.making.compute * (1.0 - 1.0 / cluster.cores.max(1.0));
        let delay = self.making.latency + on_one_core;
        let ahead = cluster.batches_ahead;
        // One batch waits ready while others are made.
        let making = seconds_per_customer(&[self.compute, self.bandwidth], delay, ahead + 1);
        let seconds = making.max(self.step.seconds());
        let mut slowest = (self.compute, Bound::Compute);
        for (seconds, bound) in [
            (self.bandwidth, Bound::Bandwidth),
            (self.step.seconds(), self.step.bound()),
            (self.making.seconds() / ahead as f64, self.making.bound()),
        ] {
            if seconds > slowest.0 {
                slowest = (seconds, bound);
            }
        }
        (seconds, slowest.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks: 60 ms of CPU to make a batch, 200 ms to train on it, 40 MB received.
    fn profile() -> BatchProfile {
        BatchProfile {
            ranks: 2,
            measured_steps: 8,
            epoch_steps: 100,
            seeds: 1024.0,
            batch_cpu_seconds: 0.060,
            step_cpu_seconds: 0.200,
            all_reduce_cpu_seconds: 0.001,
            request_cpu_seconds: 50e-6,
            remote_row_cpu_seconds: 200e-9,
            rows: 300_000.0,
            remote_rows: 100_000.0,
            remote_neighbors: 0.2,
            received_bytes: 40e6,
            sent_bytes: 0.5e6,
            requests: 23.0,
            fetches: 20.0,
            hops: 3,
            gradient_bytes: 800_000,
            batch_bytes: 120e6,
            anonymous_bytes: 700_000_000,
            copied_bytes: 60_000_000,
            file_bytes: 400_000_000,
        }
    }

    fn cluster(nodes: usize) -> ClusterShape {
        ClusterShape {
            nodes,
            cores: 16.0,
            gbit_per_second: 100.0,
            delay_us: 20.0,
            batches_ahead: 8,
            remote_neighbors: None,
            memory_bytes: None,
        }
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value} instead of {expected}");
    }

    #[test]
    fn the_measured_number_of_nodes_keeps_what_was_measured() {
        let found = profile().predict(ClusterShape { cores: 1.0, ..cluster(2) });
        assert_eq!(found.rows_basis, RowsBasis::Measured);
        assert_near(found.remote_rows, 100_000.0);
        assert_near(found.received_bytes, 40.5e6 + 800_000.0);
        assert_near(found.compute_seconds, 0.261);
        // The link takes 3.5 ms, which the other batches hide.
        assert_eq!(found.bound, Bound::Compute);
        assert!((0.261..0.2611).contains(&found.batch_seconds), "{found:?}");
        // 100 steps, and the first batch: a core, four round trips of 70 µs each way, 40.5 MB at 12.5 GB/s.
        let first = 0.060 + 8.0 * 70e-6 + 40.5e6 * (1538.0 / 1448.0) / 12.5e9;
        assert_near(found.epoch_seconds, 100.0 * found.batch_seconds + first);
        // The anonymous memory, nine batches and half of the files.
        assert_near(found.memory_bytes, 700e6 + 9.0 * 120e6 + 200e6);
    }

    #[test]
    fn rows_of_other_parts_grow_with_the_cut() {
        // The odds of a third are twice as high as the odds of 0.2 of the neighbors.
        let found = profile().predict(ClusterShape { remote_neighbors: Some(0.5), ..cluster(8) });
        assert_eq!(found.rows_basis, RowsBasis::Cut);
        assert_near(found.remote_rows, 300_000.0 * 2.0 / 3.0);
        // The gradients take the ring, in 14 messages of an eighth.
        assert_near(found.received_bytes, 2.0 * 40.5e6 + 1_400_000.0);
        // 100,000 rows more, 18 requests for neighbors and 20 for features more, and 1.75 times the bytes of the all-reduce.
        let cpu = 0.060 + 100_000.0 * 200e-9 + 38.0 * 50e-6 + 0.200 + 0.00175;
        assert_near(found.compute_seconds, cpu / 16.0);
        assert_near(found.memory_bytes, 640e6 + 15e6 + 9.0 * 120e6 + 50e6);

        // Without such parts, the cut grows as the cut of random parts: to 0.35.
        let estimated = profile().predict(cluster(8));
        assert_eq!(estimated.rows_basis, RowsBasis::Estimated);
        let odds = 2.0 * 0.35 / 0.65;
        assert_near(estimated.remote_rows, 300_000.0 * odds / (1.0 + odds));
        let same = profile().predict(ClusterShape { remote_neighbors: Some(0.35), ..cluster(8) });
        assert_near(same.remote_rows, estimated.remote_rows);
    }

    #[test]
    fn graphs_without_features_or_cut_have_a_growth() {
        for changed in [
            BatchProfile { rows: 0.0, remote_rows: 0.0, ..profile() },
            BatchProfile { remote_neighbors: 0.0, ..profile() },
            BatchProfile { remote_rows: 300_000.0, ..profile() },
        ] {
            let found = changed.predict(cluster(4));
            assert_near(found.received_bytes, 40.5e6 * 1.5 + 1_200_000.0);
        }
    }

    #[test]
    fn requests_for_features_are_few_until_there_are_many_nodes() {
        // Three rounds sample. Features come in 20 pieces, but at least one from each other node.
        assert_eq!(profile().requests(2, 1.0), 23.0);
        assert_eq!(profile().requests(8, 1.5), 3.0 * 7.0 + 30.0);
        assert_eq!(profile().requests(128, 2.0), 4.0 * 127.0);
        assert_eq!((profile().rounds(8), profile().rounds(1)), (4.0, 0.0));
    }

    #[test]
    fn one_node_has_no_network() {
        let found = profile().predict(ClusterShape { gbit_per_second: 1e-3, delay_us: 1e6, ..cluster(1) });
        assert_eq!((found.remote_rows, found.received_bytes), (0.0, 0.0));
        assert_eq!((found.bound, found.efficiency), (Bound::Compute, 1.0));
        // Requests and rows of other parts take no CPU time.
        assert_near(found.compute_seconds, (0.260 - 23.0 * 50e-6 - 0.020) / 16.0);
        assert!(found.batch_seconds < found.compute_seconds * 1.2, "{found:?}");
    }

    #[test]
    fn each_resource_can_be_the_bound() {
        for (changed, bound) in [
            (cluster(8), Bound::Compute),
            (ClusterShape { gbit_per_second: 1.0, ..cluster(8) }, Bound::Bandwidth),
            // The messages of the all-reduce.
            (ClusterShape { delay_us: 20_000.0, ..cluster(8) }, Bound::Latency),
            // The round trips of a batch.
            (ClusterShape { delay_us: 20_000.0, batches_ahead: 1, ..cluster(8) }, Bound::Latency),
            (ClusterShape { memory_bytes: Some(1_000_000_000), ..cluster(8) }, Bound::Memory),
        ] {
            let found = profile().predict(changed);
            assert_eq!(found.bound, bound, "{found:?}");
            assert!(found.efficiency > 0.0 && found.efficiency <= 1.0, "{found:?}");
        }
    }

    #[test]
    fn batches_that_are_made_on_request_delay_their_steps() {
        let on_request = ClusterShape { batches_ahead: 0, cores: 1.0, ..cluster(2) };
        let found = profile().predict(on_request);
        let ahead = profile().predict(ClusterShape { batches_ahead: 2, ..on_request });
        assert!(found.batch_seconds > ahead.batch_seconds, "{found:?} {ahead:?}");
        assert_near(found.epoch_seconds, 100.0 * found.batch_seconds);
    }

    #[test]
    fn more_bandwidth_and_less_delay_never_cost_time() {
        for nodes in [2, 3, 8, 128] {
            let mut before = f64::INFINITY;
            for step in 0..8 {
                let gbit_per_second = f64::from(1 << step) / 4.0;
                let delay_us = 1000.0 / f64::from(1 << step);
                let found = profile().predict(ClusterShape { gbit_per_second, delay_us, ..cluster(nodes) });
                assert!(found.epoch_seconds <= before, "{nodes} nodes: {found:?}");
                before = found.epoch_seconds;
            }
        }
    }
}

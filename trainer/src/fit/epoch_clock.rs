//! Measurement of the time and network traffic of an epoch.

use crate::memory::resident_memory::resident_bytes;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler, HopTimes, TrafficCount};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time and network traffic of an epoch over all ranks. Each time is that of the slowest rank.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EpochCost {
    /// Wall-clock seconds of training, without validation.
    pub seconds: f64,
    /// Seconds that the trainer waited for batches.
    pub sample_wait_seconds: f64,
    /// Seconds of the forward pass, the backward pass and the optimizer.
    pub compute_seconds: f64,
    /// Seconds of exchanging gradients and embeddings, including the wait for slower ranks.
    pub allreduce_seconds: f64,
    /// Seconds of validation.
    pub eval_seconds: f64,
    /// The time that this rank has spent on checkpoints since the report of the previous epoch, except on threads.
    pub checkpoint_seconds: f64,
    /// The number of nodes whose features came from other parts over the network, summed over ranks.
    pub remote_nodes: u64,
    /// The part of these nodes whose features came with the reply to another batch, which had requested them already.
    pub shared_nodes: u64,
    /// Bytes received from other parts, summed over ranks.
    pub remote_bytes: u64,
    /// The number of nodes of other parts whose features came from the cache of a machine, summed over ranks.
    pub cached_nodes: u64,
    /// Bytes of these features, which were not received.
    pub cached_bytes: u64,
    /// The mean number of finished batches that waited when a rank took one, over all ranks. Near 0, training waits for
    /// sampling. `None` if batches are not made ahead.
    pub queue_depth: Option<f64>,
    /// The time of sampling by hop.
    pub sampling: Vec<HopCost>,
    /// The times, the memory and the traffic of each rank.
    pub ranks: Vec<RankCost>,
    /// The slowest steps of rank 0, the slowest first.
    pub slowest_steps: Vec<SlowStep>,
}

/// The times, the memory and the traffic of one rank in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RankCost {
    /// Seconds that the rank waited for batches.
    pub sample_wait_seconds: f64,
    /// Seconds of the forward pass, the backward pass and the optimizer.
    pub compute_seconds: f64,
    /// Seconds of exchanging gradients and embeddings, including the wait for slower ranks.
    pub allreduce_seconds: f64,
    /// The resident memory at the end of the epoch; 0 where the system does not report it.
    pub memory_bytes: u64,
    /// Bytes received from other parts.
    pub remote_bytes: u64,
}

/// A step that took long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SlowStep {
    /// The step, counted from 1.
    pub step: usize,
    /// Its seconds.
    pub seconds: f64,
    /// The part of these seconds for which the rank waited for the batch.
    pub sample_wait_seconds: f64,
}

/// The time of sampling one hop in an epoch. Each time is that of the slowest rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HopCost {
    /// The hop, counted from 1 at the seeds.
    pub hop: usize,
    /// Wall-clock seconds, including the wait for other parts. Batches that overlap in time are all counted.
    pub seconds: f64,
    /// By edge type: seconds of sampling the rank's own rows, and of renumbering the nodes that all parts sampled.
    pub edge_types: BTreeMap<String, f64>,
}

/// The clock and traffic counter of an epoch.
pub(super) struct EpochClock {
    start: Instant,
    wait: Duration,
    pub(super) compute: Duration,
    pub(super) exchange: Duration,
    sampling: Option<SamplingCount>,
    slowest: Vec<SlowStep>,
}

/// The number of slow steps that are reported.
const SLOW_STEPS: usize = 5;

/// The counts of a sampler when an epoch started.
struct SamplingCount {
    sampler: Arc<DistNeighborSampler>,
    traffic: TrafficCount,
    hops: HopTimes,
}

impl EpochClock {
    /// Starts the clock. `sampler` samples the batches of the epoch, if they are sampled.
    pub(super) fn start(sampler: Option<Arc<DistNeighborSampler>>) -> Self {
        let sampling = sampler.map(|sampler| SamplingCount {
            traffic: sampler.node().traffic().count(),
            hops: sampler.times(),
            sampler,
        });
        let zero = Duration::ZERO;
        Self { start: Instant::now(), wait: zero, compute: zero, exchange: zero, sampling, slowest: Vec::new() }
    }

    /// Returns the time of waiting for batches so far.
    pub(super) fn waited(&self) -> Duration {
        self.wait
    }

    /// Runs `wait` and adds its time to the time of waiting for batches.
    pub(super) fn waiting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = wait();
        self.wait += start.elapsed();
        value
    }

    /// Notes the time of a step, and of the wait for its batch.
    pub(super) fn stepped(&mut self, step: usize, time: Duration, waited: Duration) {
        let seconds = time.as_secs_f64();
        let at = self.slowest.partition_point(|slow| slow.seconds >= seconds);
        if at < SLOW_STEPS {
            self.slowest.insert(at, SlowStep { step, seconds, sample_wait_seconds: waited.as_secs_f64() });
            self.slowest.truncate(SLOW_STEPS);
        }
    }

    /// Returns the cost over all ranks: the times of the slowest rank, and the sum of all traffic.
    pub(super) fn stop(self, world: &mut ProcessGroup) -> Result<EpochCost, ClusterError> {
        let mut times = [self.start.elapsed(), self.wait, self.compute, self.exchange].map(|t| t.as_secs_f64());
        world.all_reduce(&mut times, ReduceOp::Max)?;
        let [seconds, sample_wait_seconds, compute_seconds, allreduce_seconds] = times;
        let mut cost =
            EpochCost { seconds, sample_wait_seconds, compute_seconds, allreduce_seconds, ..EpochCost::default() };
        cost.slowest_steps = self.slowest;
        let mut received = 0;
        if let Some(SamplingCount { sampler, traffic, hops }) = self.sampling {
            let graph = sampler.node();
            let traffic = graph.traffic().count() - traffic;
            received = traffic.remote_bytes;
            let mut counts = [
                traffic.remote_nodes,
                traffic.shared_nodes,
                traffic.remote_bytes,
                traffic.cached_nodes,
                traffic.cached_bytes,
                traffic.taken_batches,
                traffic.ready_batches,
            ];
            world.all_reduce(&mut counts, ReduceOp::Sum)?;
            let [remote_nodes, shared_nodes, remote_bytes, cached_nodes, cached_bytes, taken_batches, ready_batches] =
                counts;
            cost = EpochCost { remote_nodes, shared_nodes, remote_bytes, cached_nodes, cached_bytes, ..cost };
            cost.queue_depth = TrafficCount { taken_batches, ready_batches, ..traffic }.queue_depth();
            cost.sampling = hop_costs(graph, &sampler.times().since(&hops), world)?;
        }
        cost.ranks = rank_costs([self.wait, self.compute, self.exchange], received, world)?;
        Ok(cost)
    }
}

/// Exchanges the times, the memory and the received bytes of all ranks.
fn rank_costs(times: [Duration; 3], received: u64, world: &mut ProcessGroup) -> Result<Vec<RankCost>, ClusterError> {
    const VALUES: usize = 5;
    let mut all = vec![0.0_f64; VALUES * world.size()];
    let [wait, compute, exchange] = times.map(|time| time.as_secs_f64());
    let memory = resident_bytes().unwrap_or(0);
    all[VALUES * world.rank()..][..VALUES].copy_from_slice(&[wait, compute, exchange, memory as f64, received as f64]);
    world.all_reduce(&mut all, ReduceOp::Sum)?;
    let of_rank = |values: &[f64]| RankCost {
        sample_wait_seconds: values[0],
        compute_seconds: values[1],
        allreduce_seconds: values[2],
        memory_bytes: values[3] as u64,
        remote_bytes: values[4] as u64,
    };
    Ok(all.chunks_exact(VALUES).map(of_rank).collect())
}

/// Reduces the hop times over all ranks. They travel as one flat vector with `1 + num_edge_types` values per hop.
fn hop_costs(graph: &DistGraph, times: &HopTimes, world: &mut ProcessGroup) -> Result<Vec<HopCost>, ClusterError> {
    let seconds = times.hops.iter().zip(&times.drawing).flat_map(|(hop, drawing)| std::iter::once(hop).chain(drawing));
    let mut seconds: Vec<f64> = seconds.map(Duration::as_secs_f64).collect();
    world.all_reduce(&mut seconds, ReduceOp::Max)?;
    let names = graph.part().meta().edge_types.iter();
    let names: Vec<String> = names.map(|e| format!("{}__{}__{}", e.src_type, e.relation, e.dst_type)).collect();
    let hop = |(hop, seconds): (usize, &[f64])| HopCost {
        hop: hop + 1,
        seconds: seconds[0],
        edge_types: names.iter().cloned().zip(seconds[1..].iter().copied()).collect(),
    };
    Ok(seconds.chunks_exact(1 + names.len()).enumerate().map(hop).collect())
}

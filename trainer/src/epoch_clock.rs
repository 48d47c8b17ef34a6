//! Measurement of the time and network traffic of an epoch.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistNeighborSampler, HopTimes, SamplingNode, TrafficCount};
use serde::Serialize;
use std::collections::BTreeMap;
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
    /// The number of nodes whose features were fetched from other parts, summed over ranks.
    pub remote_nodes: u64,
    /// Bytes received from other parts, summed over ranks.
    pub remote_bytes: u64,
    /// The time of sampling by hop.
    pub sampling: Vec<HopCost>,
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

/// The clock of the steps of an epoch.
pub(crate) struct StepClock {
    start: Instant,
    wait: Duration,
    pub(crate) compute: Duration,
    pub(crate) exchange: Duration,
}

impl StepClock {
    pub(crate) fn start() -> Self {
        let (wait, compute, exchange) = Default::default();
        Self { start: Instant::now(), wait, compute, exchange }
    }

    /// Runs `wait` and adds its time to the time of waiting for batches.
    pub(crate) fn waiting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = wait();
        self.wait += start.elapsed();
        value
    }

    /// Returns the seconds of the whole epoch, of waiting, of computing and of exchanging, each of the slowest rank.
    pub(crate) fn stop(self, world: &mut ProcessGroup) -> Result<[f64; 4], ClusterError> {
        let mut times = [self.start.elapsed(), self.wait, self.compute, self.exchange].map(|t| t.as_secs_f64());
        world.all_reduce(&mut times, ReduceOp::Max)?;
        Ok(times)
    }
}

/// The clock and traffic counter of an epoch of sampled batches.
pub(crate) struct EpochClock<'a> {
    pub(crate) steps: StepClock,
    node: &'a SamplingNode,
    sampler: &'a DistNeighborSampler,
    traffic: TrafficCount,
    hops: HopTimes,
}

impl<'a> EpochClock<'a> {
    pub(crate) fn start(sampler: &'a DistNeighborSampler) -> Self {
        let node = sampler.node();
        let traffic = node.traffic().count();
        let hops = sampler.times();
        Self { steps: StepClock::start(), node, sampler, traffic, hops }
    }

    /// Returns the cost over all ranks: the times of the slowest rank, and the sum of all traffic.
    pub(crate) fn stop(self, world: &mut ProcessGroup) -> Result<EpochCost, ClusterError> {
        let [seconds, sample_wait_seconds, compute_seconds, allreduce_seconds] = self.steps.stop(world)?;
        let traffic = self.node.traffic().count() - self.traffic;
        let mut counts = [traffic.remote_nodes, traffic.remote_bytes];
        world.all_reduce(&mut counts, ReduceOp::Sum)?;
        let [remote_nodes, remote_bytes] = counts;
        let sampling = hop_costs(self.node, &self.sampler.times().since(&self.hops), world)?;
        Ok(EpochCost {
            seconds,
            sample_wait_seconds,
            compute_seconds,
            allreduce_seconds,
            eval_seconds: 0.0,
            remote_nodes,
            remote_bytes,
            sampling,
        })
    }
}

/// Reduces the hop times over all ranks. They travel as one flat vector with `1 + num_edge_types` values per hop.
fn hop_costs(node: &SamplingNode, times: &HopTimes, world: &mut ProcessGroup) -> Result<Vec<HopCost>, ClusterError> {
    let seconds = times.hops.iter().zip(&times.drawing).flat_map(|(hop, drawing)| std::iter::once(hop).chain(drawing));
    let mut seconds: Vec<f64> = seconds.map(Duration::as_secs_f64).collect();
    world.all_reduce(&mut seconds, ReduceOp::Max)?;
    let names = node.part().meta().edge_types.iter();
    let names: Vec<String> = names.map(|e| format!("{}__{}__{}", e.src_type, e.relation, e.dst_type)).collect();
    let hop = |(hop, seconds): (usize, &[f64])| HopCost {
        hop: hop + 1,
        seconds: seconds[0],
        edge_types: names.iter().cloned().zip(seconds[1..].iter().copied()).collect(),
    };
    Ok(seconds.chunks_exact(1 + names.len()).enumerate().map(hop).collect())
}

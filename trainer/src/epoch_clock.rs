//! Where an epoch's time and bytes go.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistNeighborSampler, HopTimes, SamplingNode, TrafficCount};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What an epoch cost, over all ranks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EpochCost {
    /// Wall-clock seconds of training, validation excluded; the slowest rank's, as the times below.
    pub seconds: f64,
    /// Seconds that the trainer waited for batches.
    pub sample_wait_seconds: f64,
    /// Seconds of forward, backward and optimizer.
    pub compute_seconds: f64,
    /// Seconds of exchanging gradients and embeddings, waiting for slower ranks included.
    pub allreduce_seconds: f64,
    /// Seconds of validation.
    pub eval_seconds: f64,
    /// Node features fetched from other parts, summed over ranks.
    pub remote_nodes: u64,
    /// Bytes received from other parts, summed over ranks.
    pub remote_bytes: u64,
    /// Where sampling spent its time, hop by hop.
    pub sampling: Vec<HopCost>,
}

/// What sampling one hop cost in an epoch; the times of the rank where each is greatest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HopCost {
    /// The hop, counted from 1 at the seeds.
    pub hop: usize,
    /// Wall-clock seconds, waiting for other parts included, of batches that may overlap.
    pub seconds: f64,
    /// By edge type: seconds of drawing the rank's own rows and of numbering what all parts drew.
    pub edge_types: BTreeMap<String, f64>,
}

/// Measures the steps of an epoch.
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

    pub(crate) fn waiting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = wait();
        self.wait += start.elapsed();
        value
    }

    /// Seconds of all, of waiting, of computing and of exchanging; the slowest rank's.
    pub(crate) fn stop(self, world: &mut ProcessGroup) -> Result<[f64; 4], ClusterError> {
        let mut times = [self.start.elapsed(), self.wait, self.compute, self.exchange].map(|t| t.as_secs_f64());
        world.all_reduce(&mut times, ReduceOp::Max)?;
        Ok(times)
    }
}

/// Measures an epoch of sampled batches.
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
        let (traffic, hops) = (node.traffic().count(), sampler.times());
        Self { steps: StepClock::start(), node, sampler, traffic, hops }
    }

    /// The cost over all ranks: the slowest rank's times, everyone's traffic.
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

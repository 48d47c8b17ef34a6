//! The measurement of a profile.

use super::BatchProfile;
use super::exchange_costs::ExchangeCosts;
use crate::error::TrainError;
use crate::memory::resident_memory::anonymous_bytes;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler, TrafficCount};
use edgecut_graph::EdgeTypeId;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// The sums of the costs of this rank's batches and steps.
///
/// No rank makes a batch while another computes a step, so that all CPU time of a process belongs to one of the two, also the
/// time in which it serves others.
pub(crate) struct ProfileMeter {
    graph: Arc<DistGraph>,
    /// CPU seconds at the last boundary between batches and steps.
    mark: f64,
    traffic: TrafficCount,
    read: TrafficCount,
    batch_cpu: f64,
    /// By step.
    step_cpu: Vec<f64>,
    seeds: f64,
    num_gradients: usize,
    anonymous_bytes: u64,
    hops: usize,
}

impl ProfileMeter {
    /// Starts the measurement of batches of a sampler.
    pub(crate) fn new(sampler: &DistNeighborSampler) -> Self {
        let graph = sampler.node().clone();
        let traffic = graph.traffic().count();
        Self {
            graph,
            mark: 0.0,
            traffic,
            read: TrafficCount::default(),
            batch_cpu: 0.0,
            step_cpu: Vec::new(),
            seeds: 0.0,
            num_gradients: 0,
            anonymous_bytes: 0,
            hops: sampler.num_hops(),
        }
    }

    /// Waits until all ranks begin to make a batch.
    pub(crate) fn batch_begins(&mut self, world: &mut ProcessGroup) -> Result<(), TrainError> {
        world.barrier()?;
        self.mark = cpu_seconds();
        self.traffic = self.graph.traffic().count();
        Ok(())
    }

    /// Waits until all ranks have made their batches, and counts the cost if the batch `counts`.
    pub(crate) fn step_begins(&mut self, counts: bool, world: &mut ProcessGroup) -> Result<(), TrainError> {
        let traffic = self.graph.traffic().count() - self.traffic;
        world.barrier()?;
        let now = cpu_seconds();
        if counts {
            self.batch_cpu += now - self.mark;
            self.read += traffic;
        }
        self.mark = now;
        Ok(())
    }

    /// Counts the cost of a step with this number of gradients. `seeds` are the seeds of all ranks.
    pub(crate) fn step_ended(&mut self, seeds: f64, num_gradients: usize) {
        self.step_cpu.push(cpu_seconds() - self.mark);
        self.seeds += seeds;
        self.num_gradients = num_gradients;
        self.anonymous_bytes = self.anonymous_bytes.max(anonymous_bytes().unwrap_or(0));
    }

    /// Measures exchanges, and returns the profile over all ranks, the same on each. An epoch has `epoch_steps` steps. Every rank
    /// must call this.
    pub(crate) fn finish(mut self, epoch_steps: usize, world: &mut ProcessGroup) -> Result<BatchProfile, TrainError> {
        let costs = ExchangeCosts::measure(&self.graph, self.num_gradients, world)?;
        let steps = self.step_cpu.len();
        let per_step = 1.0 / steps.max(1) as f64;
        // All ranks wait for the slowest one in each step.
        world.all_reduce(&mut self.step_cpu, ReduceOp::Max)?;
        let read = self.read;
        let mut means = [
            self.batch_cpu,
            read.read_nodes as f64,
            read.remote_nodes as f64,
            read.remote_bytes as f64,
            read.sent_bytes as f64,
            read.requests as f64,
            read.fetches as f64,
            read.read_bytes as f64,
        ];
        world.all_reduce(&mut means, ReduceOp::Mean)?;
        let [batch_cpu, rows, remote_rows, received_bytes, sent_bytes, requests, fetches, batch_bytes] =
            means.map(|sum| sum * per_step);
        let copied = copied_bytes(&self.graph);
        let mut memory = [self.anonymous_bytes, copied];
        world.all_reduce(&mut memory, ReduceOp::Max)?;
        let step_cpu = self.step_cpu.iter().sum::<f64>() * per_step;
        Ok(BatchProfile {
            ranks: world.size(),
            measured_steps: steps,
            epoch_steps,
            seeds: self.seeds * per_step / world.size() as f64,
            batch_cpu_seconds: batch_cpu,
            step_cpu_seconds: (step_cpu - costs.all_reduce).max(0.0),
            all_reduce_cpu_seconds: costs.all_reduce,
            request_cpu_seconds: costs.request,
            remote_row_cpu_seconds: costs.remote_row,
            rows,
            remote_rows,
            remote_neighbors: self.graph.part().meta().report.remote_neighbor_fraction,
            received_bytes,
            sent_bytes,
            requests,
            fetches,
            hops: self.hops,
            gradient_bytes: (self.num_gradients * size_of::<f32>()) as u64,
            batch_bytes,
            anonymous_bytes: memory[0],
            copied_bytes: memory[1],
            file_bytes: self.graph.part().meta().files.values().map(|file| file.bytes).sum(),
        })
    }
}

/// Returns the CPU seconds of all threads of this process so far.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the mean of the values of all ranks.
pub(super) fn mean_over_ranks(value: f64, world: &mut ProcessGroup) -> Result<f64, TrainError> {
    let mut mean = [value];
    world.all_reduce(&mut mean, ReduceOp::Mean)?;
    Ok(mean[0])
}

/// Returns the bytes of the neighbors and ids of the own part that are copied into memory.
fn copied_bytes(graph: &DistGraph) -> u64 {
    let part = graph.part();
    let meta = part.meta();
    let mut bytes = 0;
    for edge_type in 0..meta.edge_types.len() {
        let csc = &part.edges(EdgeTypeId(edge_type as u16)).csc;
        if !csc.is_mapped() {
            bytes += size_of::<u32>() * csc.num_edges() + size_of::<u64>() * (csc.num_rows() + 1);
        }
    }
    bytes as u64
}

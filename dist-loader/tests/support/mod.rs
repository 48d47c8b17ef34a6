//! Support for tests: runs a job of several ranks in one process, over real sockets, on parts in a temporary folder.
#![allow(dead_code)]

use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_loader::MiniBatch;
use edgecut_dist_sampler::{DistGraph, DistGraphConfig};
use edgecut_graph::{Dataset, Features, Meta, NodeData, Splits};
use edgecut_partition::{Method, PartitionOptions, partition};
use std::path::Path;
use std::sync::Arc;

/// A small deterministic generator, so that graphs are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns the label of a node. Most labels are 1, so that the gradients of a batch do not cancel out.
pub(crate) fn label(node: u32) -> i64 {
    if node.is_multiple_of(5) { i64::from(node / 5 % 4) } else { 1 }
}

/// Returns a graph with hubs, duplicate edges, self-loops and isolated nodes (the last tenth), with a feature row for
/// each node, labels, and splits that parts share unevenly.
pub(crate) fn graph(num_nodes: usize, num_edges: usize, seed: u64) -> Dataset {
    let mut numbers = Numbers(seed);
    let connected = (num_nodes * 9 / 10) as u64;
    let mut src: Vec<u32> = Vec::new();
    let mut dst: Vec<u32> = Vec::new();
    for i in 0..num_edges {
        let from = numbers.below(connected);
        let to = match i % 7 {
            0 => from,             // a self-loop
            1 => numbers.below(5), // into a hub
            2 if i > 2 => u64::from(dst[dst.len() - 1]),
            _ => numbers.below(connected),
        };
        src.push(from as u32);
        dst.push(to as u32);
        if i % 11 == 0 {
            src.push(from as u32);
            dst.push(to as u32);
        }
    }
    let dim = 3;
    let values: Vec<f32> = (0..num_nodes * dim).map(|i| (i as f32 * 0.37).sin()).collect();
    let labels: Vec<i64> = (0..num_nodes as u32).map(label).collect();
    let every = |step: usize, from: usize| (from..num_nodes).step_by(step).map(|n| n as u32).collect::<Vec<_>>();
    let nodes = NodeData {
        name: "node".into(),
        num_nodes,
        features: Some(Features::F32 { values: values.into(), dim }),
        labels: Some(labels.into()),
        num_classes: 4,
        splits: Splits { train: every(3, 0).into(), valid: every(5, 1).into(), test: every(7, 2).into() },
        ..NodeData::default()
    };
    Dataset::homogeneous("random", nodes, src.into(), dst.into())
}

/// Partitions `dataset` into `dir`.
pub(crate) fn write_parts(dataset: &Dataset, num_parts: u32, method: Method, dir: &Path) -> Meta {
    let options = PartitionOptions { method, ..PartitionOptions::new(num_parts) };
    partition(dataset, &options, dir, &()).expect("partition a valid graph")
}

/// Numbers of parts and ranks of which neither divides the other, or with fewer ranks than parts.
pub(crate) const UNEQUAL: [(u32, usize); 6] = [(2, 1), (3, 2), (5, 2), (5, 3), (2, 3), (3, 5)];

/// Runs `work` on every rank of a job of `world_size` ranks over the parts in `dir`. Returns the result of each rank.
pub(crate) fn on_ranks<T: Send>(
    dir: &Path,
    world_size: usize,
    config: &DistGraphConfig,
    work: impl Fn(Arc<DistGraph>, &mut ProcessGroup) -> T + Sync,
) -> Vec<T> {
    on_machines(dir, world_size, world_size, config, work)
}

/// Like [`on_ranks`], with `per_machine` consecutive ranks on each machine.
pub(crate) fn on_machines<T: Send>(
    dir: &Path,
    world_size: usize,
    per_machine: usize,
    config: &DistGraphConfig,
    work: impl Fn(Arc<DistGraph>, &mut ProcessGroup) -> T + Sync,
) -> Vec<T> {
    let fingerprint = Meta::read(dir).expect("read META.json").fingerprint();
    let ranks = Cluster::join_local(world_size, |config| {
        config.fingerprint = fingerprint.clone();
        config.local_rank = config.rank % per_machine;
        config.local_world_size = per_machine;
    });
    let ranks = ranks.expect("join");
    std::thread::scope(|scope| {
        let work = &work;
        let run = |cluster: Cluster| {
            let part = DistGraph::open_part(dir, cluster.rank(), world_size, true).expect("open the part");
            let graph = DistGraph::start(Arc::new(part), cluster.clone(), config.clone()).expect("start the service");
            let mut world = cluster.world().expect("the world group");
            world.barrier().expect("all ranks serve");
            let result = work(graph.clone(), &mut world);
            drop(world);
            cluster.shutdown().expect("leave together");
            result
        };
        let threads: Vec<_> = ranks.into_iter().map(|cluster| scope.spawn(move || run(cluster))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

/// Replaces global ids by original ids. Only global ids depend on the partitioning.
pub(crate) fn in_original_ids(mut batch: MiniBatch) -> MiniBatch {
    for nodes in &mut batch.nodes {
        nodes.input_nodes.clone_from(&nodes.original_ids);
    }
    batch
}

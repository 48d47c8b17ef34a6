//! Support for tests: runs a job of several ranks in one process, over real sockets, on parts in a temporary folder.
#![allow(dead_code)]

use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_loader::{
    Exclude, LabeledEdgeBatch, LinkBatch, LinkConfig, MiniBatch, NegativeDistribution, NegativeSampling,
};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, NodeFields};
use edgecut_graph::{Dataset, Features, Meta, NodeData, Part, Splits};
use edgecut_partition::{Method, PartitionOptions, partition};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

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

/// Writes parts into a temporary folder.
pub(crate) fn parts_of(dataset: &Dataset, num_parts: u32) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write_parts(dataset, num_parts, Method::Random, dir.path());
    dir
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
    on_parts(dir, [world_size, per_machine], config, |part| part, work)
}

/// Like [`on_machines`], with parts after a change. `ranks` are the number of ranks, and of those on each machine.
pub(crate) fn on_parts<T: Send>(
    dir: &Path,
    ranks: [usize; 2],
    config: &DistGraphConfig,
    change: impl Fn(Part) -> Part + Sync,
    work: impl Fn(Arc<DistGraph>, &mut ProcessGroup) -> T + Sync,
) -> Vec<T> {
    let [world_size, per_machine] = ranks;
    let fingerprint = Meta::read(dir).expect("read META.json").fingerprint();
    let ranks = Cluster::join_local(world_size, |config| {
        config.fingerprint = fingerprint.clone();
        config.local_rank = config.rank % per_machine;
        config.local_world_size = per_machine;
    });
    let ranks = ranks.expect("join");
    std::thread::scope(|scope| {
        let work = &work;
        let change = &change;
        let run = |cluster: Cluster| {
            let part = change(DistGraph::open_part(dir, cluster.rank(), world_size, true).expect("open the part"));
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

/// Makes the settings of a loader of links that draws negatives with equal probabilities, and does not send messages over the
/// edges of a batch.
pub(crate) fn uniform_negatives(num: usize, exclude: Exclude) -> LinkConfig {
    let distribution = NegativeDistribution::Uniform;
    LinkConfig {
        negatives: NegativeSampling { num, distribution, exclude, shared: false },
        exclude_seed_edges: true,
        reverse_types: Vec::new(),
        weights: false,
        given_negatives: Default::default(),
    }
}

/// All attributes of nodes but times.
pub(crate) const EVERYTHING: NodeFields =
    NodeFields { labels: true, times: false, original_ids: true, degrees: true, in_weights: true, features: true };

/// A batch of any loader.
pub(crate) trait AnyBatch: Clone {
    fn graph(&self) -> &MiniBatch;
    fn graph_mut(&mut self) -> &mut MiniBatch;
}

impl AnyBatch for MiniBatch {
    fn graph(&self) -> &MiniBatch {
        self
    }

    fn graph_mut(&mut self) -> &mut MiniBatch {
        self
    }
}

impl AnyBatch for LinkBatch {
    fn graph(&self) -> &MiniBatch {
        &self.graph
    }

    fn graph_mut(&mut self) -> &mut MiniBatch {
        &mut self.graph
    }
}

impl AnyBatch for LabeledEdgeBatch {
    fn graph(&self) -> &MiniBatch {
        &self.graph
    }

    fn graph_mut(&mut self) -> &mut MiniBatch {
        &mut self.graph
    }
}

/// Replaces global ids by original ids. Only global ids depend on the partitioning.
pub(crate) fn in_original_ids<B: AnyBatch>(mut batch: B) -> B {
    for nodes in &mut batch.graph_mut().nodes {
        nodes.input_nodes.clone_from(&nodes.original_ids);
    }
    batch
}

/// Merges the batches of all ranks by case, in original ids and in the order of the batches, without the empty ones.
pub(crate) fn merged<B: AnyBatch>(per_rank: Vec<Vec<Vec<B>>>) -> Vec<Vec<B>> {
    let mut merged = Vec::new();
    for of_rank in per_rank {
        merged.resize(of_rank.len(), Vec::new());
        for (merged, batches) in merged.iter_mut().zip(of_rank) {
            let full = batches.into_iter().filter(|batch| batch.graph().num_seeds > 0);
            merged.extend(full.map(in_original_ids));
        }
    }
    merged.iter_mut().for_each(|batches| batches.sort_by_key(|batch| batch.graph().key.batch));
    merged
}

/// Checks that batches do not depend on parts, ranks, threads and the division of requests. `batches` returns the batches of
/// several cases. Returns the batches of one part. The other parts are in folders `NUMBER-METHOD`.
pub(crate) fn assert_partition_independent<B: PartialEq>(
    dataset: &Dataset,
    dir: &Path,
    max_message_bytes: usize,
    batches: impl Fn(&Path, usize, &DistGraphConfig) -> Vec<Vec<B>>,
) -> Vec<Vec<B>> {
    // Limits so small that features are requested in pieces and hops in halves.
    let small = |num_workers| DistGraphConfig {
        num_workers,
        fetch_chunk_bytes: 200,
        max_message_bytes,
        ..DistGraphConfig::default()
    };
    write_parts(dataset, 1, Method::Random, &dir.join("one"));
    let expected = batches(&dir.join("one"), 1, &small(1));
    // Parts with few edges between them, and with many.
    let metis = Method::Metis { recursive: false };
    for (num_parts, method) in [(2, metis), (2, Method::Random), (3, Method::Random), (4, metis), (5, Method::Random)] {
        let parts = dir.join(format!("{num_parts}-{method:?}"));
        write_parts(dataset, num_parts, method, &parts);
        let found = batches(&parts, num_parts as usize, &small(2));
        for (case, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(found == expected, "{num_parts} parts by {method:?}, case {case}");
        }
    }
    for (num_parts, world_size) in UNEQUAL {
        let parts = dir.join(format!("{num_parts}-{:?}", Method::Random));
        assert!(batches(&parts, world_size, &small(1)) == expected, "{num_parts} parts on {world_size} ranks");
    }
    expected
}

//! Support for tests: runs a job of several ranks in one process, over real sockets, on parts in a temporary folder.
#![allow(dead_code)]

use edgecut_cluster::{Cluster, ClusterConfig};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig};
use edgecut_graph::{Dataset, Features, Meta, NodeData, NodeTypeId, Splits};
use edgecut_partition::{Method, PartitionOptions, partition};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) const NODES: NodeTypeId = NodeTypeId(0);
pub(crate) const DIM: usize = 8;

/// Returns a ring with chords, in which every node has three in-edges and a distinct feature row. If `hub` is set, that
/// node also has in-edges from all other nodes.
pub(crate) fn dataset(num_nodes: u32, hub: Option<u32>) -> Dataset {
    let mut src = Vec::new();
    let mut dst = Vec::new();
    for node in 0..num_nodes {
        for step in [1, 7, 31] {
            src.push((node + step) % num_nodes);
            dst.push(node);
        }
    }
    if let Some(hub) = hub {
        let others = (0..num_nodes).filter(|&node| node != hub);
        src.extend(others.clone());
        dst.extend(others.map(|_| hub));
    }
    let values: Vec<f32> = (0..num_nodes as usize * DIM).map(|i| i as f32).collect();
    let every_third: Vec<u32> = (0..num_nodes).step_by(3).collect();
    let nodes = NodeData {
        name: "node".into(),
        num_nodes: num_nodes as usize,
        features: Some(Features::F32 { values: values.into(), dim: DIM }),
        labels: Some(vec![0; num_nodes as usize].into()),
        num_classes: 2,
        splits: Splits { train: every_third.into(), ..Splits::default() },
        ..NodeData::default()
    };
    Dataset::homogeneous("ring", nodes, src.into(), dst.into())
}

/// Writes `dataset` in `num_parts` parts.
pub(crate) fn parts_of(dataset: &Dataset, num_parts: u32) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(num_parts) };
    partition(dataset, &options, dir.path(), &()).expect("partition a valid graph");
    dir
}

/// Joins as many ranks as there are parts.
pub(crate) fn join(dir: &Path, adjust: impl Fn(&mut ClusterConfig) + Sync) -> Vec<Cluster> {
    let meta = Meta::read(dir).expect("read META.json");
    let fingerprint = meta.fingerprint();
    let adjust = |config: &mut ClusterConfig| {
        config.fingerprint = fingerprint.clone();
        adjust(config);
    };
    Cluster::join_local(meta.num_parts as usize, adjust).expect("all ranks join")
}

/// Starts the service for the part of a rank.
pub(crate) fn start(dir: &Path, cluster: &Cluster, config: &DistGraphConfig) -> Arc<DistGraph> {
    let part = DistGraph::open_part(dir, cluster.rank(), cluster.world_size(), true).expect("open the part");
    DistGraph::start(Arc::new(part), cluster.clone(), config.clone()).expect("start the service")
}

/// Leaves the job on all ranks together.
pub(crate) fn shut_down(ranks: Vec<Cluster>) {
    std::thread::scope(|scope| {
        for cluster in ranks {
            scope.spawn(move || cluster.shutdown().expect("leave together"));
        }
    });
}

/// Returns the global ids of the nodes of a part.
pub(crate) fn nodes_of(graph: &DistGraph, part: u32) -> Vec<u32> {
    let book = &graph.part().meta().node_types[0].book;
    book.range(edgecut_graph::PartitionId(part)).collect()
}

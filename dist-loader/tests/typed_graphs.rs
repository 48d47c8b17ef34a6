//! Tests that batches of heterogeneous graphs, with fan-outs by edge type, do not depend on the number of parts.

use crate::support;

use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, MiniBatch, Seeds};
use edgecut_dist_sampler::{DistGraphConfig, DistNeighborSampler, Labor, NodeFields, NumNeighbors, SamplerConfig};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, NodeTypeId, TargetKind, Targets};
use edgecut_partition::Method;
use std::path::Path;
use std::sync::Arc;
use support::{EVERYTHING, assert_partition_independent, merged, on_ranks, write_parts};

/// The node type with labels.
const V0: NodeTypeId = NodeTypeId(0);
const NUM_SEEDS: u32 = 40;
const BATCH_SIZE: usize = 16;

/// Fan-outs as text, and as `[hop][edge type]` for `e0` to `e5`, with -1 for all neighbors and 0 for none.
const CASES: [(&str, [[i64; 6]; 2]); 5] = [
    ("3,2", [[3; 6], [2; 6]]),
    ("-1,4", [[-1; 6], [4; 6]]),
    ("e1=4,0;v2__e4__v0=0,3;2,-1", [[2, 4, 2, 2, 0, 2], [-1, 0, -1, -1, 3, -1]]),
    ("e0=0,1;e1=5,5;e2=0,0;e3=0,2;e4=0,0;e5=0,0", [[0, 5, 0, 0, 0, 0], [1, 5, 0, 2, 0, 0]]),
    ("e0=3,2;2,2", [[3, 2, 2, 2, 2, 2], [2; 6]]),
];

fn graph() -> Dataset {
    let options =
        FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 6, num_classes: 3, ..FakeOptions::default() };
    fake_hetero(&options).expect("a valid graph")
}

/// Returns all batches of all cases, in original ids.
fn batches(dir: &Path, world_size: usize, config: &DistGraphConfig) -> Vec<Vec<MiniBatch>> {
    merged(on_ranks(dir, world_size, config, |graph, world| {
        let seeds: Vec<u32> = (0..NUM_SEEDS).map(|i| (i * 37 + 11) % 150).collect();
        let ids = graph.handle().block_on(graph.find_originals(V0, &seeds)).expect("all seeds exist");
        let of_case = |&(text, _): &(&str, _)| {
            // The last case by layer-neighbor sampling.
            let labor = (text == CASES[CASES.len() - 1].0).then(Labor::default);
            let config = SamplerConfig::new(text.parse::<NumNeighbors>().expect("fan-outs")).with_labor(labor);
            let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"));
            let config = LoaderConfig { seed: 3, ..LoaderConfig::new(BATCH_SIZE, EVERYTHING) };
            let loader = DistNeighborLoader::new(sampler, V0, Seeds::Listed(ids.clone()), config, world);
            loader.expect("a valid loader").epoch(1).map(|batch| batch.expect("a batch")).collect()
        };
        CASES.iter().map(of_case).collect()
    }))
}

/// Checks that every drawn edge is an edge of its type, in the order of the edge list, that counts match the fan-outs
/// by hop and type, and that rows have their node's features.
fn check_against_dataset(dataset: &Dataset, batch: &MiniBatch, fanouts: &[[i64; 6]; 2]) {
    for (e, edges) in dataset.edge_types.iter().enumerate() {
        let src = &batch.nodes[edges.src_type.index()];
        let dst = &batch.nodes[edges.dst_type.index()];
        let drawn = &batch.edges[e];
        assert_eq!(
            drawn.indptr.len() - 1,
            dst.hop_offsets[1] as usize,
            "the nodes of all hops but the last are expanded"
        );
        for row in 0..drawn.indptr.len() - 1 {
            let node = dst.original_ids[row];
            let hop = usize::from(row as u32 >= dst.hop_offsets[0]);
            let all: Vec<u32> =
                edges.src.iter().zip(&edges.dst[..]).filter(|&(_, &to)| to == node).map(|(&from, _)| from).collect();
            let found: Vec<u32> = drawn.indices[drawn.indptr[row] as usize..drawn.indptr[row + 1] as usize]
                .iter()
                .map(|&number| src.original_ids[number as usize])
                .collect();
            let expected = usize::try_from(fanouts[hop][e]).map_or(all.len(), |fanout| all.len().min(fanout));
            assert_eq!(found.len(), expected, "edge type {e}, hop {hop}, node {node}");
            let mut rest = all.iter();
            assert!(found.iter().all(|id| rest.any(|other| other == id)), "{found:?} of {all:?}");
        }
    }
    for (nodes, data) in batch.nodes.iter().zip(&dataset.node_types) {
        let Some(features) = &data.features else {
            assert!(nodes.features.is_empty());
            continue;
        };
        for (row, &node) in nodes.original_ids.iter().enumerate() {
            let mut expected = vec![0.0; nodes.feature_dim];
            features.copy_row(node as usize, &mut expected);
            assert_eq!(nodes.features[row * nodes.feature_dim..][..nodes.feature_dim], expected);
        }
    }
    let seeds = &batch.nodes[0].original_ids[..batch.num_seeds];
    match &dataset.node_types[0].targets {
        Some(targets) => {
            assert_eq!((batch.target_dim, batch.labels.len()), (targets.dim, 0));
            assert_eq!(
                batch.targets,
                seeds.iter().flat_map(|&id| targets.row(id as usize)).copied().collect::<Vec<_>>()
            );
        }
        None => {
            let labels = dataset.node_types[0].labels.as_ref().expect("v0 has labels");
            assert_eq!(batch.labels, seeds.iter().map(|&id| labels[id as usize]).collect::<Vec<_>>());
            assert!(batch.targets.is_empty());
        }
    }
}

#[test]
fn batches_do_not_depend_on_the_partitioning() {
    let dataset = graph();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let expected = assert_partition_independent(&dataset, dir.path(), 800, batches);
    for ((_, fanouts), batches) in CASES.iter().zip(&expected) {
        assert_eq!(batches.len(), (NUM_SEEDS as usize).div_ceil(BATCH_SIZE));
        batches.iter().for_each(|batch| check_against_dataset(&dataset, batch, fanouts));
    }
}

#[test]
fn targets_are_those_of_the_seeds_with_any_partitioning() {
    let mut dataset = graph();
    let nodes = &mut dataset.node_types[0];
    nodes.labels = None;
    nodes.num_classes = 0;
    let values: Vec<f32> = (0..nodes.num_nodes * 5).map(|at| (at as f32 * 0.37).sin()).collect();
    nodes.times = Some((0..nodes.num_nodes as i64).map(|node| node * 3).collect::<Vec<_>>().into());
    nodes.targets = Some(Targets { values: values.into(), dim: 5, kind: TargetKind::Regression });
    let dir = tempfile::tempdir().expect("a temporary folder");
    let config = DistGraphConfig { fetch_chunk_bytes: 50, max_message_bytes: 800, ..DistGraphConfig::default() };
    let mut expected: Option<Vec<Vec<MiniBatch>>> = None;
    for (num_parts, world_size) in [(1, 1), (3, 3), (5, 2)] {
        let parts = dir.path().join(num_parts.to_string());
        write_parts(&dataset, num_parts, Method::Random, &parts);
        let found = batches(&parts, world_size, &config);
        for ((_, fanouts), batches) in CASES.iter().zip(&found) {
            batches.iter().for_each(|batch| check_against_dataset(&dataset, batch, fanouts));
        }
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{num_parts} parts");
    }
    // An odd number of targets before and after numbers of 8 bytes.
    let targets = dataset.node_types[0].targets.as_ref().expect("targets");
    on_ranks(&dir.path().join("3"), 3, &config, |graph, _| {
        let nodes = graph.handle().block_on(graph.find_originals(V0, &(3..80).collect::<Vec<_>>())).expect("all exist");
        let wanted = NodeFields { times: true, ..EVERYTHING };
        let fetched = graph.handle().block_on(graph.fetch(V0, nodes, wanted)).expect("attributes");
        assert_eq!(fetched.original_ids, (3..80).collect::<Vec<_>>());
        assert_eq!(fetched.times, (3..80).map(|id| id * 3).collect::<Vec<i64>>());
        assert_eq!(fetched.targets, (3..80).flat_map(|id| targets.row(id)).copied().collect::<Vec<_>>());
    });
}

#[test]
fn fan_outs_that_do_not_fit_the_graph_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write_parts(&graph(), 1, Method::Random, &dir.path().join("one"));
    on_ranks(&dir.path().join("one"), 1, &DistGraphConfig::default(), |graph, _| {
        for (text, expected) in [("cites=3;2", "names edge type cites"), ("e0=3", "nothing for edge type v1__e1__v0")] {
            // The last case by layer-neighbor sampling.
            let labor = (text == CASES[CASES.len() - 1].0).then(Labor::default);
            let config = SamplerConfig::new(text.parse::<NumNeighbors>().expect("fan-outs")).with_labor(labor);
            let error = DistNeighborSampler::new(graph.clone(), config).err().expect("an error").to_string();
            assert!(error.contains(expected), "{error}");
        }
    });
}

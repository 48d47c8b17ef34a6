//! Tests of the directory of original ids, with which each id is looked up at one part.

use crate::support;

use edgecut_dist_sampler::{DistGraphConfig, SampleError};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, NodeTypeId};
use edgecut_partition::Method;
use std::path::Path;
use support::{on_ranks, write_parts};

const TYPES: [NodeTypeId; 2] = [NodeTypeId(0), NodeTypeId(1)];

fn dataset() -> Dataset {
    let options = FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 4, ..FakeOptions::default() };
    fake_hetero(&options).expect("a valid graph")
}

/// Returns limits so small that a share takes several pages and a lookup several requests.
fn small() -> DistGraphConfig {
    DistGraphConfig { num_workers: 1, fetch_chunk_bytes: 40, max_message_bytes: 400, ..DistGraphConfig::default() }
}

fn num_nodes(dataset: &Dataset, node_type: NodeTypeId) -> u32 {
    dataset.node_types[node_type.index()].num_nodes as u32
}

/// Returns the in-degree of each node of a type, over all edge types.
fn degrees(dataset: &Dataset, node_type: NodeTypeId) -> Vec<u64> {
    let mut degrees = vec![0; num_nodes(dataset, node_type) as usize];
    for edges in dataset.edge_types.iter().filter(|edges| edges.dst_type == node_type) {
        edges.dst.iter().for_each(|&dst| degrees[dst as usize] += 1);
    }
    degrees
}

fn parts(dataset: &Dataset, num_parts: u32, dir: &Path) {
    let method = if num_parts == 3 { Method::Random } else { Method::Metis { recursive: false } };
    write_parts(dataset, num_parts, method, dir);
}

#[test]
fn ids_are_found_with_and_without_a_directory_alike() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (num_parts, world_size) in [(1, 1), (1, 2), (2, 2), (3, 6), (5, 5), (3, 1), (5, 2), (3, 5)] {
        let parts_dir = dir.path().join(format!("{num_parts}_{world_size}"));
        parts(&dataset, num_parts, &parts_dir);
        on_ranks(&parts_dir, world_size, &small(), |graph, world| {
            for node_type in TYPES {
                // Every id in descending order, and one of them twice.
                let ids: Vec<u32> = (0..num_nodes(&dataset, node_type)).rev().chain([3]).collect();
                let find = || graph.handle().block_on(graph.find_originals(node_type, &ids)).expect("they exist");
                let by_all_parts = find();
                graph.make_directory(node_type, false, world).expect("a directory");
                assert_eq!(find(), by_all_parts);
                // Once more, then with degrees in addition.
                graph.make_directory(node_type, false, world).expect("a directory");
                graph.make_directory(node_type, true, world).expect("a directory with degrees");
                assert_eq!(find(), by_all_parts);
                let absent = [num_nodes(&dataset, node_type)];
                let error =
                    graph.handle().block_on(graph.find_originals(node_type, &absent)).expect_err("no such node");
                assert!(matches!(error, SampleError::NoSuchNode { .. }), "{error}");
            }
        });
    }
}

#[test]
fn each_id_is_asked_of_one_part() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let num_parts = 8;
    parts(&dataset, num_parts, dir.path());
    on_ranks(dir.path(), num_parts as usize, &DistGraphConfig::default(), |graph, world| {
        let node_type = TYPES[1];
        let num_nodes = num_nodes(&dataset, node_type);
        let find = |ids: &[u32]| {
            let before = graph.traffic().count();
            graph.handle().block_on(graph.find_originals(node_type, ids)).expect("they exist");
            graph.traffic().count() - before
        };
        let all: Vec<u32> = (0..num_nodes).collect();
        let others = u64::from(num_parts) - 1;
        let without = find(&all);
        assert_eq!((without.requests, without.remote_bytes), (others, others * 4 * u64::from(num_nodes)));
        graph.make_directory(node_type, false, world).expect("a directory");
        let with = find(&all);
        // One request to each part, and no id in two requests.
        assert_eq!(with.requests, others);
        assert!(with.remote_bytes < 4 * u64::from(num_nodes), "{with:?}");
        for id in [0, num_nodes / 2, num_nodes - 1] {
            assert!(find(&[id, id]).requests <= 1);
        }
        let in_edges = graph.num_in_edges(node_type);
        assert_eq!(in_edges, None, "degrees were not requested");
        world.barrier().expect("no rank leaves before all requests are answered");
    });
}

#[test]
fn in_edges_give_their_destinations_in_the_order_of_the_original_ids() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (num_parts, world_size) in [(1, 2), (2, 2), (3, 3), (4, 8), (3, 1), (5, 2), (2, 3)] {
        let parts_dir = dir.path().join(format!("{num_parts}-{world_size}"));
        parts(&dataset, num_parts, &parts_dir);
        on_ranks(&parts_dir, world_size, &small(), |graph, world| {
            for node_type in TYPES {
                let degrees = degrees(&dataset, node_type);
                let total: u64 = degrees.iter().sum();
                let early = graph.handle().block_on(graph.find_by_in_edge(node_type, &[0])).expect_err("no directory");
                assert!(early.to_string().contains("call make_directory first"), "{early}");
                graph.make_directory(node_type, true, world).expect("a directory");
                assert_eq!(graph.num_in_edges(node_type), Some(total));
                let originals: Vec<u32> = (degrees.iter().enumerate())
                    .flat_map(|(id, &degree)| std::iter::repeat_n(id as u32, degree as usize))
                    .collect();
                let expected =
                    graph.handle().block_on(graph.find_originals(node_type, &originals)).expect("they exist");
                let all: Vec<u64> = (0..total).collect();
                let found = graph.handle().block_on(graph.find_by_in_edge(node_type, &all)).expect("they exist");
                assert!(found == expected, "{num_parts} parts");
                let error = graph.handle().block_on(graph.find_by_in_edge(node_type, &[total])).expect_err("too many");
                assert!(matches!(error, SampleError::NoSuchNode { .. }), "{error}");
            }
            world.barrier().expect("no rank leaves before all requests are answered");
        });
    }
}

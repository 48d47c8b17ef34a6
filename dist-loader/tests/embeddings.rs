//! Tests that learnable embeddings do not depend on the number of parts and processes.

use crate::support;

use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistEmbedding, DistGraph, DistGraphConfig, EmbeddingConfig, SparseAdam};
use edgecut_graph::NodeTypeId;
use edgecut_partition::Method;
use std::path::Path;
use std::sync::Arc;
use support::{Numbers, graph, on_ranks, write_parts};

const NODES: NodeTypeId = NodeTypeId(0);
const NUM_NODES: u32 = 90;
const DIM: usize = 5;
const NUM_STEPS: u64 = 4;
const WORKERS: u64 = 4;

/// Returns the nodes that worker `worker` touches in step `step`, as original ids, with a gradient for each value.
fn gradients_of(step: u64, worker: u64) -> (Vec<u32>, Vec<f32>) {
    let mut numbers = Numbers(step * 10 + worker);
    let nodes: Vec<u32> = (0..25).map(|_| numbers.below(u64::from(NUM_NODES)) as u32).collect();
    let gradients = (0..nodes.len() * DIM).map(|_| numbers.below(2000) as f32 / 1000.0 - 1.0).collect();
    (nodes, gradients)
}

/// Trains over all ranks, which divide the four workers' work. Returns the table that each rank has at the end, and the averages
/// of its rows.
fn train(dir: &Path, world_size: usize) -> Vec<Vec<f32>> {
    let small = DistGraphConfig { num_workers: 1, fetch_chunk_bytes: 100, ..DistGraphConfig::default() };
    on_ranks(dir, world_size, &small, |graph: Arc<DistGraph>, world| {
        let config = EmbeddingConfig { dim: DIM, seed: 3, scale: 0.5 };
        let mut embedding = DistEmbedding::new(graph.clone(), NODES, config).expect("an embedding");
        embedding.average(0.7);
        world.barrier().expect("all have it");
        let runtime = graph.handle().clone();
        let start = embedding.shard_values();
        let run = |embedding: &mut DistEmbedding, world: &mut ProcessGroup| {
            for step in 0..NUM_STEPS {
                for worker in (0..WORKERS).filter(|worker| *worker as usize % world_size == world.rank()) {
                    let (originals, gradients) = gradients_of(step, worker);
                    let nodes = runtime.block_on(graph.find_originals(NODES, &originals)).expect("all nodes exist");
                    let before = runtime.block_on(embedding.pull(&nodes)).expect("rows of all parts");
                    assert_eq!(before.len(), nodes.len() * DIM);
                    runtime.block_on(embedding.push(&nodes, &gradients)).expect("all owners take them");
                }
                world.barrier().expect("all have pushed");
                embedding.step(&SparseAdam::new(0.1), 0.25);
            }
            runtime.block_on(embedding.table()).expect("the whole table")
        };
        let table = run(&mut embedding, world);
        world.barrier().expect("all have the table");
        embedding.show_averages(true);
        world.barrier().expect("all show averages");
        let averages = runtime.block_on(embedding.table()).expect("the averages");
        assert!(averages != table);
        world.barrier().expect("all have the averages");
        embedding.show_averages(false);
        embedding.restore(&start);
        world.barrier().expect("all start anew");
        assert!(run(&mut embedding, world) == table, "from the same start it learns the same");
        world.barrier().expect("all have learned");
        embedding.load(&table).expect("a table of the right size");
        world.barrier().expect("all have loaded");
        assert!(runtime.block_on(embedding.table()).expect("the whole table") == table);
        assert!(embedding.load(&table[1..]).is_err());
        [table, averages].concat()
    })
}

#[test]
fn the_same_is_learned_whatever_the_number_of_parts_and_processes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dataset = graph(NUM_NODES as usize, 300, 1);
    let parts = |num_parts: u32| {
        let parts = dir.path().join(format!("{num_parts}"));
        if !parts.exists() {
            write_parts(&dataset, num_parts, Method::Random, &parts);
        }
        parts
    };
    let expected = train(&parts(1), 1).remove(0);
    assert!(expected.iter().all(|value| value.is_finite()));
    for (num_parts, world_size) in [(2, 2), (3, 3), (2, 4), (3, 1), (3, 2), (2, 3)] {
        let tables = train(&parts(num_parts), world_size);
        for table in &tables {
            // Each number of ranks adds up gradients in another order.
            let far = table.iter().zip(&expected).find(|(a, b)| (*a - *b).abs() > 1e-4);
            assert!(far.is_none(), "{num_parts} parts on {world_size} ranks: {far:?}");
            assert!(table == &tables[0], "all ranks see the same");
        }
    }
}

#[test]
fn rows_without_gradients_stay_and_others_move_by_adam() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let parts = dir.path().join("2");
    write_parts(&graph(NUM_NODES as usize, 300, 1), 2, Method::Random, &parts);
    on_ranks(&parts, 2, &DistGraphConfig::default(), |graph, world| {
        let config = EmbeddingConfig { dim: 2, seed: 1, scale: 1.0 };
        let mut embedding = DistEmbedding::new(graph.clone(), NODES, config).expect("an embedding");
        world.barrier().expect("all have it");
        let runtime = graph.handle().clone();
        let all: Vec<u32> = (0..NUM_NODES).collect();
        let before = runtime.block_on(embedding.pull(&all)).expect("all rows");
        // Both ranks push the same gradient for node 3, and opposite gradients for node 5.
        let sign = if world.rank() == 0 { 1.0 } else { -1.0 };
        let gradients = [1.0, -2.0, sign, 3.0 * sign];
        runtime.block_on(embedding.push(&[3, 5], &gradients)).expect("all owners take them");
        world.barrier().expect("all have pushed");
        embedding.step(&SparseAdam::new(0.1), 0.5);
        let after = runtime.block_on(embedding.pull(&all)).expect("all rows");
        world.barrier().expect("all have pulled");
        for node in 0..NUM_NODES as usize {
            let moved = [0, 1].map(|i| after[2 * node + i] - before[2 * node + i]);
            let expected = if node == 3 { [-0.1, 0.1] } else { [0.0, 0.0] };
            assert!(moved.iter().zip(expected).all(|(m, e): (&f32, f32)| (m - e).abs() < 1e-6), "{node}: {moved:?}");
        }
        assert!(runtime.block_on(embedding.push(&[3], &[1.0])).is_err(), "too few gradients");
    });
}

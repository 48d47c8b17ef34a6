//! Tests that a limit on the bytes made ahead does not change batches, and that the limit is kept.

use crate::support;

use edgecut_dist_loader::{
    DEFAULT_PREFETCH_BYTES, DistLinkNeighborLoader, DistNeighborLoader, EdgeSeeds, Exclude, GraphBatch,
    GraphDataLoader, GraphLoaderConfig, LinkBatch, LoaderConfig, MiniBatch, Seeds,
};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SamplerConfig};
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Split};
use std::sync::Arc;
use support::{on_ranks, parts_of, uniform_negatives};

fn config(prefetch_bytes: usize, concurrency: usize) -> LoaderConfig {
    let wanted = NodeFields { features: true, labels: true, ..NodeFields::default() };
    LoaderConfig {
        even_batches: true,
        shuffle: true,
        seed: 2,
        concurrency,
        prefetch_bytes,
        ..LoaderConfig::new(16, wanted)
    }
}

fn sampler(graph: &Arc<DistGraph>) -> Arc<DistNeighborSampler> {
    let config = SamplerConfig::new(vec![Fanout::Count(4), Fanout::Count(3)]);
    Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"))
}

/// Limits under which no batch fits, a few fit, and all fit.
const BOUNDS: [usize; 4] = [0, 1, 60_000, DEFAULT_PREFETCH_BYTES];

#[test]
fn a_bound_changes_neither_nodes_nor_edges_of_batches() {
    let options = FakeOptions { avg_num_nodes: 400, avg_degree: 8.0, num_channels: 16, ..FakeOptions::default() };
    let dataset = fake(&options).expect("a valid graph");
    let dir = parts_of(&dataset, 2);
    on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        let mut expected: Option<(Vec<MiniBatch>, Vec<LinkBatch>)> = None;
        // The first case makes each batch on request.
        for (prefetch_bytes, concurrency) in [(0, 0)].into_iter().chain(BOUNDS.map(|bound| (bound, 6))) {
            let config = config(prefetch_bytes, concurrency);
            let seeds = Seeds::Split(Split::Train);
            let loader = DistNeighborLoader::new(sampler(&graph), NodeTypeId(0), seeds, config.clone(), world);
            let loader = loader.expect("a valid loader");
            let batches: Vec<MiniBatch> = loader.epoch(1).map(|batch| batch.expect("a batch")).collect();
            assert_eq!(batches.len(), loader.num_steps());
            let link = uniform_negatives(2, Exclude::Nothing);
            let seeds = EdgeSeeds::Split(Split::Train, vec![EdgeTypeId(0)]);
            let config = LoaderConfig { wanted: NodeFields::FEATURES, ..config };
            let loader = DistLinkNeighborLoader::new(sampler(&graph), seeds, config, link, world);
            let loader = loader.expect("a valid loader");
            let edges: Vec<LinkBatch> = loader.epoch(1).map(|batch| batch.expect("a batch")).collect();
            assert_eq!(edges.len(), loader.num_steps());
            match &expected {
                None => expected = Some((batches, edges)),
                Some((nodes, links)) => {
                    assert!(&batches == nodes && &edges == links, "a bound of {prefetch_bytes}");
                }
            }
        }
    });
}

#[test]
fn the_bytes_that_wait_keep_to_the_bound() {
    let options = FakeOptions { avg_num_nodes: 600, avg_degree: 8.0, num_channels: 64, ..FakeOptions::default() };
    let dataset = fake(&options).expect("a valid graph");
    let dir = parts_of(&dataset, 1);
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let mut run = |prefetch_bytes: usize| {
            let config = LoaderConfig { shuffle: false, ..config(prefetch_bytes, 8) };
            let loader = DistNeighborLoader::new(sampler(&graph), NodeTypeId(0), Seeds::Owned, config, world);
            let loader = loader.expect("a valid loader");
            let sizes: Vec<usize> =
                (0..2).flat_map(|epoch| loader.epoch(epoch)).map(|batch| batch.expect("a batch").num_bytes()).collect();
            (sizes, loader.peak_prefetch_bytes())
        };
        let (sizes, _) = run(DEFAULT_PREFETCH_BYTES);
        let largest = sizes.iter().copied().max().expect("batches");
        assert!(largest > 10_000, "a batch holds its features: {largest}");
        for batches in [1, 3] {
            // The first batch may be the smallest, so the batches that the estimate admits may be larger by this much.
            let slack = largest - sizes.iter().copied().min().expect("batches");
            let bound = batches * largest;
            let (_, peak) = run(bound);
            assert!(peak <= bound + batches * slack, "{peak} bytes waited under a bound of {bound}");
            assert!(peak >= largest);
        }
        let (_, peak) = run(1);
        assert_eq!(peak, largest, "a batch larger than the bound passes alone");
    });
}

#[test]
fn graphs_keep_to_the_bound_too() {
    let graphs = fake_graphs(&FakeGraphsOptions { num_graphs: 200, ..FakeGraphsOptions::default() });
    let graphs = Arc::new(graphs.expect("valid graphs"));
    let run = |prefetch_bytes: usize| {
        let config = GraphLoaderConfig { prefetch_bytes, concurrency: 4, ..GraphLoaderConfig::new(8) };
        let loader = GraphDataLoader::new(graphs.clone(), (0..200).collect(), config, 0, 1).expect("a valid loader");
        let batches: Vec<GraphBatch> = loader.epoch(0).map(|batch| batch.expect("a batch")).collect();
        // Dropping an epoch early ends its thread, which waits for its batches to be taken.
        drop(loader.epoch(1));
        (batches, loader.peak_prefetch_bytes())
    };
    let (expected, _) = run(DEFAULT_PREFETCH_BYTES);
    let largest = expected.iter().map(GraphBatch::num_bytes).max().expect("batches");
    for bound in [0, 1, largest, 3 * largest] {
        let (batches, peak) = run(bound);
        assert!(batches == expected);
        assert!(peak <= bound.max(largest) + largest, "{peak} bytes waited under a bound of {bound}");
    }
}

#[test]
fn the_bytes_of_a_batch_are_those_of_its_arrays() {
    let dataset = fake(&FakeOptions { num_channels: 16, ..FakeOptions::default() }).expect("a valid graph");
    let dir = parts_of(&dataset, 1);
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let loader = DistNeighborLoader::new(
            sampler(&graph),
            NodeTypeId(0),
            Seeds::Split(Split::Train),
            config(DEFAULT_PREFETCH_BYTES, 2),
            world,
        );
        for batch in loader.expect("a valid loader").epoch(0) {
            let batch = batch.expect("a batch");
            let used = |nodes: usize, edges: usize| 4 * nodes * (1 + 16) + 4 * edges + 8 * batch.num_seeds;
            let least = used(batch.nodes[0].input_nodes.len(), batch.edges[0].indices.len());
            // Growing vectors hold at most twice the memory that they use.
            assert!((least..2 * least + 4096).contains(&batch.num_bytes()), "{} of {least}", batch.num_bytes());
            assert_eq!(MiniBatch::empty(batch.key).num_bytes(), 0);
        }
    });
}

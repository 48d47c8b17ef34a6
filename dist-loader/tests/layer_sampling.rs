//! Tests of the nodes that layer-neighbor sampling saves.

use crate::support;

use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, Labor, SampleSeeds, SampledSubgraph,
    SamplerConfig,
};
use edgecut_graph::NodeTypeId;
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_partition::Method;
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use support::{on_ranks, write_parts};

const NUM_BATCHES: u32 = 6;
const BATCH_SIZE: u32 = 100;

/// Samples batches of different seeds.
fn sample(graph: &Arc<DistGraph>, labor: Option<Labor>) -> Vec<SampledSubgraph> {
    let config = SamplerConfig::new(vec![Fanout::Count(10), Fanout::Count(5)]).with_labor(labor);
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a sampler"));
    let mut batches = Vec::new();
    for batch in 0..NUM_BATCHES {
        let seeds = (batch * BATCH_SIZE..(batch + 1) * BATCH_SIZE).collect();
        let seeds = SampleSeeds::of_type(NodeTypeId(0), seeds, 1);
        let key = BatchKey { seed: 4, epoch: 0, batch: batch.into() };
        batches.push(graph.handle().block_on(sampler.sample(seeds, key)).expect("a batch"));
    }
    batches
}

fn num_nodes(batches: &[SampledSubgraph]) -> usize {
    batches.iter().map(|batch| batch.nodes[0].ids.len()).sum()
}

/// Returns the nodes of batches that the batches before them had.
fn num_repeated(batches: &[SampledSubgraph]) -> usize {
    let mut repeated = 0;
    for pair in batches.windows(2) {
        let before: HashSet<u32> = pair[0].nodes[0].ids.iter().copied().collect();
        repeated += pair[1].nodes[0].ids.iter().filter(|id| before.contains(id)).count();
    }
    repeated
}

#[test]
fn batches_have_fewer_nodes_and_dependent_ones_share_more() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = FakeOptions { avg_num_nodes: 3000, avg_degree: 40.0, num_channels: 1, ..FakeOptions::default() };
    write_parts(&fake(&options).expect("a graph"), 1, Method::Random, dir.path());
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, _| {
        // Neighbor sampling, and layer-neighbor sampling of independent and of dependent batches.
        let methods = [0, 1, 16].map(NonZeroU32::new);
        let methods = methods.map(|batches| batches.map(|batch_dependency| Labor { batch_dependency }));
        let [neighbor, labor, dependent] = methods.map(|labor| sample(&graph, labor));
        let [of_neighbor, of_labor, of_dependent] = [&neighbor, &labor, &dependent].map(|batches| num_nodes(batches));
        assert!(of_labor * 10 < of_neighbor * 8, "{of_labor} nodes instead of {of_neighbor}");
        assert!(of_dependent * 10 < of_neighbor * 8, "{of_dependent} nodes instead of {of_neighbor}");
        let shares = [(&labor, of_labor), (&dependent, of_dependent)]
            .map(|(batches, all)| num_repeated(batches) as f64 / all as f64);
        assert!(shares[1] > 1.3 * shares[0], "shares of nodes that the batch before had: {shares:?}");
    });
}

//! Tests that rankings that were stored with the parts find the nodes that an epoch reads most.

use crate::support;

use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{
    CacheSize, DistGraph, DistGraphConfig, DistNeighborSampler, Hotness, NodeFields, NumNeighbors, SamplerConfig,
};
use edgecut_graph::readers::{FakeOptions, fake, fake_hetero};
use edgecut_graph::{Dataset, HotnessRule, NodeTypeId};
use edgecut_partition::{Method, PartitionOptions, partition};
use std::path::Path;
use std::sync::Arc;
use support::on_ranks;

const BATCH_SIZE: usize = 32;

fn write(dataset: &Dataset, num_parts: u32, hotness: Option<HotnessRule>, dir: &Path) {
    let options = PartitionOptions { method: Method::Random, hotness, ..PartitionOptions::new(num_parts) };
    partition(dataset, &options, dir, &()).expect("partition a valid graph");
}

fn presample() -> Option<HotnessRule> {
    Some(HotnessRule::Presample { num_neighbors: vec![4, 3], batch_size: BATCH_SIZE })
}

/// Counts the nodes of all batches of several epochs.
fn counted(graph: &Arc<DistGraph>, world: &mut ProcessGroup) -> Hotness {
    let sampler = SamplerConfig::new("4,3".parse::<NumNeighbors>().expect("fan-outs"));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler).expect("a sampler"));
    let config = LoaderConfig { shuffle: true, seed: 3, ..LoaderConfig::new(BATCH_SIZE, NodeFields::default()) };
    let loader = DistNeighborLoader::new(sampler, NodeTypeId(0), Seeds::Owned, config, world).expect("a loader");
    loader.hotness(0, loader.num_batches()).expect("an epoch")
}

/// Returns the shares of the reads of other parts' rows that a cache of a fifth of these rows saves: with the stored
/// ranking, and with the best one for this epoch.
fn saved(graph: &Arc<DistGraph>, counts: &Hotness, stored: &Hotness) -> (f64, f64) {
    let types = &graph.part().meta().node_types;
    let row_bytes: Vec<u64> = types.iter().map(|t| t.feature_bytes() as u64).collect();
    let owned = |t: usize| graph.part().owned(NodeTypeId(t as u16));
    let mut remote = Hotness::new(types.len());
    let mut reads = 0;
    let mut bytes = 0;
    for (t, of_type) in types.iter().enumerate().filter(|(_, of_type)| of_type.feature_dim > 0) {
        for id in (0..of_type.book.num_nodes() as u32).filter(|id| !owned(t).contains(id)) {
            bytes += row_bytes[t];
            reads += u64::from(counts.of(t, id));
            (0..counts.of(t, id)).for_each(|_| remote.count(t, &[id]));
        }
    }
    let share = |ranking: &Hotness| {
        let nodes = ranking.hottest(&row_bytes, bytes / 5);
        let saved = nodes.iter().enumerate().flat_map(|(t, nodes)| nodes.iter().map(move |&id| counts.of(t, id)));
        saved.map(u64::from).sum::<u64>() as f64 / reads as f64
    };
    (share(stored), share(&remote))
}

#[test]
fn an_expected_ranking_saves_almost_as_many_reads_as_a_counted_one() {
    let options = FakeOptions { avg_num_nodes: 3000, ..FakeOptions::default() };
    for (dataset, num_parts, num_ranks) in [
        (fake(&options).expect("a graph"), 2, 2),
        (fake(&options).expect("a graph"), 4, 2),
        (fake_hetero(&FakeOptions { avg_num_nodes: 1000, ..options }).expect("a graph"), 3, 3),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().join("parts");
        write(&dataset, num_parts, presample(), &dir);
        let shares = on_ranks(&dir, num_ranks, &DistGraphConfig::default(), |graph, world| {
            let counts = counted(&graph, world);
            saved(&graph, &counts, &graph.stored_hotness().expect("a ranking"))
        });
        for (stored, best) in shares {
            // The counted ranking knows the draws of this epoch. A random one would save a fifth.
            assert!(stored > 0.8 * best && stored > 0.25, "{stored} against {best}, {num_parts} parts");
        }
    }
}

#[test]
fn a_cache_is_filled_by_the_stored_ranking() {
    let options = FakeOptions { avg_num_nodes: 600, ..FakeOptions::default() };
    let dataset = fake(&options).expect("a graph");
    let dir = tempfile::tempdir().expect("a folder");
    for (name, hotness) in [("ranked", presample()), ("plain", None)] {
        let dir = dir.path().join(name);
        write(&dataset, 2, hotness.clone(), &dir);
        on_ranks(&dir, 2, &DistGraphConfig::default(), |graph, _| {
            let stored = graph.stored_hotness();
            assert_eq!(stored.is_some(), hotness.is_some());
            let contents = graph.cache_features(stored.unwrap_or_else(|| Hotness::new(1)), CacheSize::Ratio(0.5));
            let rows = contents.expect("fill the cache").rows;
            let expected = if hotness.is_some() { 1..=150 } else { 0..=0 };
            assert!(expected.contains(&rows), "{rows} rows");
        });
    }
}

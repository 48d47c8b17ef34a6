//! Tests that a batch with cached features, once assembled, equals the batch without a cache, and that less is fetched.

use crate::support;

use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    CachedRows, DistLinkNeighborLoader, DistNeighborLoader, EdgeSeeds, Exclude, LinkConfig, LoaderConfig, LoaderError,
    MiniBatch, NodeBatch, Seeds,
};
use edgecut_dist_sampler::{
    CacheSize, DistGraph, DistGraphConfig, DistNeighborSampler, Hotness, LookAhead, NodeFields, NumNeighbors,
    SamplerConfig, TrafficCount,
};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{EdgeTypeId, Features, NodeTypeId, Split};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{EVERYTHING, on_machines, on_ranks, parts_of, uniform_negatives, write_parts};

/// The time limit of a wait. Nothing takes that long, even on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

fn sampler(graph: &Arc<DistGraph>) -> Arc<DistNeighborSampler> {
    let config = SamplerConfig::new("4,3".parse::<NumNeighbors>().expect("fan-outs"));
    Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a sampler"))
}

fn config(wanted: NodeFields, cache: Option<Arc<CachedRows>>) -> LoaderConfig {
    LoaderConfig { shuffle: true, seed: 3, cache, ..LoaderConfig::new(12, wanted) }
}

fn of_nodes(graph: &Arc<DistGraph>, world: &mut ProcessGroup, config: LoaderConfig) -> DistNeighborLoader {
    DistNeighborLoader::new(sampler(graph), NodeTypeId(0), Seeds::Owned, config, world).expect("a loader")
}

fn of_edges(graph: &Arc<DistGraph>, world: &mut ProcessGroup, config: LoaderConfig) -> DistLinkNeighborLoader {
    let seeds = EdgeSeeds::Split(Split::Train, vec![EdgeTypeId(0)]);
    let link = LinkConfig { exclude_seed_edges: false, ..uniform_negatives(2, Exclude::Nothing) };
    DistLinkNeighborLoader::new(sampler(graph), seeds, config, link, world).expect("a loader")
}

/// Returns the batches of an epoch and the traffic that they caused. `start` begins the epoch.
fn epoch<T, I>(graph: &DistGraph, start: impl FnOnce() -> I) -> (Vec<T>, TrafficCount)
where
    I: Iterator<Item = Result<T, LoaderError>>,
{
    let before = graph.traffic().count();
    let batches = start().map(|batch| batch.expect("a batch")).collect();
    (batches, graph.traffic().count() - before)
}

/// Assembles the features of `batch` from its own rows and the cached rows by node type. Returns the number of cached
/// rows too.
fn assemble(mut batch: MiniBatch, kept: &[Vec<f32>]) -> (MiniBatch, usize) {
    let mut num_kept = 0;
    for (nodes, kept) in batch.nodes.iter_mut().zip(kept) {
        if nodes.feature_dim == 0 {
            assert!(nodes.cache_slots.is_empty() && nodes.features.is_empty());
            continue;
        }
        assert_eq!(nodes.cache_slots.len(), nodes.input_nodes.len());
        let dim = nodes.feature_dim;
        let mut fetched = nodes.features.chunks_exact(nodes.feature_dim);
        let row = |&slot: &u32| match slot {
            NodeBatch::NOT_CACHED => fetched.next().expect("a row for each node that is not kept").to_vec(),
            slot => kept[slot as usize * dim..][..dim].to_vec(),
        };
        let features: Vec<f32> = nodes.cache_slots.iter().flat_map(row).collect();
        assert!(fetched.next().is_none(), "a row that no node has");
        num_kept += nodes.cache_slots.iter().filter(|&&slot| slot != NodeBatch::NOT_CACHED).count();
        nodes.features = features;
        nodes.cache_slots = Vec::new();
    }
    (batch, num_kept)
}

/// Returns the features of all cached nodes by type, fetched in ranges of slots.
fn fetch(graph: &Arc<DistGraph>, cache: &CachedRows) -> Vec<Vec<f32>> {
    let of_type = |t: usize| {
        let node_type = NodeTypeId(t as u16);
        let meta = &graph.part().meta().node_types[t];
        let rows = cache.nodes(node_type).len();
        let mut features = Vec::new();
        for from in (0..rows).step_by(17) {
            let stretch = cache.fetch(graph, node_type, from..(from + 17).min(rows));
            features.extend(graph.handle().block_on(stretch).expect("the rows are there"));
        }
        assert_eq!(features.len(), rows * meta.feature_dim);
        assert!(graph.handle().block_on(cache.fetch(graph, node_type, 0..rows + 1)).is_err());
        features
    };
    (0..graph.part().meta().node_types.len()).map(of_type).collect()
}

/// Chooses rows to cache from the counts, limited to a fraction 1 / `share` of the bytes.
fn choose(graph: &Arc<DistGraph>, hotness: &Hotness, share: u64) -> Arc<CachedRows> {
    let row_bytes: Vec<u64> = graph.part().meta().node_types.iter().map(|t| 4 * t.feature_dim as u64).collect();
    let all: u64 = hotness.hottest(&row_bytes, u64::MAX).iter().zip(&row_bytes).map(|(n, b)| n.len() as u64 * b).sum();
    let chosen = hotness.hottest(&row_bytes, all / share);
    assert!(chosen.iter().flatten().count() > 0 || share > all);
    Arc::new(CachedRows::new(chosen).expect("each node once"))
}

fn check_nodes(graph: &Arc<DistGraph>, world: &mut ProcessGroup, wanted: NodeFields, share: u64) {
    let plain = of_nodes(graph, world, config(wanted, None));
    let (expected, all_traffic) = epoch(graph, || plain.epoch(0));
    let before = graph.traffic().count();
    let hotness = plain.hotness(0, 2).expect("two batches");
    assert_eq!((graph.traffic().count() - before).remote_nodes, 0, "counting fetches no features");
    for (t, nodes) in expected[0].nodes.iter().enumerate() {
        let in_second = |id: &u32| expected[1].nodes[t].input_nodes.contains(id);
        let of = |id: &u32| hotness.of(t, *id) == 1 + u32::from(in_second(id));
        assert!(nodes.input_nodes.iter().all(of), "an input node of the first batch is counted by batch");
    }
    let cache = choose(graph, &hotness, share);
    let kept = fetch(graph, &cache);
    let cached = of_nodes(graph, world, config(wanted, Some(cache.clone())));
    let (found, traffic) = epoch(graph, || cached.epoch(0));
    assert_eq!(found.len(), expected.len());
    let mut total = 0;
    let mut inputs = 0;
    for (found, expected) in found.into_iter().zip(&expected) {
        let (found, num_kept) = assemble(found, &kept);
        assert!(found == *expected);
        total += num_kept;
        inputs += expected.nodes.iter().map(|nodes| nodes.input_nodes.len()).sum::<usize>();
    }
    assert!(total < inputs && (total > 0 || share == u64::MAX), "{total} of {inputs}");
    if world.size() == 1 || share == u64::MAX {
        assert_eq!(traffic.remote_nodes, all_traffic.remote_nodes);
    } else {
        assert!(traffic.remote_nodes < all_traffic.remote_nodes, "{traffic:?} of {all_traffic:?}");
    }
}

fn check_edges(graph: &Arc<DistGraph>, world: &mut ProcessGroup) {
    let plain = of_edges(graph, world, config(EVERYTHING, None));
    let (expected, all_traffic) = epoch(graph, || plain.epoch(1));
    let cache = choose(graph, &plain.hotness(0, usize::MAX).expect("all batches"), 2);
    let kept = fetch(graph, &cache);
    let cached = of_edges(graph, world, config(EVERYTHING, Some(cache)));
    let (found, traffic) = epoch(graph, || cached.epoch(1));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.into_iter().zip(&expected) {
        let (graph, num_kept) = assemble(found.graph, &kept);
        assert!(graph == expected.graph && found.src == expected.src && found.dst == expected.dst);
        assert!(num_kept > 0 || graph.num_seeds == 0);
    }
    assert!(traffic.remote_nodes < all_traffic.remote_nodes || world.size() == 1, "{traffic:?} of {all_traffic:?}");
}

#[test]
fn kept_and_fetched_rows_make_the_batch() {
    let options = FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 6, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a valid graph");
    let dir = tempfile::tempdir().expect("a folder");
    // One type without features next to those with features.
    dataset.node_types[1].features = None;
    dataset.convert_features(&edgecut_graph::FeatureDtype::Bf16.into()).expect("small values");
    for (num_parts, world_size) in [(1, 1), (2, 2), (2, 4)] {
        let parts = dir.path().join(world_size.to_string());
        write_parts(&dataset, num_parts, Method::Random, &parts);
        let limits = DistGraphConfig { num_workers: 2, fetch_chunk_bytes: 700, ..DistGraphConfig::default() };
        on_ranks(&parts, world_size, &limits, |graph, world| {
            for wanted in [NodeFields::FEATURES, EVERYTHING] {
                for share in [1, 3, u64::MAX] {
                    check_nodes(&graph, world, wanted, share);
                }
            }
            check_edges(&graph, world);
        });
    }
}

/// Every batch and every attribute is the same, whatever the cache and the number of processes that share it.
#[test]
fn a_cache_of_the_machine_changes_the_traffic_alone() {
    let options = FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 6, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a valid graph");
    dataset.node_types[1].features = None;
    let values: Vec<f32> = (0..dataset.node_types[2].num_nodes * 2).map(|value| (value as f32).sin()).collect();
    dataset.node_types[2].features = Some(Features::F32 { values: values.into(), dim: 2 });
    dataset.convert_features(&"v0=int8,v2=f16".parse().expect("types")).expect("small values");
    let dir = tempfile::tempdir().expect("a folder");
    for (parts, ranks, local) in [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 3), (2, 4, 4), (2, 4, 2)] {
        let path = dir.path().join(format!("{parts}-{ranks}-{local}"));
        write_parts(&dataset, parts, Method::Random, &path);
        for (wanted, size, in_degree) in [
            (NodeFields::FEATURES, CacheSize::Ratio(0.3), false),
            (EVERYTHING, CacheSize::Bytes(900), true),
            (EVERYTHING, CacheSize::Ratio(1.0), true),
        ] {
            on_machines(&path, ranks, local, &DistGraphConfig::default(), |graph, world| {
                let loader = of_nodes(&graph, world, config(wanted, None));
                let (expected, before) = epoch(&graph, || loader.epoch(0));
                let hotness =
                    if in_degree { graph.in_degrees_elsewhere() } else { Ok(loader.hotness(0, 4).expect("counts")) };
                let contents = graph.cache_features(hotness.expect("counts"), size).expect("a cache");
                let (found, after) = epoch(&graph, || loader.epoch(0));
                assert!(found == expected, "{parts} parts, {ranks} ranks, {local} on a machine, {size:?}");
                assert_eq!(after.remote_nodes + after.cached_nodes, before.remote_nodes);
                if parts == 1 {
                    assert_eq!((contents.rows, after.cached_nodes), (0, 0));
                } else {
                    assert!(after.cached_nodes > 0, "{after:?}");
                    let has_all = size == CacheSize::Ratio(1.0) && local <= ranks / parts as usize;
                    assert_eq!(after.remote_nodes == 0, has_all, "{after:?}");
                }
                let limit = if let CacheSize::Bytes(bytes) = size { bytes } else { u64::MAX };
                assert!(contents.bytes <= limit, "{contents:?}");
                let again = graph.cache_features(Hotness::new(3), size).unwrap_err().to_string();
                assert!(again.contains("already has a cache"), "{again}");
            });
        }
    }
}

/// Fetches the features of lists of nodes, all at the same time or one after the other.
fn features_of(graph: &Arc<DistGraph>, lists: &[Vec<u32>], at_once: bool) -> (Vec<Vec<f32>>, TrafficCount) {
    let before = graph.traffic().count();
    let fetch = |list: &Vec<u32>| {
        let graph = graph.clone();
        let list = list.clone();
        async move { graph.fetch(NodeTypeId(0), list, NodeFields::FEATURES).await.expect("fetch the rows").features }
    };
    let rows = graph.handle().block_on(async {
        if at_once {
            return futures::future::join_all(lists.iter().map(fetch)).await;
        }
        let mut rows = Vec::new();
        for list in lists {
            rows.push(fetch(list).await);
        }
        rows
    });
    (rows, graph.traffic().count() - before)
}

#[test]
fn rows_that_several_batches_wait_for_are_requested_once() {
    let dataset = support::graph(600, 3000, 7);
    let dir = parts_of(&dataset, 3);
    // Each list overlaps with the other ones, in another order, and pieces of 8 rows are small enough for several
    // requests per part.
    let lists: Vec<Vec<u32>> = vec![
        (0..300).collect(),
        (150..450).rev().collect(),
        (0..600).filter(|id| id % 3 != 1).collect(),
        vec![599, 0, 7],
        Vec::new(),
    ];
    for fetch_chunk_bytes in [8 * 3 * 4, 1 << 20] {
        let config = DistGraphConfig { fetch_chunk_bytes, ..DistGraphConfig::default() };
        let shared = on_ranks(dir.path(), 3, &config, |graph, world| {
            let (expected, plain) = features_of(&graph, &lists, false);
            assert_eq!(plain.shared_nodes, 0);
            world.barrier().expect("all ranks have their rows");
            let (found, shared) = features_of(&graph, &lists, true);
            assert_eq!(found, expected);
            assert_eq!(shared.remote_nodes, plain.remote_nodes);
            // Rows take 12 bytes. Other ranks see no difference but fewer requests.
            assert_eq!(shared.remote_bytes + 12 * shared.shared_nodes, plain.remote_bytes);
            world.barrier().expect("all ranks have their rows");
            shared.shared_nodes
        });
        // A reply that has been taken before another list is looked up is not shared, which is rare.
        assert!(shared.iter().sum::<u64>() > 0);
    }
}

/// Checks the batches of two epochs with a cache that looks ahead, and their traffic.
fn check_look_ahead(graph: &Arc<DistGraph>, world: &mut ProcessGroup, wanted: NodeFields, look_ahead: LookAhead) {
    let nodes = of_nodes(graph, world, config(wanted, None));
    let edges = of_edges(graph, world, LoaderConfig { concurrency: 0, ..config(wanted, None) });
    let (expected, before) = epoch(graph, || nodes.epoch(0));
    let (expected_edges, _) = epoch(graph, || edges.epoch(0));
    graph.look_ahead(look_ahead).expect("a cache");
    let (found, after) = epoch(graph, || nodes.epoch(0));
    assert!(found == expected, "{look_ahead:?}");
    assert_eq!(after.remote_nodes + after.cached_nodes, before.remote_nodes);
    // An epoch that is left, and one from a later step on.
    drop(nodes.epoch(3).next());
    // The batches of the epoch that was left return the cache, maybe later. Without it, the next epochs would not fill it.
    let deadline = Instant::now() + ENDS_WITHIN;
    while graph.look_ahead_of_epoch().is_none() {
        assert!(Instant::now() < deadline, "the epoch that was left keeps the cache");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let (found, _) = epoch(graph, || nodes.epoch_map_from(0, 2, |batch| batch));
    assert!(found == expected[2..], "{look_ahead:?}");
    drop(nodes.epoch(0).collect::<Vec<_>>());
    let (found, again) = epoch(graph, || nodes.epoch(0));
    assert!(found == expected, "{look_ahead:?}");
    let (found_edges, _) = epoch(graph, || edges.epoch(0));
    assert!(found_edges == expected_edges, "{look_ahead:?}");
    // A limit below the bytes of one neighborhood.
    let narrow = of_nodes(graph, world, LoaderConfig { prefetch_bytes: 1, ..config(wanted, None) });
    let (found, _) = epoch(graph, || narrow.epoch(0));
    assert!(found == expected, "{look_ahead:?}");
    if graph.part().meta().num_parts == 1 {
        assert_eq!(after.cached_nodes, 0);
    } else if look_ahead.size == CacheSize::Ratio(100.0) {
        // The rows of all epochs fit, so the same batches need none again.
        assert_eq!(again.remote_nodes, 0, "{again:?}");
    } else if look_ahead.size == CacheSize::Bytes(0) {
        assert_eq!(after.cached_nodes, 0);
    } else {
        assert!(after.cached_nodes > 0, "{after:?}");
    }
    assert_has(graph.look_ahead(look_ahead).unwrap_err().to_string(), &["already has a cache that looks ahead"]);
    let fixed = graph.cache_features(Hotness::new(3), look_ahead.size).unwrap_err().to_string();
    assert!(fixed.contains("already has a cache that looks ahead"), "{fixed}");
}

#[test]
fn a_cache_that_looks_ahead_changes_the_traffic_alone() {
    let options = FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 6, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a valid graph");
    dataset.node_types[1].features = None;
    dataset.convert_features(&"v0=int8".parse().expect("types")).expect("small values");
    let dir = tempfile::tempdir().expect("a folder");
    for (parts, ranks, local) in [(1, 1, 1), (2, 2, 1), (3, 3, 3), (2, 4, 4)] {
        let path = dir.path().join(format!("{parts}-{ranks}-{local}"));
        write_parts(&dataset, parts, Method::Random, &path);
        for (number, size) in
            [CacheSize::Bytes(0), CacheSize::Bytes(900), CacheSize::Ratio(100.0)].into_iter().enumerate()
        {
            let ahead = [(NodeFields::FEATURES, 1), (EVERYTHING, 3), (EVERYTHING, 100)];
            // All pairs where ranks share parts, and one for each size elsewhere.
            let ahead = if ranks == 4 { &ahead[..] } else { &ahead[number..=number] };
            for &(wanted, num_batches) in ahead {
                let limits = DistGraphConfig { num_workers: 2, fetch_chunk_bytes: 700, ..DistGraphConfig::default() };
                on_machines(&path, ranks, local, &limits, |graph, world| {
                    check_look_ahead(&graph, world, wanted, LookAhead { size, num_batches });
                });
            }
        }
    }
}

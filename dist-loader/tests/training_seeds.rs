//! Tests of a rank's own training seeds: each occurs once per epoch, and ranks with unequal parts take the same number
//! of steps.

use crate::support;

use edgecut_cluster::{ProcessGroup, with_causes};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, Labor, NodeFields, SamplerConfig};
use edgecut_graph::{Dataset, NodeTypeId, Split};
use edgecut_partition::Method;
use std::path::Path;
use std::sync::Arc;
use support::{on_ranks, write_parts};

const NODES: NodeTypeId = NodeTypeId(0);

/// Returns, for each rank, the number of steps and the original ids of the seeds in each step.
fn epoch(
    dir: &Path,
    world_size: usize,
    epoch: u64,
    batch_size: usize,
    even_batches: bool,
) -> Vec<(usize, Vec<Vec<u32>>)> {
    on_ranks(dir, world_size, &DistGraphConfig::default(), |graph, world| {
        let config = SamplerConfig::new(vec![Fanout::Count(3)]);
        let sampler = Arc::new(DistNeighborSampler::new(graph, config).expect("a valid sampler"));
        let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
        let config = LoaderConfig { even_batches, shuffle: true, seed: 5, ..LoaderConfig::new(batch_size, wanted) };
        let loader =
            DistNeighborLoader::new(sampler, NODES, Seeds::Split(Split::Train), config, world).expect("a valid loader");
        let seeds = loader.epoch(epoch).map(|batch| {
            let batch = batch.expect("a batch");
            batch.nodes.first().map_or(Vec::new(), |nodes| nodes.original_ids[..batch.num_seeds].to_vec())
        });
        (loader.num_steps(), seeds.collect())
    })
}

fn train_nodes(dataset: &Dataset) -> Vec<u32> {
    dataset.node_types[0].splits.train.to_vec()
}

#[test]
fn every_training_node_is_a_seed_once_an_epoch_and_all_ranks_take_the_same_steps() {
    let dataset = support::graph(200, 900, 3);
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (num_parts, world_size, batch_size) in [(1, 1, 16), (3, 3, 7), (2, 6, 5), (1, 4, 1024), (3, 2, 7), (2, 3, 6)] {
        let parts = dir.path().join(format!("{num_parts}-{world_size}"));
        write_parts(&dataset, num_parts, Method::Random, &parts);
        for even_batches in [false, true] {
            let ranks = epoch(&parts, world_size, 0, batch_size, even_batches);
            assert!(ranks.iter().all(|(steps, batches)| *steps == ranks[0].0 && batches.len() == *steps));
            let mut seen: Vec<u32> = ranks.iter().flat_map(|(_, batches)| batches.iter().flatten().copied()).collect();
            seen.sort_unstable();
            assert_eq!(seen, train_nodes(&dataset));
            assert_ne!(
                ranks,
                epoch(&parts, world_size, 1, batch_size, even_batches),
                "another epoch has another order"
            );
            assert_eq!(
                ranks,
                epoch(&parts, world_size, 0, batch_size, even_batches),
                "the same epoch has the same order"
            );
        }
    }
}

#[test]
fn a_rank_without_seeds_gets_empty_batches() {
    let mut dataset = support::graph(60, 200, 4);
    let dir = tempfile::tempdir().expect("a temporary folder");
    // All training nodes are on one part: the first partitioning finds the nodes of the part, and the second uses them
    // as the split.
    let parts = dir.path().join("before");
    write_parts(&dataset, 2, Method::Random, &parts);
    let own = edgecut_graph::Part::open(&parts, edgecut_graph::DiskPartId(1), true).expect("part 1");
    dataset.node_types[0].splits.train = own.nodes(NODES).original_ids.clone();
    let parts = dir.path().join("after");
    write_parts(&dataset, 2, Method::Random, &parts);
    let ranks = epoch(&parts, 2, 0, 8, true);
    let expected = dataset.node_types[0].splits.train.len().div_ceil(8);
    assert_eq!(ranks.iter().map(|(steps, _)| *steps).collect::<Vec<_>>(), [expected; 2]);
    let seeds = |rank: usize| ranks[rank].1.iter().map(Vec::len).sum::<usize>();
    assert_eq!(seeds(0) + seeds(1), dataset.node_types[0].splits.train.len());
    assert!(ranks.iter().any(|(_, batches)| batches.iter().all(Vec::is_empty)), "one rank has none");
}

#[test]
fn ranks_with_other_settings_or_lists_are_rejected() {
    let dataset = support::graph(40, 100, 5);
    for (num_parts, world_size) in [(1, 2), (2, 2), (3, 2), (2, 3)] {
        let dir = support::parts_of(&dataset, num_parts);
        let errors = on_ranks(dir.path(), world_size, &DistGraphConfig::default(), |graph, world| {
            errors_of_other_settings(&graph, world)
        });
        for (name, error) in errors.into_iter().flatten() {
            assert!(error.contains(name) && error.is_empty() == name.is_empty(), "{name}: {error}");
            let has_remedy = error.contains("pass the same settings in every process, and whole lists");
            assert!(name.is_empty() || has_remedy, "{error}");
        }
    }
}

/// Returns the errors of loaders whose settings differ between the ranks, each with a part of its expected text.
fn errors_of_other_settings(graph: &Arc<DistGraph>, world: &mut ProcessGroup) -> Vec<(&'static str, String)> {
    let rank = world.rank();
    let is_first = rank == 0;
    let plain = LoaderConfig::new(4, NodeFields::default());
    let whole = Seeds::Listed((0..20).collect());
    let own: Vec<u32> = (rank as u32..40).step_by(2).collect();
    let timed = (0..20).map(|node| (node, rank as i64)).collect();
    let all = SamplerConfig::new(vec![Fanout::All]);
    let drawn = SamplerConfig::new(vec![Fanout::Count(2)]);
    let other_fanouts = SamplerConfig::new(vec![Fanout::Count(2 + rank.min(1) as u32)]);
    let labor = drawn.clone().with_labor(is_first.then(Labor::default));
    let other_wanted = LoaderConfig::new(4, NodeFields { labels: is_first, ..NodeFields::default() });
    let cases = [
        ("", whole.clone(), plain.clone(), all.clone()),
        ("seeds is a list of ", Seeds::Listed(own), plain.clone(), all.clone()),
        ("seeds is a list of 20 ", Seeds::Timed(timed), plain.clone(), all.clone()),
        ("seeds is all nodes on", if is_first { Seeds::Owned } else { whole.clone() }, plain.clone(), all.clone()),
        (
            "is the split train on",
            Seeds::Split(if is_first { Split::Train } else { Split::Test }),
            plain.clone(),
            all.clone(),
        ),
        ("batch_size is 4 on", whole.clone(), LoaderConfig { batch_size: 4 + rank, ..plain.clone() }, all.clone()),
        ("", Seeds::Owned, LoaderConfig { batch_size: 4 + rank, ..plain.clone() }, all.clone()),
        ("", Seeds::Owned, LoaderConfig { concurrency: rank, ..plain.clone() }, all.clone()),
        ("seed is 0 on", whole.clone(), LoaderConfig { seed: rank as u64, ..plain.clone() }, all.clone()),
        ("shuffle is true on", whole.clone(), LoaderConfig { shuffle: is_first, ..plain.clone() }, all.clone()),
        (
            "even_batches is true on",
            Seeds::Owned,
            LoaderConfig { even_batches: is_first, ..plain.clone() },
            all.clone(),
        ),
        ("wanted.labels is true on", whole.clone(), other_wanted, all.clone()),
        ("num_neighbors is 2 on rank 0 and 3 on rank 1", whole.clone(), plain.clone(), other_fanouts),
        ("replace is true on", whole.clone(), plain.clone(), drawn.clone().with_replacement(is_first)),
        ("disjoint is true on", whole.clone(), plain.clone(), drawn.clone().with_disjoint(is_first)),
        ("isolated is true on", whole.clone(), plain.clone(), drawn.clone().with_isolation(is_first)),
        ("labor is {\"batch_dependency\":1} on rank 0 and not set on", whole.clone(), plain.clone(), labor),
        ("", whole, plain, drawn),
    ];
    let mut errors = Vec::new();
    for (name, seeds, config, sampler) in cases {
        let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler).expect("a valid sampler"));
        let error = DistNeighborLoader::new(sampler, NODES, seeds, config, world).err();
        errors.push((name, error.map_or(String::new(), |error| with_causes(&error))));
    }
    errors
}

#[test]
fn an_unlucky_request_is_one_clear_error() {
    let dataset = support::graph(40, 100, 5);
    let dir = support::parts_of(&dataset, 2);
    let errors = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        let missing =
            graph.handle().block_on(graph.find_originals(NODES, &[3, 40])).expect_err("40 is not a node").to_string();
        let config = SamplerConfig::new(vec![Fanout::All]);
        let sampler = Arc::new(DistNeighborSampler::new(graph, config).expect("a valid sampler"));
        let mut failing = |seeds: Vec<u32>| -> String {
            let config =
                LoaderConfig { even_batches: true, concurrency: 1, ..LoaderConfig::new(4, NodeFields::default()) };
            let loader =
                DistNeighborLoader::new(sampler.clone(), NODES, Seeds::Listed(seeds), config, world).expect("a loader");
            let mut batches = loader.epoch(0).filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_seeds > 0));
            let error = batches.next().map(|batch| batch.map_err(|error| with_causes(&error)));
            assert!(batches.next().is_none(), "an error ends the epoch");
            error.map_or(String::new(), |batch| batch.expect_err("the batch must fail"))
        };
        [missing, failing(vec![1, 2, 2]), failing(vec![1, 99])]
    });
    assert!(errors[0][0].contains("node 40 (entry 1)"), "{}", errors[0][0]);
    assert!(errors[0][1].contains("seed 2 occurs twice"), "{}", errors[0][1]);
    assert!(errors[0][2].contains("node 99"), "{}", errors[0][2]);
}

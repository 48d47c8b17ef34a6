//! Tests of batches of labeled edges: they do not depend on the number of parts, have each edge of a split once, with its own
//! label and attributes, and pass no message over these edges and their reverses.

use crate::link_batches::to_global;
use crate::support;

use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    DistEdgeNeighborLoader, EdgeConfig, EdgeSeeds, EpochSegment, LabeledEdgeBatch, LoaderConfig, LoaderError, SeedEdge,
};
use edgecut_dist_sampler::{
    DistGraph, DistGraphConfig, DistNeighborSampler, EdgeFields, Fanout, NodeFields, SamplerConfig, Temporal,
    TemporalStrategy, TimeAttr,
};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{
    Dataset, EdgeLabelValues, EdgeLabels, EdgeTypeId, Features, NO_SPLIT, Split, TargetKind, Targets, Workspace,
};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use support::{assert_partition_independent, in_original_ids, merged, on_ranks, parts_of, write_parts};

/// The edge type `e0` from v0 to v1. The dataset has its reverse as type 6.
const EDGES: EdgeTypeId = EdgeTypeId(0);
const REVERSES: usize = 6;
const BATCH_SIZE: usize = 12;

/// Returns a graph whose edges have their number as their feature, and a class or two numbers that follow from it.
pub(crate) fn dataset(has_classes: bool) -> Dataset {
    let options = FakeOptions { avg_num_nodes: 90, avg_degree: 4.0, num_channels: 4, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a valid graph");
    for edges in &mut dataset.edge_types {
        let times = (0..edges.src.len()).map(|edge| (edge * 31 % 60) as i64);
        edges.attributes.times = Some(times.collect::<Vec<_>>().into());
    }
    let edges = &mut dataset.edge_types[0];
    let numbers = 0..edges.src.len();
    let values: Vec<f32> = numbers.clone().map(|edge| edge as f32).collect();
    edges.attributes.features = Some(Features::F32 { values: values.into(), dim: 1 });
    edges.attributes.weights = Some(numbers.clone().map(|edge| 1.0 + edge as f32).collect::<Vec<_>>().into());
    let values = if has_classes {
        EdgeLabelValues::Classes { of_edges: numbers.clone().map(class).collect::<Vec<_>>().into(), num_classes: 3 }
    } else {
        let values: Vec<f32> = numbers.clone().flat_map(|edge| [edge as f32 / 2.0, -(edge as f32)]).collect();
        EdgeLabelValues::Targets(Targets { values: values.into(), dim: 2, kind: TargetKind::Regression })
    };
    let splits: Vec<u8> = numbers.map(|edge| split(edge).map_or(NO_SPLIT, Split::code)).collect();
    edges.attributes.labels = Some(EdgeLabels { values, splits: splits.into() });
    dataset.validate().expect("a valid graph");
    dataset.number_edges_in(&Workspace::default()).expect("edges without ids");
    dataset.add_reverse_edges();
    dataset
}

fn class(edge: usize) -> i64 {
    if split(edge).is_none() { -1 } else { edge as i64 % 3 }
}

fn split(edge: usize) -> Option<Split> {
    Split::of_code((edge % 5) as u8)
}

/// Returns every seventh edge as a seed, in original ids.
fn listed(dataset: &Dataset) -> Vec<SeedEdge> {
    let edges = dataset.edges(EDGES);
    let times = edges.attributes.times.as_ref().expect("times");
    let seed = |edge: usize| {
        let earlier = edges.dst[..edge].iter().filter(|&&dst| dst == edges.dst[edge]).count();
        SeedEdge {
            edge_type: EDGES,
            src: edges.src[edge],
            dst: edges.dst[edge],
            time: Some(times[edge]),
            position: Some(earlier as u32),
        }
    };
    (0..edges.src.len()).step_by(7).map(seed).collect()
}

/// The settings of a loader that tests vary.
#[derive(Clone, Copy, Debug)]
struct Case {
    disjoint: bool,
    temporal: bool,
    excludes: bool,
}

const PLAIN: Case = Case { disjoint: false, temporal: false, excludes: true };
const CASES: [Case; 4] =
    [PLAIN, Case { disjoint: true, ..PLAIN }, Case { temporal: true, ..PLAIN }, Case { excludes: false, ..PLAIN }];

fn loader(
    graph: &Arc<DistGraph>,
    case: Case,
    seeds: EdgeSeeds,
    world: &mut ProcessGroup,
) -> Result<DistEdgeNeighborLoader, LoaderError> {
    let temporal = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
    let config = SamplerConfig::new(vec![Fanout::All, Fanout::Count(3)])
        .with_disjoint(case.disjoint)
        .with_times(case.temporal.then_some(temporal))
        .with_edge_attributes(EdgeFields { times: true, ..EdgeFields::default() });
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"));
    let config = LoaderConfig {
        seed: 8,
        ..LoaderConfig::new(BATCH_SIZE, NodeFields { original_ids: true, ..NodeFields::default() })
    };
    let attributes = EdgeFields { times: true, weights: true, features: true, labels: true, ids: true };
    let edges =
        EdgeConfig { edge_type: EDGES, exclude_seed_edges: case.excludes, reverse_types: Vec::new(), attributes };
    DistEdgeNeighborLoader::new(sampler, seeds, config, edges, world)
}

/// Returns all batches of all cases with listed seeds, in order and in original ids.
fn batches(dataset: &Dataset, dir: &Path, world_size: usize, config: &DistGraphConfig) -> Vec<Vec<LabeledEdgeBatch>> {
    merged(on_ranks(dir, world_size, config, |graph, world| {
        let mut of_case = |case: Case| {
            let seeds = EdgeSeeds::Listed(to_global(&graph, listed(dataset)));
            let batches = loader(&graph, case, seeds, world).expect("a valid loader").epoch(2);
            batches.map(|batch| batch.expect("a batch")).collect()
        };
        CASES.map(&mut of_case).to_vec()
    }))
}

/// Checks the edges of a batch, whose features are their numbers, against the dataset, and returns the numbers.
fn check_edges(dataset: &Dataset, batch: &LabeledEdgeBatch) -> Vec<usize> {
    let edges = dataset.edges(EDGES);
    let id = |node_type: usize, number: u32| batch.graph.nodes[node_type].original_ids[number as usize];
    let numbers: Vec<usize> = batch.attributes.features.iter().map(|&number| number as usize).collect();
    assert_eq!(numbers.len(), batch.graph.num_seeds);
    for (at, &edge) in numbers.iter().enumerate() {
        let [src_type, dst_type] = [edges.src_type.index(), edges.dst_type.index()];
        assert_eq!((id(src_type, batch.src[at]), id(dst_type, batch.dst[at])), (edges.src[edge], edges.dst[edge]));
        assert!(batch.src[at] < batch.graph.nodes[src_type].hop_offsets[0]);
        assert!(batch.dst[at] < batch.graph.nodes[dst_type].hop_offsets[0]);
        assert_eq!(batch.attributes.weights[at], 1.0 + edge as f32);
        assert_eq!(batch.attributes.times[at], (edge * 31 % 60) as i64);
        assert_eq!(batch.attributes.ids[at], edge as i64);
        match batch.graph.target_dim {
            0 => assert_eq!(batch.graph.labels[at], class(edge)),
            _ => assert_eq!(batch.graph.targets[2 * at..][..2], [edge as f32 / 2.0, -(edge as f32)]),
        }
    }
    numbers
}

/// Returns the number of messages between the ends of the batch's own edges, in either direction. In disjoint sampling, these
/// are the messages over the edge of each neighborhood.
fn own_messages(dataset: &Dataset, batch: &LabeledEdgeBatch) -> usize {
    let id = |node_type: usize, number: u32| batch.graph.nodes[node_type].original_ids[number as usize];
    let edges = dataset.edges(EDGES);
    let ends = |at: usize| (id(edges.src_type.index(), batch.src[at]), id(edges.dst_type.index(), batch.dst[at]));
    let is_disjoint = batch.graph.nodes.iter().any(|nodes| !nodes.batch.is_empty());
    let mut own: HashSet<(u32, (u32, u32))> = HashSet::new();
    for seed in 0..batch.graph.num_seeds {
        own.insert((if is_disjoint { seed as u32 } else { 0 }, ends(seed)));
    }
    let mut found = 0;
    for (e, is_reverse) in [(EDGES.index(), false), (REVERSES, true)] {
        let of_type = &dataset.edge_types[e];
        let drawn = &batch.graph.edges[e];
        for row in 0..drawn.indptr.len() - 1 {
            for &number in &drawn.indices[drawn.indptr[row] as usize..drawn.indptr[row + 1] as usize] {
                let from = id(of_type.src_type.index(), number);
                let to = id(of_type.dst_type.index(), row as u32);
                let neighborhood = batch.graph.nodes[of_type.dst_type.index()].batch.get(row).copied().unwrap_or(0);
                found += usize::from(own.contains(&(neighborhood, if is_reverse { (to, from) } else { (from, to) })));
            }
        }
    }
    found
}

/// Returns the number of edges of all batches.
fn num_messages(batches: &[LabeledEdgeBatch]) -> usize {
    batches.iter().flat_map(|batch| &batch.graph.edges).map(|edges| edges.indices.len()).sum()
}

#[test]
fn disjoint_neighborhoods_have_the_other_edges_of_the_batch() {
    let dataset = dataset(true);
    let dir = parts_of(&dataset, 2);
    let found = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        [true, false].map(|excludes| {
            let case = Case { disjoint: true, excludes, ..PLAIN };
            let seeds = EdgeSeeds::Listed(to_global(&graph, listed(&dataset)));
            let loader = loader(&graph, case, seeds, world).expect("a valid loader");
            loader.epoch(2).map(|batch| in_original_ids(batch.expect("a batch"))).collect::<Vec<_>>()
        })
    });
    let mut of_others = 0;
    for [excluding, including] in &found {
        assert!(num_messages(excluding) < num_messages(including));
        for batch in excluding.iter().filter(|batch| batch.graph.num_seeds > 0) {
            assert_eq!(own_messages(&dataset, batch), 0);
            let mut shared = batch.clone();
            shared.graph.nodes.iter_mut().for_each(|nodes| nodes.batch.clear());
            of_others += own_messages(&dataset, &shared);
        }
    }
    assert!(of_others > 0, "no neighborhood has the edge of another neighborhood");
}

#[test]
fn batches_of_labeled_edges_do_not_depend_on_the_partitioning() {
    for has_classes in [true, false] {
        let dataset = dataset(has_classes);
        let dir = tempfile::tempdir().expect("a temporary folder");
        let expected = assert_partition_independent(&dataset, dir.path(), 2400, |parts, ranks, config| {
            batches(&dataset, parts, ranks, config)
        });
        for (case, batches) in CASES.iter().zip(&expected) {
            assert_eq!(batches.len(), listed(&dataset).len().div_ceil(BATCH_SIZE));
            let numbers: Vec<usize> = batches.iter().flat_map(|batch| check_edges(&dataset, batch)).collect();
            assert_eq!(numbers, (0..dataset.edges(EDGES).src.len()).step_by(7).collect::<Vec<_>>());
            let num_messages: usize = batches.iter().map(|batch| own_messages(&dataset, batch)).sum();
            assert_eq!(num_messages > 0, !case.excludes, "{case:?}: {num_messages} messages over the edges themselves");
            if case.temporal {
                batches.iter().for_each(|batch| check_times(&dataset, batch));
            }
        }
    }
}

/// Checks that the edges in the neighborhood of each edge are not later than the edge.
fn check_times(dataset: &Dataset, batch: &LabeledEdgeBatch) {
    for (of_type, drawn) in dataset.edge_types.iter().zip(&batch.graph.edges) {
        let groups = &batch.graph.nodes[of_type.dst_type.index()].batch;
        for (ends, &group) in drawn.indptr.windows(2).zip(groups) {
            let own = batch.attributes.times[group as usize];
            let in_edges = ends[0] as usize..ends[1] as usize;
            assert!(drawn.attributes.times[in_edges].iter().all(|&time| time <= own));
        }
    }
}

/// Returns the numbers of the edges of a split in the batches of each rank.
fn seeds_of_split(dataset: &Dataset, dir: &Path, world_size: usize, split: Split) -> Vec<Vec<usize>> {
    on_ranks(dir, world_size, &DistGraphConfig::default(), |graph, world| {
        let loader = loader(&graph, PLAIN, EdgeSeeds::Labeled(split, EDGES), world).expect("a valid loader");
        let batches = loader.epoch(0).map(|batch| in_original_ids(batch.expect("a batch")));
        let full = batches.filter(|batch| batch.graph.num_seeds > 0);
        full.flat_map(|batch| check_edges(dataset, &batch)).collect()
    })
}

#[test]
fn every_labeled_edge_of_a_split_is_a_seed_once_over_all_ranks() {
    let dataset = dataset(true);
    let dir = tempfile::tempdir().expect("a temporary folder");
    for num_parts in [2, 3] {
        write_parts(&dataset, num_parts, Method::Random, &dir.path().join(format!("{num_parts}")));
    }
    for wanted in Split::ALL {
        for (num_parts, world_size) in [(2, 4), (3, 2), (2, 3)] {
            let parts = dir.path().join(format!("{num_parts}"));
            let mut found = seeds_of_split(&dataset, &parts, world_size, wanted).concat();
            found.sort_unstable();
            let num_edges = dataset.edges(EDGES).src.len();
            let expected: Vec<usize> = (0..num_edges).filter(|&edge| split(edge) == Some(wanted)).collect();
            assert_eq!(found, expected, "{wanted:?}, {num_parts} parts on {world_size} ranks");
        }
    }
}

/// The messages in the neighborhoods of an edge: their types and ends, ascending.
type Messages = Vec<(usize, u32, u32)>;

/// Returns the messages of each training edge in disjoint sampling, by the number of the edge. `layout` are the parts and the
/// number of ranks.
fn messages_of_edges(
    dataset: &Dataset,
    layout: (&Path, usize),
    case: Case,
    draws_by_seed: bool,
) -> BTreeMap<usize, Messages> {
    let (dir, world_size) = layout;
    let of_ranks = on_ranks(dir, world_size, &DistGraphConfig::default(), |graph, world| {
        let seeds = EdgeSeeds::Labeled(Split::Train, EDGES);
        let mut loader = loader(&graph, case, seeds, world).expect("a valid loader");
        if draws_by_seed {
            loader = loader.with_draws_by_seed();
        }
        let mut of_edges: BTreeMap<usize, Messages> = BTreeMap::new();
        for batch in loader.epoch(2) {
            let batch = in_original_ids(batch.expect("a batch"));
            let numbers = check_edges(dataset, &batch);
            numbers.iter().for_each(|&number| assert!(of_edges.insert(number, Messages::new()).is_none()));
            for (e, (of_type, drawn)) in dataset.edge_types.iter().zip(&batch.graph.edges).enumerate() {
                let sources = &batch.graph.nodes[of_type.src_type.index()].original_ids;
                let destinations = &batch.graph.nodes[of_type.dst_type.index()];
                for (row, ends) in drawn.indptr.windows(2).enumerate() {
                    let edge = numbers[destinations.batch[row] as usize];
                    let to = destinations.original_ids[row];
                    for &number in &drawn.indices[ends[0] as usize..ends[1] as usize] {
                        of_edges.entry(edge).or_default().push((e, sources[number as usize], to));
                    }
                }
            }
        }
        of_edges.values_mut().for_each(|messages| messages.sort_unstable());
        of_edges
    });
    of_ranks.into_iter().flatten().collect()
}

#[test]
fn draws_by_seed_do_not_depend_on_batches_parts_and_processes() {
    let dataset = dataset(true);
    let [one, two, three] = [1, 2, 3].map(|num_parts| parts_of(&dataset, num_parts));
    let layouts = [(two.path(), 2), (three.path(), 2), (two.path(), 3)];
    for case in [Case { disjoint: true, ..PLAIN }, Case { temporal: true, ..PLAIN }] {
        let expected = messages_of_edges(&dataset, (one.path(), 1), case, true);
        for layout in layouts {
            assert!(messages_of_edges(&dataset, layout, case, true) == expected, "{case:?}, {layout:?}");
        }
        let by_batch = messages_of_edges(&dataset, (one.path(), 1), case, false);
        assert!(messages_of_edges(&dataset, layouts[0], case, false) != by_batch, "other batches draw other neighbors");
    }
}

#[test]
fn other_numbers_of_processes_take_the_rest_of_an_epoch() {
    let dataset = dataset(true);
    let dir = parts_of(&dataset, 3);
    let config = DistGraphConfig::default();
    let steps = 2;
    let seeds = || EdgeSeeds::Labeled(Split::Train, EDGES);
    let first = on_ranks(dir.path(), 3, &config, |graph, world| {
        let loader = loader(&graph, PLAIN, seeds(), world).expect("a valid loader");
        let batches = loader.epoch(1).take(steps).map(|batch| batch.expect("a batch"));
        let numbers: Vec<f32> = batches.flat_map(|batch| batch.attributes.features).collect();
        (numbers, EpochSegment { world_size: 3, num_groups: 3, num_steps: loader.num_steps(), steps })
    });
    let segment = first[0].1;
    let rest = on_ranks(dir.path(), 2, &config, |graph, world| {
        let loader = loader(&graph, PLAIN, seeds(), world).expect("a valid loader");
        let rest = loader.rest_of_epoch(1, &[segment], world).expect("the rest");
        rest.epoch(1).flat_map(|batch| batch.expect("a batch").attributes.features).collect::<Vec<f32>>()
    });
    let mut all: Vec<usize> =
        first.into_iter().map(|(numbers, _)| numbers).chain(rest).flatten().map(|number| number as usize).collect();
    all.sort_unstable();
    let num_edges = dataset.edges(EDGES).src.len();
    assert_eq!(all, (0..num_edges).filter(|&edge| split(edge) == Some(Split::Train)).collect::<Vec<_>>());
}

#[test]
fn seeds_that_are_not_edges_of_the_type_are_refused() {
    let dataset = dataset(true);
    let dir = parts_of(&dataset, 1);
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let held_out = EdgeSeeds::Split(Split::Test, vec![EDGES]);
        let other_type = EdgeSeeds::Labeled(Split::Train, EdgeTypeId(1));
        let without_position =
            listed(&dataset).into_iter().map(|edge| SeedEdge { position: None, ..edge }).collect::<Vec<_>>();
        for (seeds, why) in [
            (held_out, "edges of the configured type"),
            (other_type, "edges of the configured type"),
            (EdgeSeeds::Listed(without_position), "edge 0 of the list has no position"),
        ] {
            assert_has(loader(&graph, PLAIN, seeds, world).err().expect("it is refused").to_string(), &[why]);
        }
    });
}

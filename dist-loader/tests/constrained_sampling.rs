//! Tests that weighted, temporal and disjoint neighborhoods do not depend on the number of parts, and that all drawn
//! neighbors are allowed.

use crate::support;

use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, MiniBatch, NodeBatch, Seeds};
use edgecut_dist_sampler::{
    DistGraphConfig, DistNeighborSampler, EdgeFields, Fanout, Labor, NodeFields, NumNeighbors, SampledEdgeAttributes,
    SamplerConfig, Temporal, TemporalStrategy, TimeAttr,
};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, Features, NodeTypeId, Split, Workspace};
use edgecut_testing::assert_has;
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use support::{EVERYTHING, Numbers, assert_partition_independent, graph, merged, on_ranks, parts_of};

const NODES: NodeTypeId = NodeTypeId(0);
const NUM_SEEDS: u32 = 60;
const FANOUTS: [i64; 2] = [4, 3];

fn dataset() -> Dataset {
    let mut dataset = graph(160, 1400, 5);
    let mut numbers = Numbers(77);
    let num_edges = dataset.num_edges();
    let edges = &mut dataset.edge_types[0];
    edges.attributes.weights = Some((0..num_edges).map(|_| numbers.below(4) as f32 * 0.5).collect::<Vec<_>>().into());
    edges.attributes.times = Some((0..num_edges).map(|_| numbers.below(100) as i64 - 50).collect::<Vec<_>>().into());
    // The first feature of an edge is its position in the edge list.
    let values = (0..num_edges).flat_map(|edge| [edge as f32, 0.5]).collect::<Vec<_>>();
    edges.attributes.features = Some(Features::F32 { values: values.into(), dim: 2 });
    let times = (0..160).map(|_| numbers.below(100) as i64 - 50);
    dataset.node_types[0].times = Some(times.collect::<Vec<_>>().into());
    dataset.number_edges_in(&Workspace::default()).expect("edges without ids");
    dataset
}

/// Returns a sampler that draws uniformly.
fn plain() -> SamplerConfig {
    SamplerConfig::new(FANOUTS.map(|fanout| Fanout::Count(fanout as u32)).to_vec())
}

/// Returns samplers that draw within parts.
fn isolated_cases() -> [SamplerConfig; 4] {
    [plain(), plain().with_labor(Some(Labor::default())), plain().with_weights(true), plain().with_disjoint(true)]
}

fn cases() -> Vec<SamplerConfig> {
    let temporal = |attr, strategy| Some(Temporal { attr, strategy });
    let labor = Some(Labor::default());
    let labor_over_batches = NonZeroU32::new(2).map(|batch_dependency| Labor { batch_dependency });
    let uniform = TemporalStrategy::Uniform;
    let last = TemporalStrategy::Last;
    vec![
        plain().with_weights(true),
        plain().with_weights(true).with_replacement(true),
        plain().with_disjoint(true),
        plain().with_edge_attributes(EdgeFields {
            times: true,
            weights: true,
            features: true,
            labels: false,
            ids: true,
        }),
        plain()
            .with_times(temporal(TimeAttr::EdgeTime, uniform))
            .with_positions(true)
            .with_edge_attributes(EdgeFields { features: true, ..EdgeFields::default() }),
        plain().with_times(temporal(TimeAttr::EdgeTime, last)).with_positions(true),
        plain().with_times(temporal(TimeAttr::NodeTime, uniform)).with_weights(true),
        SamplerConfig::new(vec![Fanout::All; 2]).with_times(temporal(TimeAttr::NodeTime, last)),
        plain().with_labor(labor).with_weights(true),
        plain().with_labor(labor).with_disjoint(true),
        plain().with_labor(labor).with_times(temporal(TimeAttr::EdgeTime, uniform)).with_positions(true),
        plain().with_labor(labor_over_batches).with_times(temporal(TimeAttr::NodeTime, uniform)).with_weights(true),
    ]
}

/// Returns seeds in original ids with their times. Some nodes are listed at several times.
fn timed_seeds() -> Vec<(u32, i64)> {
    (0..NUM_SEEDS).map(|i| (i * 37 % 50, i64::from(i % 9) * 12 - 45)).collect()
}

fn batches(dir: &Path, world_size: usize, config: &DistGraphConfig) -> Vec<Vec<MiniBatch>> {
    merged(on_ranks(dir, world_size, config, |graph, world| {
        let (originals, times): (Vec<u32>, Vec<i64>) = timed_seeds().into_iter().unzip();
        let ids = graph.handle().block_on(graph.find_originals(NODES, &originals)).expect("all seeds exist");
        let of_case = |sampler_config: SamplerConfig| {
            let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler_config).expect("a valid sampler"));
            let seeds = match sampler.temporal() {
                Some(_) => Seeds::Timed(ids.iter().copied().zip(times.iter().copied()).collect()),
                // Shared neighborhoods need distinct seeds.
                None => Seeds::Listed(ids[..50].to_vec()),
            };
            let wanted = NodeFields { times: true, degrees: false, in_weights: false, ..EVERYTHING };
            let config = LoaderConfig { seed: 3, ..LoaderConfig::new(25, wanted) };
            let loader = DistNeighborLoader::new(sampler, NODES, seeds, config, world).expect("a valid loader");
            loader.epoch(1).map(|batch| batch.expect("a batch")).collect()
        };
        cases().into_iter().map(of_case).collect()
    }))
}

/// Checks that every drawn neighbor is allowed, and that as many are drawn as possible.
fn check(dataset: &Dataset, config: &SamplerConfig, batch: &MiniBatch, first_seed: usize) {
    let edges = &dataset.edge_types[0];
    let nodes = &batch.nodes[0];
    let drawn = &batch.edges[0];
    let node_times = dataset.node_types[0].times.as_ref().expect("nodes have times");
    let weights = &edges.attributes.weights;
    let times = &edges.attributes.times;
    let weights = weights.as_ref().expect("weights");
    let times = times.as_ref().expect("times");
    check_groups(config, nodes, batch.num_seeds);
    check_edges(dataset, config.edge_attributes, batch);
    check_positions(dataset, config.positions, batch);
    assert_eq!(nodes.times, nodes.original_ids.iter().map(|&id| node_times[id as usize]).collect::<Vec<_>>());
    let all_times = timed_seeds();
    for row in 0..drawn.indptr.len() - 1 {
        let node = nodes.original_ids[row];
        let hop = usize::from(row as u32 >= nodes.hop_offsets[0]);
        let ahead = |edge: usize| {
            let temporal = config.temporal?;
            let seed_time = all_times[first_seed + nodes.batch[row] as usize].1;
            let time = match temporal.attr {
                TimeAttr::EdgeTime => times[edge],
                TimeAttr::NodeTime => node_times[edges.src[edge] as usize],
            };
            (time > seed_time).then_some(())
        };
        let legal: Vec<u32> = (0..edges.src.len())
            .filter(|&edge| edges.dst[edge] == node && ahead(edge).is_none())
            .filter(|&edge| !config.weighted || weights[edge] > 0.0)
            .map(|edge| edges.src[edge])
            .collect();
        let found: Vec<u32> = drawn.indices[drawn.indptr[row] as usize..drawn.indptr[row + 1] as usize]
            .iter()
            .map(|&number| {
                if config.temporal.is_some() {
                    assert_eq!(nodes.batch[number as usize], nodes.batch[row], "an edge stays with its seed");
                }
                nodes.original_ids[number as usize]
            })
            .collect();
        let all = config.num_neighbors == vec![Fanout::All; 2].into();
        let expected = match () {
            () if all => legal.len(),
            () if config.replace && !legal.is_empty() => FANOUTS[hop] as usize,
            () => legal.len().min(FANOUTS[hop] as usize),
        };
        assert_eq!(found.len(), expected, "row {row}, hop {hop}, node {node}");
        if config.replace {
            assert!(found.iter().all(|id| legal.contains(id)), "{found:?} of {legal:?}");
        } else {
            let mut rest = legal.iter();
            assert!(found.iter().all(|id| rest.any(|other| other == id)), "{found:?} of {legal:?}");
        }
    }
}

/// Checks that the attributes of each sampled edge belong to an edge between its ends.
fn check_edges(dataset: &Dataset, wanted: EdgeFields, batch: &MiniBatch) {
    let edges = &dataset.edge_types[0];
    let nodes = &batch.nodes[0];
    let drawn = &batch.edges[0];
    let found = &drawn.attributes;
    if !wanted.features {
        assert_eq!(*found, SampledEdgeAttributes::default());
        return;
    }
    assert_eq!((found.feature_dim, found.features.len()), (2, 2 * drawn.indices.len()));
    let rows =
        (0..drawn.indptr.len() - 1).flat_map(|row| (drawn.indptr[row]..drawn.indptr[row + 1]).map(move |e| (row, e)));
    for (row, e) in rows {
        let e = e as usize;
        let edge = found.features[2 * e] as usize;
        let ends = (nodes.original_ids[drawn.indices[e] as usize], nodes.original_ids[row]);
        assert_eq!((edges.src[edge], edges.dst[edge]), ends);
        if wanted.weights {
            assert_eq!(found.weights[e], edges.attributes.weights.as_ref().expect("weights")[edge]);
            assert_eq!(found.times[e], edges.attributes.times.as_ref().expect("times")[edge]);
            assert_eq!(found.ids[e], edge as i64);
        }
    }
}

/// Checks that positions lead to edges between the right nodes.
fn check_positions(dataset: &Dataset, wanted: bool, batch: &MiniBatch) {
    let edges = &dataset.edge_types[0];
    let nodes = &batch.nodes[0];
    let drawn = &batch.edges[0];
    assert_eq!(drawn.positions.len(), if wanted { drawn.indices.len() } else { 0 });
    for row in 0..if wanted { drawn.indptr.len() - 1 } else { 0 } {
        let node = nodes.original_ids[row];
        let into_node: Vec<usize> = (0..edges.src.len()).filter(|&edge| edges.dst[edge] == node).collect();
        for e in drawn.indptr[row] as usize..drawn.indptr[row + 1] as usize {
            let edge = into_node[drawn.positions[e] as usize];
            assert_eq!(edges.src[edge], nodes.original_ids[drawn.indices[e] as usize]);
            if let Some(&first_feature) = drawn.attributes.features.get(2 * e) {
                assert_eq!(first_feature as usize, edge);
            }
        }
    }
}

fn check_groups(config: &SamplerConfig, nodes: &NodeBatch, num_seeds: usize) {
    if !config.disjoint && config.temporal.is_none() {
        assert!(nodes.batch.is_empty());
        return;
    }
    assert_eq!(nodes.batch[..num_seeds], (0..num_seeds as u32).collect::<Vec<_>>());
    let mut pairs: Vec<_> = nodes.batch.iter().zip(&nodes.original_ids).collect();
    pairs.sort_unstable();
    assert!(pairs.windows(2).all(|w| w[0] < w[1]), "a node is found once for each seed");
}

#[test]
fn batches_do_not_depend_on_the_partitioning_and_never_look_ahead() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let expected = assert_partition_independent(&dataset, dir.path(), 1200, batches);
    for (config, batches) in cases().iter().zip(&expected) {
        for (b, batch) in batches.iter().enumerate() {
            check(&dataset, config, batch, b * 25);
        }
    }
}

/// Checks that a batch draws from the part with the nodes `mine` alone, and as many neighbors as possible. Returns the number
/// of its edges.
fn check_isolated(dataset: &Dataset, config: &SamplerConfig, batch: &MiniBatch, mine: &HashSet<u32>) -> usize {
    let edges = &dataset.edge_types[0];
    let weights = edges.attributes.weights.as_ref().expect("weights");
    let nodes = &batch.nodes[0];
    assert!(nodes.original_ids.iter().all(|id| mine.contains(id)), "{config:?}");
    for (row, ends) in batch.edges[0].indptr.windows(2).enumerate() {
        let legal = (0..edges.src.len())
            .filter(|&edge| edges.dst[edge] == nodes.original_ids[row] && mine.contains(&edges.src[edge]))
            .filter(|&edge| !config.weighted || weights[edge] > 0.0);
        let fanout = FANOUTS[usize::from(row as u32 >= nodes.hop_offsets[0])] as usize;
        assert_eq!((ends[1] - ends[0]) as usize, legal.count().min(fanout), "{config:?}");
    }
    batch.edges[0].indices.len()
}

#[test]
fn isolated_neighborhoods_stay_within_parts() {
    let dataset = dataset();
    let dir = parts_of(&dataset, 3);
    let batches = |world_size, isolated| {
        let config = DistGraphConfig::default();
        on_ranks(dir.path(), world_size, &config, |graph, world| {
            let mine: HashSet<u32> = graph.part().nodes(NODES).original_ids.iter().copied().collect();
            let of_config = |config: SamplerConfig| {
                let sampler = DistNeighborSampler::new(graph.clone(), config.with_isolation(isolated));
                let config = LoaderConfig { seed: 3, ..LoaderConfig::new(10, EVERYTHING) };
                let seeds = Seeds::Split(Split::Train);
                let sampler = Arc::new(sampler.expect("a valid sampler"));
                let loader = DistNeighborLoader::new(sampler, NODES, seeds, config, world).expect("a valid loader");
                loader.epoch(1).map(|batch| batch.expect("a batch")).collect::<Vec<_>>()
            };
            let drawn = isolated_cases().map(of_config);
            (mine, drawn)
        })
    };
    let mut num_edges = 0;
    for (mine, of_configs) in batches(3, true) {
        for (config, batches) in isolated_cases().iter().zip(&of_configs) {
            for batch in batches.iter().filter(|batch| batch.num_seeds > 0) {
                num_edges += check_isolated(&dataset, config, batch, &mine);
            }
        }
    }
    assert!(num_edges > 100);
    // A process that holds all parts draws from the whole graph.
    let alone = batches(1, true).remove(0).1;
    assert!(alone == batches(1, false).remove(0).1);
}

#[test]
fn edge_types_of_which_nothing_is_drawn_need_no_weights() {
    let options = FakeOptions { avg_num_nodes: 60, avg_degree: 4.0, num_channels: 4, ..FakeOptions::default() };
    let mut typed = fake_hetero(&options).expect("a valid graph");
    let num_edges = typed.edge_types[1].src.len();
    typed.edge_types[1].attributes.weights = Some(vec![1.0; num_edges].into());
    let dir = parts_of(&typed, 2);
    on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        let fanouts: NumNeighbors = "e1=3;e0=0;e2=0;e3=0;e4=0;e5=0".parse().expect("fan-outs");
        let sampler =
            DistNeighborSampler::new(graph, SamplerConfig::new(fanouts).with_weights(true)).expect("a sampler");
        let wanted = NodeFields::default();
        let seeds = Seeds::Split(Split::Train);
        let config = LoaderConfig { seed: 3, concurrency: 0, ..LoaderConfig::new(20, wanted) };
        let loader = DistNeighborLoader::new(Arc::new(sampler), NODES, seeds, config, world).expect("a loader");
        let drawn: usize = loader
            .epoch(0)
            .map(|batch| batch.expect("a batch"))
            .map(|b| b.edges.iter().map(|e| e.indices.len()).sum::<usize>())
            .sum();
        assert!(drawn > 0);
    });
}

#[test]
fn what_the_graph_lacks_is_said() {
    let bare = parts_of(&graph(40, 100, 1), 1);
    let mut dataset = dataset();
    dataset.node_types[0].times = None;
    let full = parts_of(&dataset, 1);
    let plain = || SamplerConfig::new(vec![Fanout::Count(2)]);
    let temporal = |attr, strategy| Some(Temporal { attr, strategy });
    let error_of = |dir: &Path, config: SamplerConfig| {
        on_ranks(dir, 1, &DistGraphConfig::default(), |graph, world| {
            let sampler = match DistNeighborSampler::new(graph, config.clone()) {
                Ok(sampler) => Arc::new(sampler),
                Err(error) => return error.to_string(),
            };
            let wanted = NodeFields::default();
            let config = LoaderConfig { seed: 3, concurrency: 0, ..LoaderConfig::new(5, wanted) };
            let loader = DistNeighborLoader::new(sampler, NODES, Seeds::Listed(vec![1]), config, world);
            loader.err().expect("an error").to_string()
        })
        .remove(0)
    };
    let timed = |attr, strategy| plain().with_times(temporal(attr, strategy));
    let labor = plain().with_labor(Some(Labor::default()));
    let last_edges = temporal(TimeAttr::EdgeTime, TemporalStrategy::Last);
    let with_weights = plain().with_weights(true);
    for (dir, config, expected) in [
        (&bare, with_weights.clone(), "edge type node__to__node of dataset random has none"),
        (&bare, plain().with_times(last_edges), "node__to__node of dataset random has no times"),
        (&bare, timed(TimeAttr::NodeTime, TemporalStrategy::Last), "no nodes of dataset random have times"),
        (&full, timed(TimeAttr::EdgeTime, TemporalStrategy::Uniform), "needs a time for each seed"),
        (&full, with_weights.with_times(last_edges), "exclude each other"),
        (&full, labor.clone().with_times(last_edges), "(labor) and the temporal strategy `last` exclude each other"),
        (&full, labor.with_replacement(true), "(labor) and sampling with replacement exclude each other"),
    ] {
        assert_has(error_of(dir.path(), config), &[expected]);
    }
}

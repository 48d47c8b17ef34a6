//! Tests that batches of edges with negatives do not depend on the number of parts, and that their contents are
//! allowed.

use crate::support;

use edgecut_dist_loader::{
    ChangingNegatives, DistLinkNeighborLoader, EdgeSeeds, Exclude, LinkBatch, LinkConfig, LoaderConfig, LoaderError,
    NegativeDistribution, NegativePairs, NegativeSampling, NegativeSources, Negatives, SeedEdge, SharedCandidates,
    SharedNegatives,
};
use edgecut_dist_sampler::{
    DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SamplerConfig, Temporal, TemporalStrategy,
    TimeAttr,
};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, EdgeData, EdgeList, EdgeTypeId, HoldOut, NodeData, NodeTypeId, Split};
use edgecut_partition::Method;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use support::{assert_partition_independent, in_original_ids, merged, on_ranks, parts_of, write_parts};

/// The edge types `e0` from v0 to v1 and `e1` from v1 to v0. The dataset also has their reverses.
const TYPES: [EdgeTypeId; 2] = [EdgeTypeId(0), EdgeTypeId(1)];
const BATCH_SIZE: usize = 12;

fn dataset() -> Dataset {
    let options = FakeOptions { avg_num_nodes: 90, avg_degree: 4.0, num_channels: 4, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a valid graph");
    let hold_out = HoldOut::random(0.1, 0.1, 4);
    dataset.hold_out_edges(&TYPES, &hold_out).expect("edges to hold out");
    for edges in &mut dataset.edge_types {
        let times = (0..edges.src.len()).map(|edge| (edge * 31 % 60) as i64);
        edges.attributes.times = Some(times.collect::<Vec<_>>().into());
        let weights = (0..edges.src.len()).map(|edge| edge as f32 / 8.0);
        edges.attributes.weights = Some(weights.collect::<Vec<_>>().into());
    }
    dataset.add_reverse_edges();
    dataset
}

#[derive(Clone, Copy, Debug)]
struct Case {
    negatives: NegativeSampling,
    disjoint: bool,
    temporal: bool,
    given: Given,
}

/// The negatives that come before drawn ones.
#[derive(Clone, Copy, Debug)]
enum Given {
    Nothing,
    Types(&'static [EdgeTypeId]),
    /// At most two negatives of an edge of this type: listed dislikes, then items that change.
    Pairs(EdgeTypeId),
}

impl Given {
    fn sources(self) -> NegativeSources {
        match self {
            Self::Nothing => NegativeSources::default(),
            Self::Types(edge_types) => NegativeSources { edge_types: edge_types.to_vec(), ..Default::default() },
            Self::Pairs(edge_type) => {
                let listed = (0..NUM_USERS).flat_map(|user| disliked(user).into_iter().map(move |item| (user, item)));
                let changing = ChangingNegatives::default();
                changing.set(
                    edge_type,
                    NegativePairs::new((0..NUM_USERS).map(|user| (user, changing_item(user))).collect()),
                );
                NegativeSources {
                    listed: vec![(edge_type, Arc::new(NegativePairs::new(listed.collect())))],
                    changing: Some(changing),
                    max_per_edge: Some(2),
                    ..Default::default()
                }
            }
        }
    }
}

fn cases() -> Vec<Case> {
    let negatives = NegativeSampling {
        num: 5,
        distribution: NegativeDistribution::Uniform,
        exclude: Exclude::Edges,
        shared: false,
    };
    let case = Case { negatives, disjoint: false, temporal: false, given: Given::Nothing };
    let by_degree = NegativeSampling { distribution: NegativeDistribution::Degree, ..negatives };
    let shared = NegativeSampling { shared: true, exclude: Exclude::Nothing, num: 7, ..negatives };
    vec![
        case,
        Case { negatives: NegativeSampling { exclude: Exclude::EdgesAndHeldOut, num: 60, ..negatives }, ..case },
        Case { negatives: by_degree, disjoint: true, ..case },
        Case { negatives: shared, ..case },
        Case { negatives: NegativeSampling { num: 0, ..negatives }, ..case },
        Case { temporal: true, ..case },
    ]
}

/// Returns seed edges in original ids: every ninth edge of the types.
fn seeds(dataset: &Dataset) -> Vec<SeedEdge> {
    let of_type = |edge_type: EdgeTypeId| {
        let edges = dataset.edges(edge_type);
        let times = edges.attributes.times.as_ref().expect("times");
        let edge = move |i: usize| SeedEdge {
            edge_type,
            src: edges.src[i],
            dst: edges.dst[i],
            time: Some(times[i]),
            position: None,
        };
        (0..edges.src.len()).step_by(9).map(edge)
    };
    TYPES.into_iter().flat_map(of_type).collect()
}

fn to_global(graph: &Arc<DistGraph>, seeds: Vec<SeedEdge>) -> Vec<SeedEdge> {
    let find = |edge_type: EdgeTypeId, src: u32, dst: u32| {
        let edges = graph.part().edges(edge_type);
        let find = |t, id| graph.handle().block_on(graph.find_originals(t, &[id])).expect("it exists")[0];
        (find(edges.src_type, src), find(edges.dst_type, dst))
    };
    let edge = |seed: SeedEdge| {
        let (src, dst) = find(seed.edge_type, seed.src, seed.dst);
        SeedEdge { src, dst, ..seed }
    };
    seeds.into_iter().map(edge).collect()
}

fn loader(
    graph: &Arc<DistGraph>,
    world: &mut edgecut_cluster::ProcessGroup,
    case: Case,
    seeds: EdgeSeeds,
) -> Result<DistLinkNeighborLoader, LoaderError> {
    batching_loader(graph, world, case, seeds, Batching { size: BATCH_SIZE, shuffle: false })
}

/// The division of seeds into batches.
#[derive(Clone, Copy, Debug)]
struct Batching {
    size: usize,
    shuffle: bool,
}

impl Batching {
    const SHUFFLED: Self = Self { size: BATCH_SIZE, shuffle: true };
}

fn batching_loader(
    graph: &Arc<DistGraph>,
    world: &mut edgecut_cluster::ProcessGroup,
    case: Case,
    seeds: EdgeSeeds,
    Batching { size: batch_size, shuffle }: Batching,
) -> Result<DistLinkNeighborLoader, LoaderError> {
    let temporal = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
    let config = SamplerConfig::new(vec![Fanout::Count(4), Fanout::Count(3)])
        .with_disjoint(case.disjoint)
        .with_times(case.temporal.then_some(temporal));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"));
    let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
    let config = LoaderConfig { shuffle, seed: 8, ..LoaderConfig::new(batch_size, wanted) };
    let has_weights = graph.part().meta().edge_types.iter().all(|edges| edges.has_weights);
    let weights = has_weights && matches!(seeds, EdgeSeeds::Split(Split::Train, _));
    let link = LinkConfig {
        negatives: case.negatives,
        exclude_seed_edges: true,
        reverse_types: Vec::new(),
        weights,
        given_negatives: case.given.sources(),
    };
    DistLinkNeighborLoader::new(sampler, seeds, config, link, world)
}

fn batches(dataset: &Dataset, dir: &Path, world_size: usize, config: &DistGraphConfig) -> Vec<Vec<LinkBatch>> {
    merged(on_ranks(dir, world_size, config, |graph, world| {
        let of_case = |case: Case| {
            let seeds = EdgeSeeds::Listed(to_global(&graph, seeds(dataset)));
            let batches = loader(&graph, world, case, seeds).expect("a valid loader").epoch(2);
            batches.map(|batch| batch.expect("a batch")).collect()
        };
        cases().into_iter().map(of_case).collect()
    }))
}

type Pairs = HashSet<(u32, u32)>;

fn pairs(src: &[u32], dst: &[u32]) -> Pairs {
    src.iter().copied().zip(dst.iter().copied()).collect()
}

/// Checks a batch against the dataset: ends, negatives that are not edges, and no message over the batch's own edges.
fn check(dataset: &Dataset, case: Case, batch: &LinkBatch, seeds: &[SeedEdge]) {
    let id = |node_type: usize, number: u32| batch.graph.nodes[node_type].original_ids[number as usize];
    assert_eq!(batch.edge_types, seeds.iter().map(|seed| seed.edge_type).collect::<Vec<_>>());
    for (i, seed) in seeds.iter().enumerate() {
        let edges = dataset.edges(seed.edge_type);
        let src_type = edges.src_type.index();
        let dst_type = edges.dst_type.index();
        assert_eq!((id(src_type, batch.src[i]), id(dst_type, batch.dst[i])), (seed.src, seed.dst));
        assert!(batch.src[i] < batch.graph.nodes[src_type].hop_offsets[0]);
        let message = pairs(&edges.src, &edges.dst);
        let valid = pairs(&edges.held_out.valid.src, &edges.held_out.valid.dst);
        let test = pairs(&edges.held_out.test.src, &edges.held_out.test.dst);
        let negatives = match &batch.negatives {
            Negatives::OfEach { num, dst } => &dst[i * num..(i + 1) * num],
            Negatives::Shared(by_type) => &by_type[dst_type],
        };
        assert_eq!(negatives.len(), case.negatives.num);
        if case.negatives.exclude == Exclude::Nothing {
            continue;
        }
        let distinct: BTreeSet<u32> = negatives.iter().copied().collect();
        let differ = case.negatives.exclude == Exclude::Edges;
        assert!(!differ || distinct.len() == negatives.len(), "the negatives of an edge differ");
        for &negative in negatives {
            let pair = (seed.src, id(dst_type, negative));
            assert!(!message.contains(&pair), "{pair:?} is an edge");
            let held_out = valid.contains(&pair) || test.contains(&pair);
            assert!(case.negatives.exclude == Exclude::Edges || !held_out, "{pair:?} is held out");
        }
    }
    let groups = |in_batch| batch.shared_candidates(SharedNegatives { in_batch, self_pairs: false });
    for group in [groups(true), groups(false)].into_iter().flatten() {
        check_masked(dataset, batch, seeds, &group);
    }
    // Types 6 and 7 are the reverses of e0 and e1.
    // In disjoint sampling, the neighborhood of each edge lacks this edge.
    let mut excluded: Vec<BTreeSet<(u32, u32, u32)>> = vec![BTreeSet::new(); dataset.edge_types.len()];
    for (number, seed) in (0..).zip(seeds) {
        let neighborhood = if case.disjoint || case.temporal { number } else { 0 };
        excluded[seed.edge_type.index()].insert((neighborhood, seed.src, seed.dst));
        excluded[seed.edge_type.index() + 6].insert((neighborhood, seed.dst, seed.src));
    }
    let mut followed = 0;
    for (e, edges) in dataset.edge_types.iter().enumerate() {
        let drawn = &batch.graph.edges[e];
        let known = pairs(&edges.src, &edges.dst);
        for row in 0..drawn.indptr.len() - 1 {
            for &number in &drawn.indices[drawn.indptr[row] as usize..drawn.indptr[row + 1] as usize] {
                let pair = (id(edges.src_type.index(), number), id(edges.dst_type.index(), row as u32));
                let neighborhood = batch.graph.nodes[edges.dst_type.index()].batch.get(row).copied().unwrap_or(0);
                let is_excluded = excluded[e].contains(&(neighborhood, pair.0, pair.1));
                assert!(known.contains(&pair) && !is_excluded, "{pair:?} of type {e}");
                followed += 1;
            }
        }
    }
    assert!(followed > 0);
}

/// Checks against the seeds that sources and positive pairs of the batch are masked among shared negatives.
fn check_masked(dataset: &Dataset, batch: &LinkBatch, seeds: &[SeedEdge], group: &SharedCandidates) {
    let masked: BTreeSet<(u32, u32)> = group.masked.iter().copied().collect();
    let dst_type = group.dst_type;
    for (position, &edge) in group.edges.iter().enumerate() {
        let seed = seeds[edge as usize];
        let src_type = dataset.edges(seed.edge_type).src_type;
        for (at, &candidate) in group.candidates.iter().enumerate() {
            let id = batch.graph.nodes[dst_type.index()].original_ids[candidate as usize];
            // Neither seed type contains reverses, since none connects a node type with itself.
            let joined =
                seeds.iter().any(|other| (other.edge_type, other.src, other.dst) == (seed.edge_type, seed.src, id));
            let own_source = src_type == dst_type && seed.src == id;
            assert_eq!(masked.contains(&(position as u32, at as u32)), joined || own_source);
        }
    }
}

#[test]
fn batches_do_not_depend_on_the_partitioning() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let expected = assert_partition_independent(&dataset, dir.path(), 2400, |parts, ranks, config| {
        batches(&dataset, parts, ranks, config)
    });
    let all = seeds(&dataset);
    for (case, batches) in cases().into_iter().zip(&expected) {
        assert_eq!(batches.len(), all.len().div_ceil(BATCH_SIZE));
        batches.iter().zip(all.chunks(BATCH_SIZE)).for_each(|(batch, seeds)| check(&dataset, case, batch, seeds));
    }
}

#[test]
fn every_edge_of_a_split_is_a_seed_once_over_all_ranks_and_training_edges_have_their_weights() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for num_parts in [2, 3] {
        write_parts(&dataset, num_parts, Method::Random, &dir.path().join(format!("{num_parts}")));
    }
    let splits = Split::ALL.into_iter().flat_map(|split| [(split, false), (split, true)]);
    let layouts = [(2, 4), (3, 2), (2, 3)];
    for ((split, shuffle), (num_parts, world_size)) in splits.flat_map(|s| layouts.map(|layout| (s, layout))) {
        let case = cases()[0];
        let parts = dir.path().join(format!("{num_parts}"));
        let per_rank = on_ranks(&parts, world_size, &DistGraphConfig::default(), |graph, world| {
            let seeds = EdgeSeeds::Split(split, TYPES.to_vec());
            let batching = Batching { size: BATCH_SIZE, shuffle };
            let loader = batching_loader(&graph, world, case, seeds, batching).expect("a valid loader");
            let batches = loader.epoch(0).map(|batch| batch.expect("a batch"));
            let seeds: Vec<(u16, u32, u32, Option<u32>)> = batches
                .flat_map(|batch| {
                    let edge = |i: usize| {
                        let edges = dataset.edges(batch.edge_types[i]);
                        let id = |t: usize, number: u32| batch.graph.nodes[t].original_ids[number as usize];
                        let src = id(edges.src_type.index(), batch.src[i]);
                        let dst = id(edges.dst_type.index(), batch.dst[i]);
                        let weight = batch.weights.get(i).map(|weight| weight.to_bits());
                        (batch.edge_types[i].0, src, dst, weight)
                    };
                    (0..batch.graph.num_seeds).map(edge).collect::<Vec<_>>()
                })
                .collect();
            (loader.total_seeds(), seeds)
        });
        let mut expected: Vec<(u16, u32, u32, Option<u32>)> = Vec::new();
        for e in TYPES {
            let edges = dataset.edges(e);
            let (src, dst) = match split {
                Split::Train => (&edges.src, &edges.dst),
                Split::Valid => (&edges.held_out.valid.src, &edges.held_out.valid.dst),
                Split::Test => (&edges.held_out.test.src, &edges.held_out.test.dst),
            };
            let weights = edges.attributes.weights.as_ref().expect("weights");
            let weight = |edge: usize| if split == Split::Train { Some(weights[edge].to_bits()) } else { None };
            let ends = src.iter().zip(&dst[..]).enumerate();
            expected.extend(ends.map(|(edge, (&src, &dst))| (e.0, src, dst, weight(edge))));
        }
        assert!(!expected.is_empty() && per_rank.iter().all(|(total, _)| *total == expected.len()));
        let mut found: Vec<_> = per_rank.into_iter().flat_map(|(_, seeds)| seeds).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert!(found == expected, "{split:?}, {num_parts} parts on {world_size} ranks");
    }
}

/// Returns the sources and destinations of all batches of an epoch over all ranks, in the order of the batches, as
/// original ids.
fn order_of_listed(dataset: &Dataset, dir: &Path, world_size: usize, epoch: u64) -> Vec<(u32, u32)> {
    let per_rank = on_ranks(dir, world_size, &DistGraphConfig::default(), |graph, world| {
        let seeds = EdgeSeeds::Listed(to_global(&graph, seeds(dataset)));
        let loader = batching_loader(&graph, world, cases()[0], seeds, Batching::SHUFFLED).expect("a valid loader");
        let batches = loader.epoch(epoch).map(|batch| in_original_ids(batch.expect("a batch")));
        batches.collect::<Vec<_>>()
    });
    let mut batches: Vec<LinkBatch> = per_rank.into_iter().flatten().collect();
    batches.sort_by_key(|batch| batch.graph.key.batch);
    let pairs = |batch: &LinkBatch| -> Vec<(u32, u32)> {
        let end = |i: usize| {
            let edges = dataset.edges(batch.edge_types[i]);
            let id = |t: usize, number: u32| batch.graph.nodes[t].original_ids[number as usize];
            (id(edges.src_type.index(), batch.src[i]), id(edges.dst_type.index(), batch.dst[i]))
        };
        (0..batch.graph.num_seeds).map(end).collect()
    };
    batches.iter().flat_map(pairs).collect()
}

#[test]
fn a_shuffled_list_has_the_same_order_for_any_partitioning() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for num_parts in [1, 3] {
        write_parts(&dataset, num_parts, Method::Random, &dir.path().join(format!("{num_parts}")));
    }
    let order =
        |num_parts: usize, epoch| order_of_listed(&dataset, &dir.path().join(format!("{num_parts}")), num_parts, epoch);
    let first = order(1, 0);
    assert_eq!(first, order(3, 0));
    assert_ne!(first, order(1, 1));
    let mut sorted = first.clone();
    let mut listed: Vec<(u32, u32)> = seeds(&dataset).iter().map(|seed| (seed.src, seed.dst)).collect();
    assert_ne!(first, listed);
    sorted.sort_unstable();
    listed.sort_unstable();
    assert_eq!(sorted, listed);
}

#[test]
fn negatives_follow_the_degrees() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for num_parts in [1, 3] {
        let parts = dir.path().join(format!("{num_parts}"));
        write_parts(&dataset, num_parts, Method::Random, &parts);
        check_negatives_by_degree(&dataset, &parts, num_parts as usize);
    }
    // Parts that are joined to one are not in the order of the original ids.
    check_negatives_by_degree(&dataset, &dir.path().join("3"), 1);
}

/// Draws many negatives and compares their counts with the in-degrees.
fn check_negatives_by_degree(dataset: &Dataset, parts: &Path, world_size: usize) {
    let negatives = NegativeSampling {
        num: 400,
        distribution: NegativeDistribution::Degree,
        exclude: Exclude::Nothing,
        shared: false,
    };
    let per_rank = on_ranks(parts, world_size, &DistGraphConfig::default(), |graph, world| {
        let case = Case { negatives, disjoint: false, temporal: false, given: Given::Nothing };
        let seeds = EdgeSeeds::Split(Split::Train, vec![EdgeTypeId(0)]);
        let mut counts = vec![0.0_f64; 90];
        for batch in loader(&graph, world, case, seeds).expect("a valid loader").epoch(0) {
            let batch = batch.expect("a batch");
            let Negatives::OfEach { dst, .. } = &batch.negatives else { panic!("each edge has its own") };
            dst.iter().for_each(|&number| counts[batch.graph.nodes[1].original_ids[number as usize] as usize] += 1.0);
        }
        counts
    });
    let counts: Vec<f64> = (0..90).map(|node| per_rank.iter().map(|counts| counts[node]).sum()).collect();
    let mut degrees = vec![0.0; 90];
    for edges in dataset.edge_types.iter().filter(|edges| edges.dst_type.index() == 1) {
        edges.dst.iter().for_each(|&dst| degrees[dst as usize] += 1.0);
    }
    let drawn: f64 = counts.iter().sum();
    let total: f64 = degrees.iter().sum();
    let mut statistic = 0.0;
    for (count, degree) in counts.iter().zip(&degrees) {
        let expected = drawn * degree / total;
        assert!(*degree > 0.0 || *count == 0.0);
        statistic += if *degree > 0.0 { (count - expected).powi(2) / expected } else { 0.0 };
    }
    assert!(statistic < 140.0, "chi-square of at most 89 degrees of freedom at 99.9 %: {statistic}");
}

/// An edge of a batch in original ids: its type, source, destination and negatives.
type EdgeWithNegatives = (u16, u32, u32, Vec<u32>);

/// Returns the edges of a batch, each with its own negatives.
fn edges_with_negatives(dataset: &Dataset, batch: &LinkBatch) -> Vec<EdgeWithNegatives> {
    let Negatives::OfEach { num, dst } = &batch.negatives else { panic!("each edge has its own") };
    let edge = |i: usize| {
        let edges = dataset.edges(batch.edge_types[i]);
        let id = |t: usize, number: u32| batch.graph.nodes[t].original_ids[number as usize];
        let src = id(edges.src_type.index(), batch.src[i]);
        let dst_type = edges.dst_type.index();
        let negatives = dst[i * num..(i + 1) * num].iter().map(|&number| id(dst_type, number));
        (batch.edge_types[i].0, src, id(dst_type, batch.dst[i]), negatives.collect())
    };
    (0..batch.src.len()).map(edge).collect()
}

#[test]
fn negatives_of_an_edge_depend_on_its_ends_alone() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for num_parts in 1..=3 {
        write_parts(&dataset, num_parts, Method::Random, &dir.path().join(format!("{num_parts}")));
    }
    // Parts, ranks and batches.
    let layouts = [
        (1, 1, Batching { size: 12, shuffle: false }),
        (1, 1, Batching { size: 1, shuffle: false }),
        (1, 2, Batching { size: 500, shuffle: true }),
        (2, 2, Batching { size: 12, shuffle: false }),
        (3, 3, Batching { size: 5, shuffle: true }),
        (3, 2, Batching { size: 12, shuffle: false }),
        (2, 3, Batching { size: 7, shuffle: true }),
    ];
    let [uniform, held_out, by_degree, ..] = cases()[..] else { panic!("three cases") };
    let temporal = Case { temporal: true, ..uniform };
    for (case, split) in
        [(uniform, Split::Train), (temporal, Split::Train), (held_out, Split::Valid), (by_degree, Split::Test)]
    {
        let drawn = |(num_parts, world_size, batching): (u32, usize, Batching), epoch: u64| {
            let parts = dir.path().join(format!("{num_parts}"));
            let per_rank = on_ranks(&parts, world_size, &DistGraphConfig::default(), |graph, world| {
                let seeds = EdgeSeeds::Split(split, TYPES.to_vec());
                let loader = batching_loader(&graph, world, case, seeds, batching).expect("a valid loader");
                let batches = loader.epoch(epoch).map(|batch| edges_with_negatives(&dataset, &batch.expect("a batch")));
                batches.flatten().collect::<Vec<_>>()
            });
            let mut all = per_rank.concat();
            all.sort_unstable();
            all
        };
        let expected = drawn(layouts[0], 1);
        assert!(expected.len() > 20 && expected.iter().all(|edge| edge.3.len() == case.negatives.num));
        for layout in &layouts[1..] {
            assert!(drawn(*layout, 1) == expected, "{split:?}, {layout:?}");
        }
        assert_ne!(drawn(layouts[0], 2), expected, "another epoch");
    }
}

/// Returns a graph of 30 nodes in which node 0 is connected to all nodes, node 1 to all except node 29, and each other
/// node to the next one. Some of the edges are held out for validation.
fn graph_with_heavy_sources() -> Dataset {
    let mut src = Vec::new();
    let mut dst = Vec::new();
    for (source, last) in [(0, 25), (1, 28)] {
        src.extend(vec![source; last]);
        dst.extend(0..last as u32);
    }
    src.extend(2..30);
    dst.extend((2..30).map(|node| (node + 1) % 30));
    let nodes = NodeData { name: "node".into(), num_nodes: 30, ..NodeData::default() };
    let mut dataset = Dataset::homogeneous("heavy", nodes, src.into(), dst.into());
    let valid = (vec![0, 0, 0, 0, 0, 1, 2], vec![25, 26, 27, 28, 29, 28, 9]);
    dataset.edge_types[0].held_out.valid = EdgeList::new(valid.0.into(), valid.1.into());
    dataset
}

#[test]
fn edges_without_enough_negatives_are_left_out_and_counted() {
    let dataset = graph_with_heavy_sources();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let uniform = cases()[0].negatives;
    for (num_parts, size) in [(1, 12), (2, 1), (2, 100)] {
        let parts = dir.path().join(format!("{num_parts}"));
        if !parts.exists() {
            write_parts(&dataset, num_parts, Method::Random, &parts);
        }
        let drawn = |negatives: NegativeSampling, split: Split| {
            let per_rank = on_ranks(&parts, num_parts as usize, &DistGraphConfig::default(), |graph, world| {
                let case = Case { negatives, ..cases()[0] };
                let seeds = EdgeSeeds::Split(split, vec![EdgeTypeId(0)]);
                let batching = Batching { size, shuffle: false };
                let loader = batching_loader(&graph, world, case, seeds, batching).expect("a valid loader");
                loader.hotness(0, loader.num_full_batches()).expect("batches without edges have no neighborhood");
                let mut edges = Vec::new();
                let mut num_left_out = 0;
                for batch in loader.epoch(0) {
                    let batch = batch.expect("a batch");
                    assert_eq!(batch.graph.num_seeds, batch.src.len());
                    assert_eq!(batch.graph.seed_positions.len(), batch.src.len());
                    assert!(batch.src.len() + batch.num_left_out <= size);
                    num_left_out += batch.num_left_out;
                    edges.extend(edges_with_negatives(&dataset, &batch));
                }
                (edges, num_left_out)
            });
            let num_left_out: usize = per_rank.iter().map(|(_, left_out)| left_out).sum();
            (per_rank.into_iter().flat_map(|(edges, _)| edges).collect::<Vec<_>>(), num_left_out)
        };
        let from = |edges: &[EdgeWithNegatives], source: u32| edges.iter().filter(|edge| edge.1 == source).count();
        // Five nodes are left for node 0, and two for node 1.
        let (edges, left_out) = drawn(uniform, Split::Train);
        assert_eq!((edges.len(), left_out), (25 + 28, 28));
        assert_eq!((from(&edges, 0), from(&edges, 1)), (25, 0));
        for (_, _, _, negatives) in edges.iter().filter(|edge| edge.1 == 0) {
            assert_eq!(negatives.iter().copied().collect::<BTreeSet<_>>(), (25..30).collect());
        }
        let (edges, left_out) = drawn(NegativeSampling { num: 6, ..uniform }, Split::Train);
        assert_eq!((edges.len(), left_out), (28, 25 + 28));
        // Negatives of evaluation may repeat, so a single node suffices.
        let held_out = NegativeSampling { num: 60, exclude: Exclude::EdgesAndHeldOut, ..uniform };
        let (edges, left_out) = drawn(held_out, Split::Valid);
        assert_eq!((edges.len(), left_out), (2, 5));
        let of_node_1 = edges.iter().find(|edge| edge.1 == 1).expect("an edge of node 1");
        assert_eq!(of_node_1.3, [29; 60]);
    }
}

/// The likes of users, and their dislikes, which give negatives.
const LIKES: EdgeTypeId = EdgeTypeId(0);
const DISLIKES: EdgeTypeId = EdgeTypeId(1);
const NUM_USERS: u32 = 20;
const NUM_ITEMS: u32 = 40;
/// A user who likes and dislikes the same item.
const CONTRARY: u32 = 7;
/// A user of whom a disliked item is the destination of a validation edge, which training does not know.
const CHANGED: u32 = 3;

/// Returns the items that a user dislikes: none to four.
fn disliked(user: u32) -> Vec<u32> {
    let mut items: Vec<u32> = (0..user % 5).map(|n| (user * 3 + n) % NUM_ITEMS).collect();
    if user == CONTRARY {
        items.push(liked(user)[0]);
    }
    items
}

/// Returns an item that a user neither likes nor dislikes.
fn changing_item(user: u32) -> u32 {
    (user * 3 + 10) % NUM_ITEMS
}

fn liked(user: u32) -> Vec<u32> {
    (0..4).map(|n| (user * 3 + 20 + n) % NUM_ITEMS).collect()
}

/// Makes the edges from users to the items that `of_user` returns.
fn edges_of(relation: &str, of_user: fn(u32) -> Vec<u32>) -> EdgeData {
    let pairs = (0..NUM_USERS).flat_map(|user| of_user(user).into_iter().map(move |item| (user, item)));
    let (src, dst): (Vec<u32>, Vec<u32>) = pairs.unzip();
    EdgeData::new(NodeTypeId(0), relation, NodeTypeId(1), src.into(), dst.into())
}

/// Returns a graph of likes and dislikes; `changes` adds the validation edge of the user who has changed.
fn graph_with_dislikes(changes: bool) -> Dataset {
    let mut likes = edges_of("likes", liked);
    let [src, dst] = if changes { [CHANGED, disliked(CHANGED)[0]] } else { [1, 0] };
    likes.held_out.valid = EdgeList::new(vec![src].into(), vec![dst].into());
    let node_types = [("user", NUM_USERS), ("item", NUM_ITEMS)].map(|(name, num_nodes)| NodeData {
        name: name.into(),
        num_nodes: num_nodes as usize,
        ..NodeData::default()
    });
    let edge_types = vec![likes, edges_of("dislikes", disliked)];
    let mut dataset = Dataset { name: "dislikes".into(), node_types: node_types.into(), edge_types };
    dataset.add_reverse_edges();
    dataset
}

/// Checks that no dislike of a negative of a batch, and no reverse of one, carries a message. Returns the number of other
/// dislikes that do.
fn check_messages_of_dislikes(dataset: &Dataset, batch: &LinkBatch) -> usize {
    if batch.src.is_empty() {
        return 0;
    }
    let mut excluded: Pairs = HashSet::new();
    for (_, user, _, negatives) in edges_with_negatives(dataset, batch) {
        excluded.extend(negatives.into_iter().map(|item| (user, item)));
    }
    let mut followed = 0;
    for (edge_type, is_reverse) in [(DISLIKES, false), (EdgeTypeId(3), true)] {
        let edges = dataset.edges(edge_type);
        let [sources, destinations] =
            [edges.src_type, edges.dst_type].map(|t| &batch.graph.nodes[t.index()].original_ids);
        let drawn = &batch.graph.edges[edge_type.index()];
        for (row, ends) in drawn.indptr.windows(2).enumerate() {
            for &number in &drawn.indices[ends[0] as usize..ends[1] as usize] {
                let (src, dst) = (sources[number as usize], destinations[row]);
                let pair = if is_reverse { (dst, src) } else { (src, dst) };
                assert!(!excluded.contains(&pair), "the negative {pair:?} carries a message");
                followed += 1;
            }
        }
    }
    followed
}

/// The parts, ranks and batches of a training on likes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    changes: bool,
    num_parts: u32,
    world_size: usize,
    batching: Batching,
    disjoint: bool,
    given: Given,
}

/// Returns the training edges with their negatives, of which given ones come first.
fn drawn_with_dislikes(dir: &Path, layout: Layout) -> Vec<EdgeWithNegatives> {
    let Layout { changes, num_parts, world_size, batching, disjoint, given } = layout;
    let dataset = graph_with_dislikes(changes);
    let parts = dir.join(format!("{num_parts}-{changes}"));
    if !parts.exists() {
        write_parts(&dataset, num_parts, Method::Random, &parts);
    }
    let negatives = NegativeSampling { num: 3, ..cases()[0].negatives };
    let case = Case { negatives, given, disjoint, ..cases()[0] };
    let per_rank = on_ranks(&parts, world_size, &DistGraphConfig::default(), |graph, world| {
        let seeds = EdgeSeeds::Split(Split::Train, vec![LIKES]);
        let loader = batching_loader(&graph, world, case, seeds, batching).expect("a valid loader");
        let mut edges = Vec::new();
        let mut followed = 0;
        for batch in loader.epoch(1) {
            let batch = batch.expect("a batch");
            edges.extend(edges_with_negatives(&dataset, &batch));
            if !disjoint && matches!(given, Given::Types(_)) {
                followed += check_messages_of_dislikes(&dataset, &batch);
            }
        }
        (edges, followed)
    });
    let followed: usize = per_rank.iter().map(|(_, followed)| followed).sum();
    assert!(disjoint || followed > 0 || matches!(given, Given::Pairs(_)), "other dislikes carry messages");
    let mut all: Vec<EdgeWithNegatives> = per_rank.into_iter().flat_map(|(edges, _)| edges).collect();
    all.sort_unstable();
    all
}

/// Checks that other parts, ranks and batches have the same negatives.
fn assert_equal_in_layouts(dir: &Path, first: Layout, expected: &[EdgeWithNegatives]) {
    for (num_parts, world_size, size, shuffle) in
        [(1, 2, 5, true), (2, 2, 1, false), (3, 3, 7, true), (3, 2, 12, false)]
    {
        let batching = Batching { size, shuffle };
        let layout = Layout { num_parts, world_size, batching, disjoint: num_parts == 2, ..first };
        assert!(drawn_with_dislikes(dir, layout) == expected, "{layout:?}");
    }
}

#[test]
fn listed_negatives_come_before_changing_ones_and_these_before_drawn_ones() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let batching = Batching { size: 12, shuffle: false };
    let given = Given::Pairs(LIKES);
    let first = Layout { changes: false, num_parts: 1, world_size: 1, batching, disjoint: false, given };
    let expected = drawn_with_dislikes(dir.path(), first);
    assert_eq!(expected.len(), 4 * NUM_USERS as usize);
    for (_, user, item, negatives) in &expected {
        liked(*user).iter().for_each(|item| assert!(!negatives.contains(item), "{user} likes {item}"));
        // A draw takes the place of a listed item that is liked.
        if *user == CONTRARY {
            continue;
        }
        let listed: BTreeSet<u32> = disliked(*user).into_iter().filter(|disliked| disliked != item).collect();
        let num_listed = listed.len().min(2);
        assert!(
            negatives[..num_listed].iter().all(|item| listed.contains(item)),
            "{user}: {negatives:?} of {listed:?}"
        );
        if num_listed < 2 {
            assert_eq!(negatives[num_listed], changing_item(*user), "{user}: {negatives:?}");
        }
        assert_eq!(negatives.iter().collect::<BTreeSet<_>>().len(), 3, "{user}: {negatives:?}");
    }
    let thirds: BTreeSet<u32> = expected.iter().map(|edge| edge.3[2]).collect();
    assert!(thirds.len() > NUM_ITEMS as usize / 2, "the third negative is drawn: {thirds:?}");
    assert_equal_in_layouts(dir.path(), first, &expected);
}

#[test]
fn given_negatives_come_first_and_carry_no_messages() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let batching = Batching { size: 12, shuffle: false };
    let given = Given::Types(&[DISLIKES]);
    let first = Layout { changes: false, num_parts: 1, world_size: 1, batching, disjoint: false, given };
    let expected = drawn_with_dislikes(dir.path(), first);
    assert_eq!(expected.len(), 4 * NUM_USERS as usize);
    for (_, user, _, negatives) in &expected {
        let mut given: BTreeSet<u32> = disliked(*user).into_iter().collect();
        liked(*user).iter().for_each(|item| assert!(!negatives.contains(item), "{user} likes {item}"));
        given.retain(|item| !liked(*user).contains(item));
        let found = negatives.iter().filter(|item| given.contains(item)).count();
        assert_eq!((found, negatives.len()), (given.len().min(3), 3), "{user}: {negatives:?} of {given:?}");
    }
    // Edges of one source have other given negatives if there are more than needed.
    let of_user: BTreeSet<&Vec<u32>> = expected.iter().filter(|edge| edge.1 == 4).map(|edge| &edge.3).collect();
    assert!(of_user.len() > 1);
    assert_equal_in_layouts(dir.path(), first, &expected);
    let twice = Layout { given: Given::Types(&[DISLIKES, DISLIKES]), ..first };
    assert!(drawn_with_dislikes(dir.path(), twice) == expected, "a type that is named twice counts once");
    // Held-out edges change nothing: training does not know them.
    let found = drawn_with_dislikes(dir.path(), Layout { changes: true, num_parts: 2, world_size: 2, ..first });
    assert!(found == expected, "training knows a validation edge");
    let of_changed: Vec<u32> = found.into_iter().filter(|edge| edge.1 == CHANGED).flat_map(|edge| edge.3).collect();
    assert!(of_changed.contains(&disliked(CHANGED)[0]));
}

#[test]
fn types_that_cannot_give_negatives_are_refused() {
    let dataset = graph_with_dislikes(false);
    let dir = parts_of(&dataset, 1);
    let case = Case { given: Given::Types(&[DISLIKES]), ..cases()[0] };
    let shared =
        Case { negatives: NegativeSampling { shared: true, exclude: Exclude::Nothing, ..case.negatives }, ..case };
    let refused = [
        (shared, LIKES, "do not share negatives (`shared_negatives`)"),
        (case, DISLIKES, "user__dislikes__item gives negatives"),
        (case, EdgeTypeId(2), "no predicted edge type has the same source type"),
        (
            Case { given: Given::Pairs(DISLIKES), ..case },
            LIKES,
            "negatives of edges of type user__dislikes__item are listed",
        ),
    ];
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        for (case, predicted, why) in refused {
            let seeds = EdgeSeeds::Split(Split::Train, vec![predicted]);
            let error = loader(&graph, world, case, seeds).err().expect("an error").to_string();
            assert!(error.contains(why), "{error}");
        }
    });
    let mut dataset = graph_with_dislikes(false);
    dataset.edge_types.truncate(2);
    let dir = parts_of(&dataset, 1);
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let seeds = EdgeSeeds::Split(Split::Train, vec![LIKES]);
        let error = loader(&graph, world, case, seeds).err().expect("an error").to_string();
        assert!(error.contains("add them (`add_reverse_edges`)"), "{error}");
    });
}

#[test]
fn a_listed_pair_is_not_its_own_negative() {
    let dataset = graph_with_heavy_sources();
    let dir = parts_of(&dataset, 1);
    let negatives = NegativeSampling { num: 28, ..cases()[0].negatives };
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        // The graph has one edge from node 2, to node 3.
        let pair = SeedEdge { edge_type: EdgeTypeId(0), src: 2, dst: 17, time: None, position: None };
        let seeds = EdgeSeeds::Listed(to_global(&graph, vec![pair]));
        let case = Case { negatives, ..cases()[0] };
        let mut batches = loader(&graph, world, case, seeds).expect("a valid loader").epoch(0);
        let batch = batches.next().expect("a batch").expect("negatives");
        let edges = edges_with_negatives(&dataset, &batch);
        let drawn: BTreeSet<u32> = edges[0].3.iter().copied().collect();
        assert_eq!(drawn, (0..30).filter(|node| ![3, 17].contains(node)).collect());
    });
}

#[test]
fn more_negatives_than_there_are_is_an_error() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    write_parts(&dataset, 2, Method::Random, &dir.path().join("2"));
    let negatives = NegativeSampling { num: 90, ..cases()[0].negatives };
    let errors = on_ranks(&dir.path().join("2"), 2, &DistGraphConfig::default(), |graph, world| {
        let case = Case { negatives, disjoint: false, temporal: false, given: Given::Nothing };
        let seeds = EdgeSeeds::Split(Split::Train, vec![EdgeTypeId(0)]);
        let many = loader(&graph, world, case, seeds).err().expect("an error").to_string();
        let case = Case { negatives: NegativeSampling { shared: true, ..negatives }, ..case };
        let shared = loader(&graph, world, case, EdgeSeeds::Listed(Vec::new())).err().expect("an error").to_string();
        (many, shared)
    });
    for (many, shared) in errors {
        assert!(many.contains("90 distinct negatives were requested for an edge of type v0__e0__v1"), "{many}");
        assert!(shared.contains("negatives that a batch shares"), "{shared}");
    }
}

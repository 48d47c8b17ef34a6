//! Tests that batches of edges with negatives do not depend on the number of parts, and that their contents are
//! allowed.

use crate::given_negatives::{NUM_USERS, changing_item, disliked};
use crate::support::{assert_partition_independent, in_original_ids, merged, on_ranks, write_parts};
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
use edgecut_graph::{Dataset, EdgeTypeId, HoldOut, Split};
use edgecut_partition::Method;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The edge types `e0` from v0 to v1 and `e1` from v1 to v0. The dataset also has their reverses.
pub(crate) const TYPES: [EdgeTypeId; 2] = [EdgeTypeId(0), EdgeTypeId(1)];
const BATCH_SIZE: usize = 12;

pub(crate) fn dataset() -> Dataset {
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
pub(crate) struct Case {
    pub(crate) negatives: NegativeSampling,
    pub(crate) disjoint: bool,
    pub(crate) temporal: bool,
    pub(crate) given: Given,
}

/// The negatives that come before drawn ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
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

pub(crate) fn cases() -> Vec<Case> {
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
pub(crate) fn seeds(dataset: &Dataset) -> Vec<SeedEdge> {
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

pub(crate) fn to_global(graph: &Arc<DistGraph>, seeds: Vec<SeedEdge>) -> Vec<SeedEdge> {
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

pub(crate) fn loader(
    graph: &Arc<DistGraph>,
    world: &mut edgecut_cluster::ProcessGroup,
    case: Case,
    seeds: EdgeSeeds,
) -> Result<DistLinkNeighborLoader, LoaderError> {
    batching_loader(graph, world, case, seeds, Batching { size: BATCH_SIZE, shuffle: false })
}

/// The division of seeds into batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    pub(crate) size: usize,
    pub(crate) shuffle: bool,
}

impl Batching {
    const SHUFFLED: Self = Self { size: BATCH_SIZE, shuffle: true };
}

pub(crate) fn batching_loader(
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

pub(crate) type Pairs = HashSet<(u32, u32)>;

pub(crate) fn pairs(src: &[u32], dst: &[u32]) -> Pairs {
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

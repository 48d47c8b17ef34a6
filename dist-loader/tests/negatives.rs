//! Tests of drawn negatives: their distribution, their independence of the batch, and edges that lack them.

use crate::link_batches::{Batching, Case, Given, TYPES, batching_loader, cases, dataset, loader, to_global};
use crate::support::{on_ranks, parts_of, write_parts};
use edgecut_dist_loader::{EdgeSeeds, Exclude, LinkBatch, NegativeDistribution, NegativeSampling, Negatives, SeedEdge};
use edgecut_dist_sampler::DistGraphConfig;
use edgecut_graph::{Dataset, EdgeList, EdgeTypeId, NodeData, Split};
use edgecut_partition::Method;
use std::collections::BTreeSet;
use std::path::Path;

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
pub(crate) type EdgeWithNegatives = (u16, u32, u32, Vec<u32>);

/// Returns the edges of a batch, each with its own negatives.
pub(crate) fn edges_with_negatives(dataset: &Dataset, batch: &LinkBatch) -> Vec<EdgeWithNegatives> {
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
        (3, 3, Batching { size: 5, shuffle: true }),
        (3, 2, Batching { size: 12, shuffle: false }),
        (2, 3, Batching { size: 500, shuffle: true }),
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
    let dir = parts_of(&dataset, 2);
    let negatives = NegativeSampling { num: 90, ..cases()[0].negatives };
    let errors = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
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

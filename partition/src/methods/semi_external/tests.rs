//! The steps of the method against slow, obvious answers, with bounds that small graphs exceed.

use super::clustering::{Clusters, cluster};
use super::contraction::contract;
use super::refinement::refine;
use super::{Bounds, split_within};
use crate::methods::constraints::Constraints;
use crate::methods::loads::Loads;
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::CounterRng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SMALL: Bounds = Bounds { direct: 0, clusters: 8, clusters_per_part: 4, pairs: 1000 };

/// Returns the symmetric graph of these edges, without duplicates and self loops.
fn graph(num_nodes: usize, edges: &[(u32, u32)]) -> Groups {
    let both = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).filter(|(a, b)| a != b);
    let both: BTreeSet<(u32, u32)> = both.collect();
    Groups::new(num_nodes, &both.into_iter().collect::<Vec<_>>())
}

/// Balances nodes, and the nodes whose number is a multiple of 3.
fn constraints(num_nodes: usize) -> Constraints {
    let weights: Vec<i32> = (0..num_nodes).flat_map(|node| [1, i32::from(node % 3 == 0)]).collect();
    Constraints { weights, totals: vec![num_nodes as u64, num_nodes.div_ceil(3) as u64] }
}

fn nodes_only(num_nodes: usize) -> Constraints {
    Constraints { weights: vec![1; num_nodes], totals: vec![num_nodes as u64] }
}

/// Returns the edges of a graph with planted communities of 50 nodes, whose ids are interleaved.
fn communities(num_nodes: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = CounterRng::new(seed);
    let num = num_nodes / 50;
    let edge = |_| {
        let a = rng.below(u64::from(num_nodes)) as u32;
        let b = rng.below(u64::from(num_nodes)) as u32;
        if rng.unit() < 0.85 { (a, b / num * num + a % num) } else { (a, b) }
    };
    (0..num_nodes * 8).map(edge).filter(|&(_, b)| b < num_nodes).collect()
}

fn cut(graph: &Groups, parts: &[u32]) -> usize {
    let cut_of = |node: usize| graph.row(node).iter().filter(|&&other| parts[other as usize] != parts[node]).count();
    (0..graph.num_rows()).map(cut_of).sum()
}

fn any_edges() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (1..60_usize).prop_flat_map(|num_nodes| {
        let node = 0..num_nodes as u32;
        (Just(num_nodes), prop::collection::vec((node.clone(), node), 0..200))
    })
}

proptest! {
    #[test]
    fn any_graph_is_split_within_the_capacity_of_nodes(
        (num_nodes, edges) in any_edges(), num_parts in 1..7_u32, seed in 0..9_u64,
    ) {
        let graph = graph(num_nodes, &edges);
        let num_parts = num_parts.min(num_nodes as u32);
        let constraints = nodes_only(num_nodes);
        let split = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| split_within(SMALL, &graph, &constraints, num_parts, seed).unwrap())
        };
        let parts = split(1);
        prop_assert_eq!(&parts, &split(4));
        let mut sizes = vec![0; num_parts as usize];
        parts.iter().for_each(|&part| sizes[part as usize] += 1);
        let capacity = (1.03 * num_nodes as f64 / f64::from(num_parts)).max(num_nodes.div_ceil(num_parts as usize) as f64);
        prop_assert!(sizes.iter().all(|&size| f64::from(size) <= capacity), "{:?}", sizes);
    }

    #[test]
    fn clusters_have_at_most_twice_their_share_and_are_numbered_by_first_node(
        (num_nodes, edges) in any_edges(), wanted in 1..20_usize, seed in 0..9_u64,
    ) {
        let graph = graph(num_nodes, &edges);
        let constraints = constraints(num_nodes);
        let clusters = cluster(&graph, &constraints, wanted, seed);
        let limits: Vec<u64> = constraints.totals.iter().map(|total| (2 * total / wanted as u64).max(1)).collect();
        let mut sums = vec![[0, 0]; clusters.num];
        for (node, &cluster) in clusters.of.iter().enumerate() {
            prop_assert!(clusters.of[..node].iter().max().map_or(0, |max| max + 1) >= cluster);
            sums[cluster as usize].iter_mut().zip(constraints.of(node)).for_each(|(sum, &weight)| *sum += weight as u64);
        }
        prop_assert!(sums.iter().all(|sum| (1..=limits[0]).contains(&sum[0]) && sum[1] <= limits[1]), "{:?}", sums);
    }

    #[test]
    fn contraction_adds_up_edges_and_weights(
        (num_nodes, edges) in any_edges(), num in 1..9_u32, max_pairs in 1..200_usize, seed in 0..9_u64,
    ) {
        let graph = graph(num_nodes, &edges);
        let mut rng = CounterRng::new(seed);
        let num = num.min(num_nodes as u32);
        let mut of: Vec<u32> = (0..num_nodes).map(|_| rng.below(u64::from(num)) as u32).collect();
        (0..num).for_each(|cluster| of[cluster as usize] = cluster);
        let clusters = Clusters { of, num: num as usize };
        let constraints = constraints(num_nodes);
        let coarse = contract(&graph, &constraints, &clusters, max_pairs, seed);
        let mut expected = BTreeMap::new();
        for node in 0..num_nodes {
            for &other in graph.row(node) {
                let ends = (clusters.of[node], clusters.of[other as usize]);
                if ends.0 != ends.1 {
                    *expected.entry(ends).or_insert(0_i32) += 1;
                }
            }
        }
        let mut found = BTreeMap::new();
        for (row, ends) in coarse.offsets.windows(2).enumerate() {
            for at in ends[0] as usize..ends[1] as usize {
                found.insert((row as u32, coarse.neighbors[at]), coarse.edge_weights[at]);
            }
        }
        prop_assert_eq!(found.len(), coarse.neighbors.len(), "a pair twice");
        if expected.len() / 2 <= max_pairs {
            prop_assert_eq!(found, expected);
        } else {
            prop_assert!(found.len() / 2 <= max_pairs);
            prop_assert!(found.iter().all(|(&(a, b), weight)| found[&(b, a)] == *weight && *weight <= expected[&(a, b)]));
        }
        for cluster in 0..num {
            let of_cluster = (0..num_nodes).filter(|&node| clusters.of[node] == cluster);
            let sum = of_cluster.fold([0, 0], |sum, node| [sum[0] + constraints.of(node)[0], sum[1] + constraints.of(node)[1]]);
            prop_assert_eq!(coarse.constraints.of(cluster as usize), &sum);
        }
    }
}

#[test]
fn refinement_moves_nodes_back_to_their_community() {
    let graph = graph(400, &communities(400, 3));
    let planted: Vec<u32> = (0..400).map(|node| u32::from(node % 8 >= 4)).collect();
    let mut mixed = planted.clone();
    (0..400).step_by(9).for_each(|node| mixed[node] = 1 - mixed[node]);
    let refined = refine(&graph, &constraints(400), 2, mixed.clone(), 0);
    assert!(cut(&graph, &mixed) > cut(&graph, &planted) * 3 / 2);
    assert!(cut(&graph, &refined) <= cut(&graph, &planted), "{} {}", cut(&graph, &refined), cut(&graph, &planted));
}

#[test]
fn refinement_empties_parts_above_their_capacity() {
    let graph = graph(300, &communities(300, 3));
    let constraints = constraints(300);
    let refined = refine(&graph, &constraints, 5, vec![2; 300], 0);
    let mut loads = Loads::new(&constraints, 5);
    refined.iter().enumerate().for_each(|(node, &part)| loads.add(part as usize, constraints.of(node)));
    assert!((0..5).all(|part| !loads.is_over(part)));
}

#[test]
fn leaves_of_a_star_and_single_nodes_are_clustered() {
    let star: Vec<(u32, u32)> = (1..1000).map(|leaf| (leaf, 0)).collect();
    for graph in [graph(1000, &star), graph(1000, &[])] {
        let clusters = cluster(&graph, &nodes_only(1000), 50, 1);
        assert!((25..=50).contains(&clusters.num), "{}", clusters.num);
    }
}

#[test]
fn the_cut_is_close_to_that_of_metis_even_if_edges_are_sampled() {
    let graph = graph(5000, &communities(5000, 1));
    let constraints = constraints(5000);
    for num_parts in [2, 5, 10] {
        let metis = crate::methods::metis::split((&graph).into(), &constraints, num_parts, false, 0, None).unwrap();
        for pairs in [100_000, 1500] {
            let bounds = Bounds { direct: 0, clusters: 250, clusters_per_part: 16, pairs };
            let parts = split_within(bounds, &graph, &constraints, num_parts, 0).unwrap();
            let ratio = cut(&graph, &parts) as f64 / cut(&graph, &metis) as f64;
            assert!(ratio < 1.5, "{num_parts} parts, {pairs} pairs: {ratio} times the cut of METIS");
        }
    }
}

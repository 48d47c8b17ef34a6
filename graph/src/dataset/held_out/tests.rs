use super::*;
use crate::{NodeData, NodeTypeId};
use std::collections::BTreeMap;

fn nodes(name: &str, num_nodes: usize) -> NodeData {
    NodeData { name: name.into(), num_nodes, ..NodeData::default() }
}

/// Returns a dataset with two node types, and three edge types: a relation, its reverse, and a symmetric relation with
/// duplicates.
fn dataset() -> Dataset {
    let across: Vec<(u32, u32)> = (0..3000).map(|i| (i * 7 % 200, i * 11 % 90)).collect();
    let within: Vec<(u32, u32)> = (0..3000).flat_map(|i| [(i % 200, i * 3 % 200), (i * 3 % 200, i % 200)]).collect();
    let edges = |src_type, relation: &str, dst_type, pairs: Vec<(u32, u32)>| {
        let (src, dst): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        let mut edges = EdgeData::new(NodeTypeId(src_type), relation, NodeTypeId(dst_type), src.into(), dst.into());
        edges.attributes.times = Some((0..edges.src.len() as i64).collect::<Vec<_>>().into());
        edges
    };
    let back = across.iter().map(|&(a, b)| (b, a)).collect();
    Dataset {
        name: "test".into(),
        node_types: vec![nodes("author", 200), nodes("paper", 90)],
        edge_types: vec![edges(0, "writes", 1, across), edges(1, "by", 0, back), edges(0, "knows", 0, within)],
    }
}

fn hold_out(valid_fraction: f64, test_fraction: f64) -> HoldOut {
    HoldOut::random(valid_fraction, test_fraction, 7)
}

fn held_out(seed: u64) -> Dataset {
    let mut graph = dataset();
    let all = graph.edge_type_ids();
    graph.hold_out_edges(&all, &HoldOut { seed, ..hold_out(0.1, 0.2) }).unwrap();
    graph
}

#[test]
fn every_edge_is_on_one_side_and_no_other_edge_between_its_nodes_is_on_another() {
    let before = dataset();
    let after = held_out(7);
    after.validate().unwrap();
    let mut side_of: BTreeMap<[(u16, u32); 2], usize> = BTreeMap::new();
    for (edges, original) in after.edge_types.iter().zip(&before.edge_types) {
        let sides = [(&edges.src, &edges.dst), (&edges.held_out.valid.src, &edges.held_out.valid.dst)];
        let sides = [sides[0], sides[1], (&edges.held_out.test.src, &edges.held_out.test.dst)];
        assert_eq!(sides.iter().map(|(src, _)| src.len()).sum::<usize>(), original.src.len());
        for (side, (src, dst)) in sides.into_iter().enumerate() {
            for (&src, &dst) in src.iter().zip(&dst[..]) {
                let mut ends = [(edges.src_type.0, src), (edges.dst_type.0, dst)];
                ends.sort_unstable();
                assert_eq!(*side_of.entry(ends).or_insert(side), side, "{ends:?}");
            }
        }
        for (side, share) in [(1, 0.1), (2, 0.2)] {
            let found = sides[side].0.len() as f64 / original.src.len() as f64;
            assert!((found - share).abs() < 0.06, "{found} of {}", edges.relation);
        }
        // The remaining edges keep their order, and their times identify them.
        let times = edges.attributes.times.as_ref().unwrap();
        assert!(times.is_sorted());
        for ((&src, &dst), &time) in edges.src.iter().zip(&edges.dst[..]).zip(&times[..]) {
            assert_eq!((src, dst), (original.src[time as usize], original.dst[time as usize]));
        }
    }
}

#[test]
fn the_choice_is_that_of_the_seed() {
    let sources = |seed| held_out(seed).edge_types[2].held_out.test.src.to_vec();
    assert_eq!(sources(7), sources(7));
    assert_ne!(sources(7), sources(8));
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one.install(|| sources(7)), sources(7));
}

#[test]
fn only_the_types_that_are_asked_for_change() {
    let mut graph = dataset();
    graph.hold_out_edges(&[EdgeTypeId(2), EdgeTypeId(2)], &hold_out(0.0, 0.5)).unwrap();
    assert!(graph.edge_types[..2].iter().all(|edges| edges.held_out.is_empty() && edges.src.len() == 3000));
    let HeldOutEdges { valid, test } = &graph.edge_types[2].held_out;
    assert!(valid.is_empty() && test.len() > 2000);
}

#[test]
fn nonsense_is_rejected_and_changes_nothing() {
    for (valid, test, why) in [
        (-0.1, 0.1, "the share of validation edges is -0.1, outside 0..1"),
        (0.1, 1.0, "the share of test edges is 1, outside 0..1"),
        (f64::NAN, 0.1, "the share of validation edges is NaN"),
        (0.5, 0.5, "validation and test edges are 1 of all, which leaves none"),
        (0.0, 0.0, "both 0"),
    ] {
        let mut graph = dataset();
        let error = graph.hold_out_edges(&[EdgeTypeId(0)], &hold_out(valid, test)).unwrap_err().to_string();
        assert!(error.starts_with("dataset test: ") && error.contains(why), "{error}, expected {why}");
        assert_eq!(graph.num_edges(), dataset().num_edges());
    }
    let mut graph = held_out(7);
    let error = graph.hold_out_edges(&[EdgeTypeId(1)], &hold_out(0.1, 0.1)).unwrap_err().to_string();
    assert!(error.contains("edge type paper__by__author already has held-out edges"), "{error}");
    let error = graph.hold_out_edges(&[EdgeTypeId(9)], &hold_out(0.1, 0.1)).unwrap_err().to_string();
    assert!(error.contains("there is no edge type 9"), "{error}");
}

fn latest(valid: f64, test: f64) -> Dataset {
    let mut graph = dataset();
    // Both directions of a relation have the same times, and many edges share a time.
    for edges in &mut graph.edge_types {
        let time = |(&a, &b): (&u32, &u32)| {
            if edges.relation == "by" { i64::from(b * 13 + a) % 50 } else { i64::from(a * 13 + b) % 50 }
        };
        let times: Vec<i64> = edges.src.iter().zip(&edges.dst[..]).map(time).collect();
        edges.attributes.times = Some(times.into());
    }
    let all = graph.edge_type_ids();
    graph.hold_out_edges(&all, &HoldOut::latest(valid, test, 3)).unwrap();
    graph
}

#[test]
fn the_latest_edges_are_those_after_all_others() {
    let graph = latest(0.1, 0.2);
    let total = dataset().num_edges();
    graph.validate().unwrap();
    let times = |list: &EdgeList| list.times.as_ref().unwrap().to_vec();
    let of = |side: fn(&EdgeData) -> Vec<i64>| graph.edge_types.iter().flat_map(side).collect::<Vec<i64>>();
    let kept = of(|edges| edges.attributes.times.as_ref().unwrap().to_vec());
    let valid = of(|edges| edges.held_out.valid.times.as_ref().unwrap().to_vec());
    let test = of(|edges| edges.held_out.test.times.as_ref().unwrap().to_vec());
    assert!(kept.iter().max() <= valid.iter().min() && valid.iter().max() <= test.iter().min());
    assert_eq!(kept.len() + valid.len() + test.len(), total);
    for (found, share) in [(valid.len(), 0.1), (test.len(), 0.2)] {
        let found = found as f64 / total as f64;
        assert!((found - share).abs() < 0.02, "{found} instead of {share}");
    }
    // Edges of the same time between the same two nodes are on one side, regardless of type and direction.
    let mut side_of: BTreeMap<([(u16, u32); 2], i64), usize> = BTreeMap::new();
    for edges in &graph.edge_types {
        let kept =
            EdgeList { times: edges.attributes.times.clone(), ..EdgeList::new(edges.src.clone(), edges.dst.clone()) };
        for (side, list) in [&kept, &edges.held_out.valid, &edges.held_out.test].into_iter().enumerate() {
            for ((&src, &dst), time) in list.src.iter().zip(&list.dst[..]).zip(times(list)) {
                let mut ends = [(edges.src_type.0, src), (edges.dst_type.0, dst)];
                ends.sort_unstable();
                assert_eq!(*side_of.entry((ends, time)).or_insert(side), side, "{ends:?} at {time}");
            }
        }
    }
    assert!(graph.overlaps().leaks(true).is_empty());
}

#[test]
fn only_one_list_may_be_asked_for_and_nothing_without_times() {
    let graph = latest(0.0, 0.25);
    assert!(graph.edge_types.iter().all(|edges| edges.held_out.valid.is_empty()));
    let mut graph = dataset();
    graph.edge_types[1].attributes.times = None;
    let all = graph.edge_type_ids();
    let error = graph.hold_out_edges(&all, &HoldOut::latest(0.1, 0.1, 0)).unwrap_err().to_string();
    assert!(error.contains("edge type paper__by__author has no times"), "{error}");
    assert_eq!(graph.num_edges(), dataset().num_edges());
    let mut same = dataset();
    same.edge_types.truncate(1);
    let edges = &mut same.edge_types[0];
    edges.src = vec![1; 10].into();
    edges.dst = vec![2; 10].into();
    edges.attributes.times = Some(vec![7; 10].into());
    let error = same.hold_out_edges(&[EdgeTypeId(0)], &HoldOut::latest(0.1, 0.1, 0)).unwrap_err().to_string();
    assert!(error.contains("holding out the latest would leave no training edges"), "{error}");
}

#[test]
fn held_out_edges_keep_their_times() {
    let before = dataset();
    for edges in held_out(7).edge_types {
        for (_, list) in edges.held_out.lists() {
            for ((&src, &dst), &time) in list.src.iter().zip(&list.dst[..]).zip(&list.times.as_ref().unwrap()[..]) {
                let original = before.edge_types.iter().find(|e| e.relation == edges.relation).unwrap();
                assert_eq!((src, dst), (original.src[time as usize], original.dst[time as usize]));
            }
        }
    }
}

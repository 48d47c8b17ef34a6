use super::*;
use crate::memory::Workspace;
use crate::{Dataset, EdgeData, EdgeList, HeldOutEdges, NodeData, NodeTypeId, Splits};
use proptest::prelude::*;
use std::collections::BTreeSet;

type Pairs = Vec<(u32, u32)>;

fn nodes(name: &str, num_nodes: usize) -> NodeData {
    NodeData { name: name.into(), num_nodes, ..NodeData::default() }
}

fn list(pairs: &[(u32, u32)]) -> EdgeList {
    let (src, dst): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    EdgeList::new(src.into(), dst.into())
}

fn timed(edges: &[(u32, u32, i64)]) -> EdgeList {
    let pairs: Pairs = edges.iter().map(|&(src, dst, _)| (src, dst)).collect();
    let times = edges.iter().map(|&(_, _, time)| time).collect::<Vec<_>>();
    EdgeList { times: Some(times.into()), ..list(&pairs) }
}

fn edges(relation: &str, types: [u16; 2], train: EdgeList, valid: EdgeList, test: EdgeList) -> EdgeData {
    let [src_type, dst_type] = types.map(NodeTypeId);
    let mut edges = EdgeData::new(src_type, relation, dst_type, train.src, train.dst);
    edges.attributes.times = train.times;
    edges.held_out = HeldOutEdges { valid, test };
    edges
}

fn graph(edge_types: Vec<EdgeData>) -> Dataset {
    Dataset { name: "test".into(), node_types: vec![nodes("user", 40), nodes("item", 40)], edge_types }
}

fn pairs(list: &EdgeList) -> Pairs {
    list.src.iter().copied().zip(list.dst.iter().copied()).collect()
}

fn train(edges: &EdgeData) -> Pairs {
    edges.src.iter().copied().zip(edges.dst.iter().copied()).collect()
}

proptest! {
    #[test]
    fn counts_are_those_of_plain_sets(
        train_pairs in prop::collection::vec((0..9_u32, 0..9_u32), 0..60),
        valid in prop::collection::vec((0..9_u32, 0..9_u32), 0..12),
        test in prop::collection::vec((0..9_u32, 0..9_u32), 0..12),
        undirected: bool,
    ) {
        let mut dataset = graph(vec![edges("knows", [0, 0], list(&train_pairs), list(&valid), list(&test))]);
        let known: BTreeSet<(u32, u32)> = train_pairs.iter().copied().collect();
        let tested: BTreeSet<(u32, u32)> = test.iter().copied().collect();
        let count = |of: &Pairs, is: &dyn Fn(&(u32, u32)) -> bool| of.iter().filter(|pair| is(pair)).count() as u64;
        let mirrored = |set: &BTreeSet<(u32, u32)>, (a, b): &(u32, u32)| a != b && set.contains(&(*b, *a));
        let expected = EdgeOverlap {
            edge_type: "user__knows__user".into(),
            held_out: [valid.len() as u64, test.len() as u64],
            in_train: [&valid, &test].map(|of| count(of, &|pair| known.contains(pair))),
            mirrored_in_train: [&valid, &test].map(|of| count(of, &|pair| mirrored(&known, pair))),
            valid_in_test: count(&valid, &|pair| tested.contains(pair)),
            valid_mirrored_in_test: count(&valid, &|pair| mirrored(&tested, pair)),
            ..EdgeOverlap::default()
        };
        let nothing = EdgeOverlap { edge_type: expected.edge_type.clone(), held_out: expected.held_out, ..EdgeOverlap::default() };
        let found = dataset.overlaps();
        match &found.edge_types[..] {
            [] => prop_assert_eq!(&nothing, &expected),
            [found] => prop_assert_eq!(found, &expected),
            _ => prop_assert!(false, "one edge type has several overlaps"),
        }
        dataset.edge_types[0].attributes.weights =
            Some((0..train_pairs.len()).map(|at| at as f32).collect::<Vec<_>>().into());
        dataset.remove_overlaps(&Workspace::default(), undirected, &[]).unwrap();
        prop_assert!(dataset.overlaps().leaks(undirected).is_empty());
        let is_held_out = |pair: &(u32, u32)| valid.contains(pair) || test.contains(pair);
        let kept = train_pairs.iter().copied().enumerate().filter(|(_, pair)| {
            !(is_held_out(pair) || undirected && is_held_out(&(pair.1, pair.0)))
        });
        let kept: Vec<(usize, (u32, u32))> = kept.collect();
        let left = &dataset.edge_types[0];
        prop_assert_eq!(train(left), kept.iter().map(|&(_, pair)| pair).collect::<Pairs>());
        let weights: Vec<f32> = kept.iter().map(|&(at, _)| at as f32).collect();
        prop_assert_eq!(&left.attributes.weights.as_ref().unwrap()[..], &weights[..]);
        prop_assert_eq!(pairs(&left.held_out.test), test);
    }
}

#[test]
fn the_declared_reverse_type_is_compared_too() {
    let writes = edges("writes", [0, 1], list(&[(0, 1)]), list(&[(2, 3), (4, 5)]), list(&[(6, 7)]));
    let back = edges("rev_writes", [1, 0], list(&[(1, 0), (3, 2), (7, 6), (9, 9)]), list(&[]), list(&[]));
    let other = edges("reads", [1, 0], list(&[(5, 4)]), list(&[]), list(&[]));
    let mut dataset = graph(vec![writes, back, other]);
    let overlaps = dataset.overlaps();
    assert_eq!(overlaps.edge_types.len(), 1);
    assert_eq!(overlaps.edge_types[0].in_reverse_type, [1, 1]);
    let leaks = overlaps.leaks(false);
    assert_eq!(leaks.len(), 1);
    assert!(leaks[0].contains("1 of 2 validation edges are training edges of the reverse type"), "{leaks:?}");
    dataset.remove_overlaps(&Workspace::default(), false, &[]).unwrap();
    assert_eq!(train(&dataset.edge_types[1]), [(1, 0), (9, 9)]);
    assert_eq!(train(&dataset.edge_types[2]), [(5, 4)]);
    assert!(dataset.overlaps().is_empty());
}

#[test]
fn types_that_settings_pair_are_compared_and_cleaned() {
    let pairs = [("writes".to_owned(), "item__written_by__user".to_owned())];
    let writes = edges("writes", [0, 1], list(&[(0, 1)]), list(&[(2, 3), (4, 5)]), list(&[(6, 7)]));
    let back = edges("written_by", [1, 0], list(&[(1, 0), (3, 2), (7, 6), (9, 9)]), list(&[]), list(&[]));
    // The ends of this type are not swapped.
    let other = edges("written_by", [0, 1], list(&[(3, 2)]), list(&[]), list(&[]));
    let mut dataset = graph(vec![writes, back, other]);
    let undeclared = dataset.overlaps();
    assert!(undeclared.leaks(false).is_empty());
    assert_eq!(undeclared.edge_types[0].undeclared_reverses[0].held_out, [1, 1]);
    let overlaps = dataset.overlaps_with(&pairs);
    assert_eq!((overlaps.edge_types.len(), overlaps.edge_types[0].in_reverse_type), (1, [1, 1]));
    let swapped = [(pairs[0].1.clone(), pairs[0].0.clone())];
    assert_eq!(dataset.overlaps_with(&swapped), overlaps);
    dataset.remove_overlaps(&Workspace::default(), false, &pairs).unwrap();
    assert_eq!(train(&dataset.edge_types[1]), [(1, 0), (9, 9)]);
    assert_eq!(train(&dataset.edge_types[2]), [(3, 2)]);
    assert!(dataset.overlaps_with(&pairs).is_empty());

    // With times, the same two nodes may meet again.
    let writes = edges("writes", [0, 1], timed(&[(0, 1, 1)]), timed(&[(2, 3, 5)]), timed(&[(6, 7, 5)]));
    let back = edges("written_by", [1, 0], timed(&[(3, 2, 5), (3, 2, 6), (7, 6, 4)]), list(&[]), list(&[]));
    let mut dataset = graph(vec![writes, back]);
    assert_eq!(dataset.overlaps_with(&pairs).edge_types[0].in_reverse_type, [1, 0]);
    dataset.remove_overlaps(&Workspace::default(), false, &pairs).unwrap();
    assert_eq!(dataset.edge_types[1].attributes.times.as_ref().unwrap()[..], [6, 4]);
}

#[test]
fn edges_with_times_are_the_same_if_their_times_are() {
    let known = timed(&[(0, 1, 5), (0, 1, 9), (2, 3, 5), (5, 4, 7)]);
    let valid = timed(&[(0, 1, 9), (0, 1, 12), (4, 5, 7), (8, 8, 1)]);
    let test = timed(&[(2, 3, 6), (0, 1, 12)]);
    let mut dataset = graph(vec![edges("knows", [0, 0], known, valid, test)]);
    let expected = EdgeOverlap {
        edge_type: "user__knows__user".into(),
        held_out: [4, 2],
        in_train: [1, 0],
        mirrored_in_train: [1, 0],
        at_other_times: [1, 2],
        valid_in_test: 1,
        ..EdgeOverlap::default()
    };
    let overlaps = dataset.overlaps();
    assert_eq!(overlaps.edge_types, [expected]);
    assert_eq!(overlaps.remarks(false).len(), 2);
    dataset.remove_overlaps(&Workspace::default(), false, &[]).unwrap();
    assert_eq!(train(&dataset.edge_types[0]), [(0, 1), (2, 3), (5, 4)]);
    assert_eq!(dataset.edge_types[0].attributes.times.as_ref().unwrap()[..], [5, 5, 7]);
    let valid = &dataset.edge_types[0].held_out.valid;
    assert_eq!((pairs(valid), &valid.times.as_ref().unwrap()[..]), (vec![(0, 1), (4, 5), (8, 8)], &[9, 7, 1][..]));
    // If one side has no times, only the ends are compared.
    dataset.edge_types[0].attributes.times = None;
    let overlaps = dataset.overlaps();
    assert_eq!((overlaps.edge_types[0].in_train, overlaps.edge_types[0].at_other_times), ([1, 2], [0, 0]));
}

#[test]
fn nodes_in_two_splits_are_counted_and_stay_in_the_last() {
    let mut dataset = graph(vec![]);
    dataset.node_types[1].splits =
        Splits { train: vec![0, 1, 2, 3].into(), valid: vec![2, 3, 4].into(), test: vec![3, 4, 5].into() };
    let overlaps = dataset.overlaps();
    let expected = NodeOverlap { node_type: "item".into(), train_valid: 2, train_test: 1, valid_test: 2 };
    assert_eq!(overlaps.node_types, [expected]);
    let words = "node type item: 2 training nodes are validation nodes, 1 training nodes are test nodes, 2 validation nodes \
                 are test nodes";
    assert_eq!(overlaps.leaks(false), [words]);
    dataset.remove_overlaps(&Workspace::default(), false, &[]).unwrap();
    let splits = &dataset.node_types[1].splits;
    assert_eq!((&splits.train[..], &splits.valid[..], &splits.test[..]), (&[0, 1][..], &[2][..], &[3, 4, 5][..]));
}

#[test]
fn policies_are_words() {
    for policy in [OverlapPolicy::Error, OverlapPolicy::Remove, OverlapPolicy::Allow] {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert!("keep".parse::<OverlapPolicy>().is_err());
}

#[test]
fn a_type_with_most_reverses_of_held_out_edges_has_a_remark() {
    let held_out = [(2, 3), (4, 5), (6, 7), (8, 9)];
    for (number, relation, is_noted) in
        [(2, "bought_by", true), (1, "bought_by", false), (4, "bought_by", true), (4, "rev_buys", false)]
    {
        let reverses: Pairs = held_out[..number].iter().map(|&(user, item)| (item, user)).chain([(1, 0)]).collect();
        let buys = edges("buys", [0, 1], list(&[(0, 1)]), list(&held_out[..1]), list(&held_out[1..]));
        let opposite = edges(relation, [1, 0], list(&reverses), list(&[]), list(&[]));
        let same_direction = edges("viewed", [0, 1], list(&held_out), list(&[]), list(&[]));
        let remarks = graph(vec![buys, opposite, same_direction]).overlaps().remarks(false);
        assert_eq!(!remarks.is_empty(), is_noted, "{number} {relation}: {remarks:?}");
        if is_noted {
            let of_test = number - 1;
            let counts =
                format!("the reverse of 1 of 1 validation edges and of {of_test} of 3 test edges is a training edge");
            assert!(remarks.len() == 1 && remarks[0].contains(&counts), "{remarks:?}");
            assert!(remarks[0].contains("--reverse-types user__buys__item=item__bought_by__user"), "{remarks:?}");
        }
    }
    // Edges at other times are other edges.
    for (time, is_noted) in [(5, true), (6, false)] {
        let buys = edges("buys", [0, 1], timed(&[(0, 1, 1)]), timed(&[]), timed(&[(2, 3, 5)]));
        let opposite = edges("bought_by", [1, 0], timed(&[(3, 2, time)]), list(&[]), list(&[]));
        let remarks = graph(vec![buys, opposite]).overlaps().remarks(false);
        assert_eq!(!remarks.is_empty(), is_noted, "{remarks:?}");
    }
}

use super::super::{EdgeAttributes, EdgeIds, EdgeList, HoldOut};
use super::*;
use crate::{EdgeTypeId, Features, NodeData};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn nodes(num_nodes: usize) -> NodeData {
    NodeData { name: crate::DEFAULT_NODE_TYPE.into(), num_nodes, ..NodeData::default() }
}

fn graph(nodes: NodeData, edges: &[(u32, u32)]) -> Dataset {
    let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
    Dataset::homogeneous("test", nodes, src.into(), dst.into())
}

fn pairs(dataset: &Dataset) -> Vec<(u32, u32)> {
    let edges = dataset.edges(EdgeTypeId(0));
    edges.src.iter().copied().zip(edges.dst.iter().copied()).collect()
}

proptest! {
    #[test]
    fn undirected_is_the_sorted_set_of_both_directions(edges in prop::collection::vec((0..12_u32, 0..12_u32), 0..60)) {
        let mut dataset = graph(nodes(12), &edges);
        dataset.to_undirected();
        let expected: BTreeSet<(u32, u32)> = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        prop_assert_eq!(pairs(&dataset), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn edges_between_two_node_types_keep_their_direction() {
    let mut dataset = graph(nodes(3), &[(2, 0), (0, 1)]);
    dataset.node_types.push(nodes(3));
    dataset.edge_types[0].dst_type = NodeTypeId(1);
    dataset.to_undirected();
    assert_eq!(pairs(&dataset), [(2, 0), (0, 1)]);
}

/// Returns an edge list of the given pairs.
fn list(pairs: &[(u32, u32)]) -> EdgeList {
    let (src, dst): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    EdgeList::new(src.into(), dst.into())
}

/// Returns attributes that identify their edge by its number.
fn numbered(num_edges: usize) -> EdgeAttributes {
    let floats: Vec<f32> = (0..num_edges).map(|edge| edge as f32).collect();
    EdgeAttributes {
        features: Some(Features::F32 { values: floats.clone().into(), dim: 1 }),
        weights: Some(floats.into()),
        times: Some((0..num_edges as i64).collect::<Vec<_>>().into()),
        labels: None,
        ids: Some(EdgeIds::Numbers((0..num_edges as i64).collect::<Vec<_>>().into())),
    }
}

proptest! {
    #[test]
    fn undirected_edges_keep_their_attributes_and_give_no_held_out_edge_away(
        edges in prop::collection::vec((0..9_u32, 0..9_u32), 0..50),
        held_out in prop::collection::vec((0..9_u32, 0..9_u32), 0..6),
        with_attributes: bool,
    ) {
        let mut dataset = graph(nodes(9), &edges);
        if with_attributes {
            dataset.edge_types[0].attributes = numbered(edges.len());
        }
        dataset.edge_types[0].held_out.valid = list(&held_out);
        let mut expected: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for (at, &edge) in edges.iter().enumerate() {
            expected.entry(edge).or_insert(at);
        }
        for (at, &(a, b)) in edges.iter().enumerate() {
            if !held_out.contains(&(a, b)) && !held_out.contains(&(b, a)) {
                expected.entry((b, a)).or_insert(at);
            }
        }
        dataset.to_undirected();
        prop_assert!(pairs(&dataset).iter().eq(expected.keys()));
        let attributes = &dataset.edge_types[0].attributes;
        if with_attributes {
            let of: Vec<f32> = expected.values().map(|&at| at as f32).collect();
            prop_assert_eq!(&attributes.weights.as_ref().unwrap()[..], &of[..]);
            let Some(Features::F32 { values, .. }) = &attributes.features else { panic!("no features") };
            prop_assert_eq!(&values[..], &of[..]);
            prop_assert!(attributes.times.as_ref().unwrap().iter().zip(&of).all(|(&time, &edge)| time as f32 == edge));
        } else {
            prop_assert!(attributes.is_empty());
        }
        prop_assert_eq!(&dataset.edge_types[0].held_out.valid.src[..], &list(&held_out).src[..]);
    }
}

/// PyG's `ToUndirected` sums the weights of both edges from 0 to 1 and of the edge from 1 to 0.
#[test]
fn merged_edges_with_weights_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = Workspace::scratch(dir.path(), 1, ()).unwrap();
    for space in [Workspace::default(), scratch] {
        let mut plain = graph(nodes(3), &[(0, 1), (1, 0), (0, 1), (2, 1)]);
        let mut weighted = plain.clone();
        weighted.edge_types[0].attributes.weights = Some(vec![1.0, 2.0, 10.0, 4.0].into());
        let said = weighted.to_undirected_in(&space, KeptDuplicate::First).unwrap();
        assert_eq!(pairs(&weighted), [(0, 1), (1, 0), (1, 2), (2, 1)]);
        assert_eq!(weighted.edge_types[0].attributes.weights.as_ref().unwrap()[..], [1.0, 2.0, 4.0, 4.0]);
        assert!(said.len() == 1 && said[0].contains(" of 1 later edges of type node__to__node are lost"), "{said:?}");
        assert!(plain.to_undirected_in(&space, KeptDuplicate::First).unwrap().is_empty(), "nothing is lost");
        let mut apart = graph(nodes(2), &[(0, 1), (1, 0)]);
        apart.edge_types[0].attributes = numbered(2);
        assert!(
            apart.to_undirected_in(&space, KeptDuplicate::First).unwrap().is_empty(),
            "an edge is no duplicate of its reverse"
        );
    }
}

#[test]
fn a_reverse_type_has_the_same_attributes_and_the_reversed_held_out_edges() {
    let mut dataset = graph(nodes(4), &[(2, 0), (0, 1)]);
    dataset.edge_types[0].attributes = numbered(2);
    dataset.edge_types[0].held_out.test = list(&[(3, 1)]);
    dataset.add_reverse_edges();
    dataset.validate().unwrap();
    let reverse = dataset.edges(EdgeTypeId(1));
    assert_eq!((&reverse.src[..], &reverse.dst[..]), (&[0, 1][..], &[2, 0][..]));
    assert_eq!(reverse.attributes.weights.as_ref().unwrap()[..], [0.0, 1.0]);
    assert_eq!((&reverse.held_out.test.src[..], &reverse.held_out.test.dst[..]), (&[1][..], &[3][..]));
}

proptest! {
    #[test]
    fn the_latest_duplicate_is_held_out_in_any_order(
        mut edges in prop::collection::vec((0..5_u32, 0..5_u32, 0..40_i64), 4..40),
        in_files: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let space = if in_files { Workspace::scratch(folder.path(), 1 << 16, ()).unwrap() } else { Workspace::default() };
        let mut latest: BTreeMap<(u32, u32), i64> = BTreeMap::new();
        for &(a, b, time) in &edges {
            latest.entry((a, b)).and_modify(|known| *known = time.max(*known)).or_insert(time);
        }
        // The reverse of an edge that does not exist has the time of the edge.
        let mut expected = latest.clone();
        for (&(a, b), &time) in &latest {
            expected.entry((b, a)).or_insert(time);
        }
        for _ in 0..2 {
            let ends: Vec<(u32, u32)> = edges.iter().map(|&(a, b, _)| (a, b)).collect();
            let mut dataset = graph(nodes(5), &ends);
            dataset.edge_types[0].attributes.times = Some(edges.iter().map(|edge| edge.2).collect::<Vec<_>>().into());
            let kept = KeptDuplicate::before(Some(HoldOut::latest(0.2, 0.2, 0).choice));
            dataset.to_undirected_in(&space, kept).unwrap();
            prop_assert!(pairs(&dataset).iter().eq(expected.keys()));
            let times = dataset.edge_types[0].attributes.times.as_ref().unwrap();
            prop_assert!(times.iter().eq(expected.values()));
            edges.reverse();
        }
    }
}

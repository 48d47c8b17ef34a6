use super::*;
use crate::{EdgeAttributes, HeldOutEdges, NodeTypeId};
use edgecut_testing::assert_has;

fn nodes(num_nodes: usize) -> NodeData {
    NodeData { name: crate::DEFAULT_NODE_TYPE.into(), num_nodes, ..NodeData::default() }
}

fn graph(nodes: NodeData, edges: &[(u32, u32)]) -> Dataset {
    let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
    Dataset::homogeneous("test", nodes, src.into(), dst.into())
}

#[test]
fn loops_duplicates_and_isolated_nodes_are_legal() {
    let dataset = graph(nodes(5), &[(1, 1), (0, 1), (0, 1)]);
    dataset.validate().unwrap();
    assert_eq!(dataset.num_edges(), 3);
}

#[test]
fn the_structure_is_checked_without_the_values_of_features() {
    let featured = |rows: usize| {
        let features = Some(Features::F32 { values: vec![f32::NAN; 2 * rows].into(), dim: 2 });
        NodeData { features, ..nodes(3) }
    };
    graph(featured(3), &[(0, 1)]).validate_structure().unwrap();
    assert!(graph(featured(3), &[(0, 1)]).validate().is_err());
    assert_has(graph(featured(2), &[]).validate_structure().unwrap_err().to_string(), &["2 feature rows for 3 nodes"]);
    assert!(graph(featured(3), &[(0, 3)]).validate_structure().is_err());
}

#[test]
fn validate_names_what_is_wrong() {
    let labelled = |labels: &[i64]| NodeData { labels: Some(labels.to_vec().into()), num_classes: 2, ..nodes(3) };
    let featured = |values: &[f32]| {
        let features = Some(Features::F32 { values: values.to_vec().into(), dim: 2 });
        NodeData { features, ..nodes(3) }
    };
    let split = |ids: &[u32], of: NodeData| {
        let mut of = of;
        of.splits.set(Split::Valid, ids.to_vec().into());
        of
    };
    let cases = [
        (graph(nodes(0), &[]), "no nodes"),
        (graph(nodes(3), &[(0, 1), (3, 1)]), "the source of edge 1 is node 3, but there are 3 nodes of type node"),
        (graph(nodes(3), &[(0, 7)]), "the destination of edge 0 is node 7"),
        (graph(featured(&[0.0; 4]), &[]), "2 feature rows for 3 nodes"),
        (graph(featured(&[0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0]), &[]), "feature 1 of node 1 is NaN or infinite"),
        (graph(labelled(&[0, 1]), &[]), "2 labels for 3 nodes"),
        (graph(labelled(&[0, 1, 2]), &[]), "node 2 has label 2, outside -1..2"),
        (graph(labelled(&[0, -2, 1]), &[]), "node 1 has label -2"),
        (graph(split(&[1, 1], nodes(3)), &[]), "the valid split is not ascending at entry 1"),
        (graph(split(&[1, 3], nodes(3)), &[]), "the valid split has node 3"),
        (graph(split(&[0, 1], labelled(&[0, -1, 1])), &[]), "the valid split has node 1, which has no label"),
    ];
    for (dataset, why) in cases {
        let error = dataset.validate().unwrap_err().to_string();
        assert!(error.starts_with("dataset test: ") && error.contains(why), "{error}, expected {why}");
    }
    let mut uneven = graph(nodes(3), &[(0, 1)]);
    uneven.edge_types[0].dst = vec![1, 2].into();
    assert!(uneven.validate().unwrap_err().to_string().contains("1 sources but 2 destinations"));
    let mut untyped = graph(nodes(3), &[(0, 1)]);
    untyped.edge_types[0].src_type = NodeTypeId(4);
    assert!(untyped.validate().unwrap_err().to_string().contains("a node type that does not exist"));
}

#[test]
fn attributes_and_held_out_edges_are_checked_like_the_rest() {
    let edges = |attributes: EdgeAttributes, held_out: HeldOutEdges| {
        let mut dataset = graph(nodes(3), &[(0, 1), (1, 2)]);
        dataset.edge_types[0].attributes = attributes;
        dataset.edge_types[0].held_out = held_out;
        dataset
    };
    let weights = |weights: &[f32]| {
        edges(EdgeAttributes { weights: Some(weights.to_vec().into()), ..Default::default() }, Default::default())
    };
    let times = |times: &[i64]| {
        edges(EdgeAttributes { times: Some(times.to_vec().into()), ..Default::default() }, Default::default())
    };
    let features = |values: &[f32], dim| {
        let features = Some(Features::F32 { values: values.to_vec().into(), dim });
        edges(EdgeAttributes { features, ..Default::default() }, Default::default())
    };
    let held_out = |src: &[u32], dst: &[u32]| {
        let test = EdgeList::new(src.to_vec().into(), dst.to_vec().into());
        edges(Default::default(), HeldOutEdges { test, ..Default::default() })
    };
    for legal in [weights(&[0.0, 2.5]), times(&[i64::MIN, 7]), features(&[1.0, 2.0], 1), held_out(&[2, 2], &[0, 2])] {
        legal.validate().unwrap();
    }
    let timed = graph(NodeData { times: Some(vec![1, 2].into()), ..nodes(3) }, &[]);
    let cases = [
        (weights(&[1.0]), "edge type node__to__node: 1 weights for 2 edges"),
        (weights(&[0.5, -1.0]), "edge type node__to__node: edge 1 has weight -1, which is negative"),
        (weights(&[f32::NAN, 1.0]), "edge 0 has weight NaN, which is not finite"),
        (weights(&[1.0, f32::INFINITY]), "edge 1 has weight inf, which is not finite"),
        (times(&[1, 2, 3]), "3 times for 2 edges"),
        (features(&[1.0; 3], 3), "1 feature rows for 2 edges"),
        (features(&[0.0, 1.0, 0.0, f32::NAN], 2), "feature 1 of edge 1 is NaN or infinite"),
        (features(&[], 0), "edge features have no columns"),
        (
            held_out(&[0, 3], &[0, 0]),
            "the source of held-out test edge 1 is node 3, but there are 3 nodes of type node",
        ),
        (held_out(&[0], &[9]), "the destination of held-out test edge 0 is node 9"),
        (held_out(&[0], &[]), "1 sources but 0 destinations of held-out test edges"),
        (timed, "node type node: 2 times for 3 nodes"),
    ];
    for (dataset, why) in cases {
        assert_has(dataset.validate().unwrap_err().to_string(), &[why]);
    }
    features(&[f32::NAN; 2], 1).validate_structure().unwrap();
    assert!(weights(&[-1.0, 1.0]).validate_structure().is_err());
}

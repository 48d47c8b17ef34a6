//! Tests of building a set of graphs from valid and inconsistent data.

use super::*;
use crate::memory::Features;

fn edge_labels(columns: Vec<u32>) -> AttributeRows {
    let names = (0..5).map(|label| format!("label {label}")).collect();
    let labels = Some(OneHotLabels { columns: columns.into(), per_row: 1, names });
    AttributeRows { features: None, labels }
}

/// Returns the labels of a graph's edges.
fn labels_of(graphs: &GraphDataset, graph: usize) -> Vec<usize> {
    let mut rows = Vec::new();
    graphs.append_edge_features(graph, &mut rows);
    rows.chunks(5).map(|row| row.iter().position(|&value| value == 1.0).expect("a label")).collect()
}

fn features(values: Vec<f32>) -> Option<Features> {
    Some(Features::F32 { values: values.into(), dim: 1 })
}

fn data() -> GraphData {
    GraphData {
        node_offsets: vec![0, 2, 2, 5],
        src: vec![1, 4, 0, 2, 3],
        dst: vec![0, 2, 1, 4, 2],
        labels: vec![3, 5, 3],
        edges: edge_labels(vec![0, 1, 2, 3, 4]),
        ..GraphData::default()
    }
}

fn why(data: GraphData) -> String {
    GraphDataset::new("small", data).expect_err("contradictory data").to_string()
}

#[test]
fn edges_are_grouped_within_their_graphs_in_their_order() {
    let graphs = GraphDataset::new("small", data()).expect("good data");
    let sizes: Vec<usize> = (0..3).map(|graph| graphs.num_nodes_of(graph)).collect();
    assert_eq!((sizes, graphs.labels(), graphs.classes()), (vec![2, 0, 3], &[0, 1, 0][..], &[3, 5][..]));
    let last = graphs.graph(2);
    assert_eq!([last.neighbors(0), last.neighbors(1), last.neighbors(2)], [&[2, 1][..], &[], &[0]]);
    assert_eq!(labels_of(&graphs, 2), [1, 4, 3]);
    assert_eq!((graphs.graph(1).num_nodes(), labels_of(&graphs, 1)), (0, vec![]));
}

#[test]
fn fingerprints_of_sets_without_edge_features_are_those_of_earlier_versions() {
    let graphs =
        GraphDataset::new("small", GraphData { edges: AttributeRows::default(), ..data() }).expect("good data");
    assert_eq!(graphs.fingerprint(), 17119208184548562792);
    let labeled = GraphDataset::new("small", data()).expect("good data");
    assert_eq!(labeled.fingerprint(), 261381878307084596);
}

#[test]
fn features_come_before_labels_and_degrees() {
    let nodes = AttributeRows { features: features(vec![0.5, 1.5, 2.5, 3.5, 4.5]), labels: None };
    let graphs = GraphDataset::new("small", GraphData { nodes, ..data() }).expect("good data");
    let graphs = graphs.with_degrees_as_labels();
    // The in-degrees are 1, 1, 2, 0 and 1.
    assert_eq!(graphs.feature_dim(), 4);
    assert_ne!(graphs.fingerprint(), GraphDataset::new("small", data()).expect("good data").fingerprint());
    let mut rows = vec![9.0];
    graphs.append_features(2, &mut rows);
    assert_eq!(rows, [9.0, 2.5, 0.0, 0.0, 1.0, 3.5, 1.0, 0.0, 0.0, 4.5, 0.0, 1.0, 0.0]);
    graphs.append_features(1, &mut rows);
    assert_eq!(rows.len(), 13);
}

#[test]
fn contradictions_are_named() {
    let offsets = |node_offsets| GraphData { node_offsets, ..data() };
    assert!(why(offsets(vec![])).contains("dataset small: offsets of nodes do not start at 0"));
    assert!(why(offsets(vec![0, 3, 2, 5])).contains("decrease after graph 1"));
    assert!(why(offsets(vec![0, 5, 5, 6_000_000_000])).contains("at most 2^32"));
    assert!(why(offsets(vec![0, 2, 3, 5])).contains("edge 1 goes from node 4 of graph 2 to node 2 of graph 1"));
    assert!(why(offsets(vec![0, 2, 2, 4])).contains("edge 1 joins node 4, but there are 4 nodes"));
    assert!(why(GraphData { labels: vec![1], ..data() }).contains("1 labels of graphs, expected 3"));
    assert!(why(GraphData { dst: vec![], ..data() }).contains("0 destinations of edges, expected 5"));
    assert!(why(GraphData { edges: edge_labels(vec![]), ..data() }).contains("0 labels of edges"));
    let rows = AttributeRows { features: features(vec![1.0; 4]), labels: None };
    assert!(why(GraphData { nodes: rows.clone(), ..data() }).contains("4 rows of features for 5 nodes"));
    assert!(why(GraphData { edges: rows, ..data() }).contains("4 rows of features for 5 edges"));
    let labels = |columns: Vec<u32>| {
        Some(OneHotLabels { columns: columns.into(), per_row: 1, names: vec!["a".into(), "b".into()] })
    };
    let with_labels =
        |columns| GraphData { nodes: AttributeRows { features: None, labels: labels(columns) }, ..data() };
    assert!(why(with_labels(vec![0])).contains("1 labels of nodes, expected 1 for each of 5"));
    assert!(why(with_labels(vec![0, 1, 2, 0, 0])).contains("node 2 has label 2, but there are 2 labels"));
}

//! The warning of `train edge` about validation and test edges that repeat training edges, from real processes.

use crate::programs::*;

use edgecut_graph::{Dataset, EdgeLabelValues, EdgeLabels, Features, NO_SPLIT, NodeData, TargetKind, Targets};
use std::path::Path;

const NUM_NODES: u32 = 40;
const SPLITS: [u8; 6] = [0, 0, 0, 1, 2, NO_SPLIT];

/// An edge, its class and the code of its split.
struct Edge {
    ends: [u32; 2],
    class: i64,
    split: u8,
}

/// Returns edges whose reverses and copies are in any split, with the same class or the other one.
fn edges() -> Vec<Edge> {
    let mut edges = Vec::new();
    for n in 0..240_u32 {
        let ends = [n * 7 % NUM_NODES, n * 11 % 37];
        let class = i64::from(n % 3 == 0);
        let splits = [0, 1, 5].map(|more| SPLITS[((n * 5 + more * n) % 6) as usize]);
        edges.push(Edge { ends, class, split: splits[0] });
        if n % 4 == 0 {
            edges.push(Edge { ends: [ends[1], ends[0]], class: i64::from(n % 8 == 0), split: splits[1] });
        }
        if n % 5 == 0 {
            edges.push(Edge { ends, class, split: splits[2] });
        }
    }
    edges
}

/// Returns the numbers of validation and test edges that repeat a training edge, of all pairs of edges.
fn repeated(edges: &[Edge]) -> [usize; 2] {
    [1, 2].map(|split| {
        let scored = edges.iter().filter(|edge| edge.split == split);
        scored.filter(|edge| edges.iter().any(|other| other.split == 0 && is_same(edge, other))).count()
    })
}

fn is_same(one: &Edge, other: &Edge) -> bool {
    let [src, dst] = other.ends;
    one.class == other.class && (one.ends == [src, dst] || one.ends == [dst, src])
}

fn graph(edges: &[Edge], values: EdgeLabelValues) -> Dataset {
    let x: Vec<f32> = (0..NUM_NODES).map(|node| (node % 5) as f32).collect();
    let nodes = NodeData {
        name: "account".into(),
        num_nodes: NUM_NODES as usize,
        features: Some(Features::F32 { values: x.into(), dim: 1 }),
        ..NodeData::default()
    };
    let src: Vec<u32> = edges.iter().map(|edge| edge.ends[0]).collect();
    let dst: Vec<u32> = edges.iter().map(|edge| edge.ends[1]).collect();
    let mut graph = Dataset::homogeneous("payments", nodes, src.into(), dst.into());
    let splits: Vec<u8> = edges.iter().map(|edge| edge.split).collect();
    graph.edge_types[0].attributes.labels = Some(EdgeLabels { values, splits: splits.into() });
    graph
}

/// Trains for an epoch, and returns what the processes print.
fn said(parts: &Path, processes: &str, flags: &[&str]) -> String {
    let mut command = train("edge", parts);
    command.args(["--hidden-channels", "8", "--num-epochs", "1", "--nproc-per-node", processes]);
    stderr(&succeeded(run(command.args(flags))))
}

#[test]
fn scored_edges_that_repeat_training_edges_are_counted_in_every_layout() {
    let edges = edges();
    let [valid, test] = repeated(&edges);
    let all = [1, 2].map(|split| edges.iter().filter(|edge| edge.split == split).count());
    assert!(valid > 0 && test > 0 && valid < all[0] && test < all[1], "{valid} and {test} of {all:?}");
    let expected = format!(
        "in either direction with the same label as {valid} of {} validation edges and {test} of {} test edges",
        all[0], all[1]
    );
    let classes: Vec<i64> = edges.iter().map(|edge| edge.class).collect();
    let numbers: Vec<f32> = classes.iter().map(|class| *class as f32 - 0.25).collect();
    let numbers = Targets { values: numbers.into(), dim: 1, kind: TargetKind::Regression };
    // Edges are compared in the same way whatever their labels are.
    let layouts = [(3, "2"), (1, "1"), (2, "3")];
    for (values, flags, layouts) in [
        (EdgeLabelValues::Classes { of_edges: classes.into(), num_classes: 2 }, &[][..], &layouts[..]),
        (EdgeLabelValues::Targets(numbers), &["--loss", "mse"], &layouts[..1]),
    ] {
        let graph = graph(&edges, values);
        for &(num_parts, processes) in layouts {
            let parts = written_by(&graph, num_parts);
            let said = said(&parts.path, processes, flags);
            let warnings: Vec<&str> = said.lines().filter(|line| line.contains("warning: training edges")).collect();
            assert_eq!(warnings.len(), 1, "{num_parts} parts, {processes} processes: {said}");
            assert!(warnings[0].contains(&expected), "{num_parts} parts, {processes} processes: {said}");
            assert!(warnings[0].contains("split_by_group"), "{said}");
        }
    }
}

#[test]
fn edges_that_repeat_none_have_no_warning() {
    let mut edges = edges();
    edges.retain(|edge| edge.ends[0] < edge.ends[1]);
    edges.sort_by_key(|edge| edge.ends);
    edges.dedup_by_key(|edge| edge.ends);
    assert_eq!(repeated(&edges), [0, 0]);
    let classes: Vec<i64> = edges.iter().map(|edge| edge.class).collect();
    let graph = graph(&edges, EdgeLabelValues::Classes { of_edges: classes.into(), num_classes: 2 });
    let said = said(&written_by(&graph, 2).path, "2", &[]);
    assert!(!said.contains("the same label"), "{said}");
}

//! Small graphs for tests, and temporary folders.
#![allow(dead_code, reason = "each test program uses a part of this")]

use edgecut_graph::rng::CounterRng;
use edgecut_graph::{
    Buffer, Dataset, EdgeAttributes, EdgeData, EdgeIds, EdgeLabelValues, EdgeLabels, EdgeList, Features, HeldOutEdges,
    NO_SPLIT, NodeData, NodeTypeId, Splits, TargetKind, Targets, TextArray,
};
use edgecut_partition::Method;
use edgecut_testing::succeeded;
use half::f16;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// All methods of partitioning.
pub(crate) const METHODS: [Method; 5] = [
    Method::Metis { recursive: false },
    Method::Metis { recursive: true },
    Method::SemiExternal,
    Method::Ldg,
    Method::Random,
];

/// Returns `num_nodes` nodes without features, labels and splits.
pub(crate) fn bare_nodes(name: &str, num_nodes: usize) -> NodeData {
    NodeData { name: name.into(), num_nodes, ..NodeData::default() }
}

/// Returns a homogeneous graph of bare nodes.
pub(crate) fn bare(num_nodes: usize, edges: &[(u32, u32)]) -> Dataset {
    let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
    Dataset::homogeneous("test", bare_nodes("node", num_nodes), src.into(), dst.into())
}

/// Returns two cliques of `size` nodes, joined by one edge, with every edge in both directions.
pub(crate) fn two_cliques(size: u32) -> Dataset {
    let mut edges = vec![(0, size), (size, 0)];
    for start in [0, size] {
        edges.extend(
            (start..start + size).flat_map(|a| (start..start + size).map(move |b| (a, b))).filter(|(a, b)| a != b),
        );
    }
    bare(2 * size as usize, &edges)
}

/// Returns a graph of planted communities with interleaved ids, and every edge in both directions. A node has `degree`
/// edges on average, of which a share of `inside` stays in its community. A tenth of the nodes is for training.
pub(crate) fn communities(num_nodes: u32, num_communities: u32, degree: u32, inside: f64) -> Dataset {
    let mut rng = CounterRng::new(11);
    let members = num_nodes / num_communities;
    let mut edges = std::collections::BTreeSet::new();
    while edges.len() < (num_nodes * degree) as usize {
        let a = rng.below(u64::from(num_nodes)) as u32;
        let b = if rng.unit() < inside {
            rng.below(u64::from(members)) as u32 * num_communities + a % num_communities
        } else {
            rng.below(u64::from(num_nodes)) as u32
        };
        if a != b {
            edges.extend([(a, b), (b, a)]);
        }
    }
    let mut dataset = bare(num_nodes as usize, &edges.into_iter().collect::<Vec<_>>());
    dataset.node_types[0].splits.train = (0..num_nodes).step_by(10).collect::<Vec<u32>>().into();
    dataset
}

/// Returns a graph with everything: two node types, features of both types, labels, splits, times, and three edge
/// types. The second edge type has all attributes, and the first has held-out edges.
pub(crate) fn rich() -> Dataset {
    let mut paper = bare_nodes("paper", 40);
    paper.features =
        Some(Features::F32 { values: (0..120).map(|v| v as f32 / 8.0).collect::<Vec<_>>().into(), dim: 3 });
    paper.labels = Some((0..40).map(|n| if n % 5 == 4 { -1 } else { n % 3 }).collect::<Vec<i64>>().into());
    paper.num_classes = 3;
    let pick = |rest: u32| (0..40).filter(|n| n % 5 == rest).collect::<Vec<u32>>().into();
    paper.splits = Splits { train: pick(0), valid: pick(1), test: pick(2) };
    let mut author = bare_nodes("author", 25);
    author.features =
        Some(Features::F16 { values: (0..50).map(|v| f16::from_f32(v as f32)).collect::<Vec<_>>().into(), dim: 2 });
    author.times = Some((0..25).map(|n| 2000 + n * 7 % 30).collect::<Vec<i64>>().into());
    let edges = |src_type, relation: &str, dst_type, pairs: Vec<(u32, u32)>| {
        let EdgeList { src, dst, .. } = edge_list(pairs);
        EdgeData::new(NodeTypeId(src_type), relation, NodeTypeId(dst_type), src, dst)
    };
    let mut cites = edges(0, "cites", 0, (0..80).map(|i| (i * 7 % 40, i * 3 % 40)).collect());
    let valid = edge_list((0..10).map(|i| (i, 39 - i)).collect());
    cites.held_out = HeldOutEdges { valid, test: edge_list((0..20).map(|i| (i * 2, i)).collect()) };
    let mut writes = edges(1, "writes", 0, (0..60).map(|i| (i * 4 % 25, i * 9 % 40)).collect());
    writes.attributes = EdgeAttributes {
        features: Some(Features::F32 { values: (0..120).map(|v| v as f32 / 4.0).collect::<Vec<_>>().into(), dim: 2 }),
        weights: Some((0..60).map(|edge| edge as f32 / 2.0).collect::<Vec<_>>().into()),
        times: Some((0..60).map(|edge| edge * 1_000_000_007).collect::<Vec<i64>>().into()),
        labels: Some(edge_classes((0..60).map(|edge| edge % 4 - 1).collect(), (0..60).map(|edge| edge % 5).collect())),
        ids: Some(edge_ids(60, true)),
    };
    let of = edges(0, "of", 1, (0..30).map(|i| (i, i % 25)).collect());
    Dataset { name: "rich".into(), node_types: vec![paper, author], edge_types: vec![cites, writes, of] }
}

fn edge_list(pairs: Vec<(u32, u32)>) -> EdgeList {
    let (src, dst): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
    EdgeList::new(src.into(), dst.into())
}

/// Generates any small graph: homogeneous or typed, with or without features, labels, splits, times, edges, edge
/// attributes and held-out edges, including self loops, duplicates, isolated nodes and empty types.
pub(crate) fn any_graph() -> impl Strategy<Value = Dataset> {
    prop::collection::vec(any_nodes(), 1..4)
        .prop_filter("no nodes", |types| types.iter().any(|t| t.num_nodes > 0))
        .prop_flat_map(|types| {
            let sizes: Vec<usize> = types.iter().map(|t| t.num_nodes).collect();
            (Just(types), prop::collection::vec(any_edges(sizes), 0..4))
        })
        .prop_map(|(mut node_types, mut edge_types)| {
            for (at, nodes) in node_types.iter_mut().enumerate() {
                nodes.name = format!("type{at}");
            }
            for (at, edges) in edge_types.iter_mut().enumerate() {
                edges.relation = format!("relation{at}");
            }
            Dataset { name: "any".into(), node_types, edge_types }
        })
}

fn any_nodes() -> impl Strategy<Value = NodeData> {
    (0..24_usize).prop_flat_map(|num_nodes| {
        let labels = prop::option::of(prop::collection::vec(-1..4_i64, num_nodes));
        let splits = prop::collection::vec(0..5_u8, num_nodes);
        let times = prop::option::of(prop::collection::vec(any::<i64>(), num_nodes));
        let targets = prop::option::of(prop::collection::vec(-2..3_i8, num_nodes * 2));
        let all = (Just(num_nodes), any_features(num_nodes), labels, targets, splits, times);
        all.prop_map(|(num_nodes, features, labels, targets, splits, times)| {
            let num_classes = if labels.is_some() { 4 } else { 0 };
            let mut data = NodeData {
                name: String::new(),
                num_nodes,
                features,
                targets: targets.filter(|_| labels.is_none()).map(any_targets),
                labels: labels.map(Into::into),
                num_classes,
                times: times.map(Into::into),
                ..NodeData::default()
            };
            let pick = |which: u8| {
                let ids = (0..num_nodes as u32).filter(|&n| splits[n as usize] == which && data.is_labeled(n));
                Buffer::from(ids.collect::<Vec<u32>>())
            };
            data.splits = Splits { train: pick(0), valid: pick(1), test: pick(2) };
            data
        })
    })
}

/// Returns two targets per node; -2 stands for an unknown one.
fn any_targets(values: Vec<i8>) -> Targets {
    let value = |value: i8| if value == -2 { f32::NAN } else { f32::from(value) };
    Targets { values: values.into_iter().map(value).collect::<Vec<_>>().into(), dim: 2, kind: TargetKind::Regression }
}

fn any_features(num_nodes: usize) -> impl Strategy<Value = Option<Features>> {
    (0..4_usize, any::<bool>()).prop_flat_map(move |(dim, halves)| {
        prop::collection::vec(-9.0..9.0_f32, num_nodes * dim).prop_map(move |values| match (dim, halves) {
            (0, _) => None,
            (_, false) => Some(Features::F32 { values: values.into(), dim }),
            (_, true) => {
                let values = values.into_iter().map(f16::from_f32).collect::<Vec<_>>().into();
                Some(Features::F16 { values, dim })
            }
        })
    })
}

fn any_edges(sizes: Vec<usize>) -> impl Strategy<Value = EdgeData> {
    let types = sizes.len() as u16;
    (0..types, 0..types).prop_flat_map(move |(src_type, dst_type)| {
        let sources = sizes[src_type as usize];
        let destinations = sizes[dst_type as usize];
        let most = if sources * destinations == 0 { 0 } else { 90 };
        let pair = (0..sources.max(1) as u32, 0..destinations.max(1) as u32);
        let list = |most| prop::collection::vec(pair.clone(), 0..=most).prop_map(edge_list);
        (list(most), list(most / 9), list(most / 9)).prop_flat_map(move |(EdgeList { src, dst, .. }, valid, test)| {
            let edges = EdgeData::new(NodeTypeId(src_type), "", NodeTypeId(dst_type), src, dst);
            let held_out = HeldOutEdges { valid, test };
            (any_attributes(edges.src.len()), any::<bool>()).prop_map(move |(attributes, timed)| EdgeData {
                attributes,
                held_out: if timed { with_times(&held_out) } else { held_out.clone() },
                ..edges.clone()
            })
        })
    })
}

/// Returns the same edges with a time each, of few distinct times.
pub(crate) fn with_times(held_out: &HeldOutEdges) -> HeldOutEdges {
    let timed = |list: &EdgeList| {
        let times: Vec<i64> = (0..list.len() as i64).map(|edge| edge * 5 % 7).collect();
        EdgeList { times: Some(times.into()), ..list.clone() }
    };
    HeldOutEdges { valid: timed(&held_out.valid), test: timed(&held_out.test) }
}

fn any_attributes(num_edges: usize) -> impl Strategy<Value = EdgeAttributes> {
    let weights = prop::option::of(prop::collection::vec(0.0..9.0_f32, num_edges));
    let times = prop::option::of(prop::collection::vec(any::<i64>(), num_edges));
    let ids = prop::option::of(any::<bool>());
    (any_features(num_edges), weights, times, any_edge_labels(num_edges), ids).prop_map(
        move |(features, weights, times, labels, ids)| EdgeAttributes {
            features,
            weights: weights.map(Into::into),
            times: times.map(Into::into),
            labels,
            ids: ids.map(|are_texts| edge_ids(num_edges, are_texts)),
        },
    )
}

/// Returns distinct ids of edges.
fn edge_ids(num_edges: usize, are_texts: bool) -> EdgeIds {
    let numbers: Vec<i64> = (0..num_edges as i64).map(|edge| 1000 - 3 * edge).collect();
    if are_texts {
        return EdgeIds::Texts(TextArray::of(numbers.iter().map(|number| format!("e{number}"))));
    }
    EdgeIds::Numbers(numbers.into())
}

fn any_edge_labels(num_edges: usize) -> impl Strategy<Value = Option<EdgeLabels>> {
    let classes = prop::collection::vec(-1..4_i64, num_edges);
    let targets = prop::collection::vec(-2..3_i8, num_edges * 2);
    let splits = prop::collection::vec(0..5_u8, num_edges);
    (prop::option::of(any::<bool>()), classes, targets, splits).prop_map(|(has_classes, classes, targets, splits)| {
        Some(if has_classes? {
            edge_classes(classes, splits)
        } else {
            edge_labels(EdgeLabelValues::Targets(any_targets(targets)), splits)
        })
    })
}

fn edge_classes(classes: Vec<i64>, splits: Vec<u8>) -> EdgeLabels {
    edge_labels(EdgeLabelValues::Classes { of_edges: classes.into(), num_classes: 4 }, splits)
}

/// Returns labels with these splits, as far as edges have labels. Numbers above 2 stand for no split.
fn edge_labels(values: EdgeLabelValues, splits: Vec<u8>) -> EdgeLabels {
    let code = |(edge, code): (usize, u8)| if code > 2 || !values.is_known(edge) { NO_SPLIT } else { code };
    let splits: Vec<u8> = splits.into_iter().enumerate().map(code).collect();
    EdgeLabels { values, splits: splits.into() }
}

/// Returns the content of every file below `dir`, by its path.
pub(crate) fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Returns the output of a program.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns what a program, which must have succeeded, has printed with `--json`.
#[track_caller]
pub(crate) fn json_of(output: Output) -> Value {
    serde_json::from_slice(&succeeded(output).stdout).unwrap()
}

pub(crate) fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

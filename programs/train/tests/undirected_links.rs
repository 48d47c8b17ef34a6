//! Held-out edges of undirected graphs that the data gives in one direction, from real processes: neither direction is a
//! negative or a proposal, for any layout.

use crate::programs::*;

use edgecut_graph::readers::export_npy;
use edgecut_graph::{Dataset, EdgeList, Features, NodeData};
use edgecut_partition::{Method, PartitionOptions, partition};
use serde_json::Value;
use std::path::{Path, PathBuf};

const NUM_NODES: u32 = 24;
/// The nodes from here on have one node that they are not connected to: 20 and 21, 22 and 23.
const FIRST_WITH_NEGATIVES: u32 = 20;

/// Returns a graph whose nodes are connected with all nodes, themselves too, except for two pairs. Each edge is stored in one
/// direction.
fn graph() -> Dataset {
    let mut lists: [Vec<[u32; 2]>; 3] = Default::default();
    for low in 0..NUM_NODES {
        for high in low..NUM_NODES {
            if low >= FIRST_WITH_NEGATIVES && high == low + 1 && low % 2 == 0 {
                continue;
            }
            let split = if low == high { 0 } else { [1, 2, 0, 0, 0][(low + high) as usize % 5] };
            lists[split].push(if (low * 7 + high) % 2 == 0 { [low, high] } else { [high, low] });
        }
    }
    let [train, valid, test] = lists.map(edge_list);
    let values: Vec<f32> = (0..NUM_NODES).map(|node| (node * 5 % 7) as f32).collect();
    let nodes = NodeData {
        name: "node".into(),
        num_nodes: NUM_NODES as usize,
        features: Some(Features::F32 { values: values.into(), dim: 1 }),
        ..NodeData::default()
    };
    let mut graph = Dataset::homogeneous("undirected", nodes, train.src, train.dst);
    graph.edge_types[0].held_out.valid = valid;
    graph.edge_types[0].held_out.test = test;
    graph
}

fn edge_list(edges: Vec<[u32; 2]>) -> EdgeList {
    let src: Vec<u32> = edges.iter().map(|edge| edge[0]).collect();
    let dst: Vec<u32> = edges.iter().map(|edge| edge[1]).collect();
    EdgeList::new(src.into(), dst.into())
}

/// Returns the numbers of test edges with and without negatives at these ends.
fn ends_of_test_edges(graph: &Dataset, both: bool) -> [u64; 2] {
    let test = &graph.edge_types[0].held_out.test;
    let mut counts = [0, 0];
    for (&src, &dst) in test.src.iter().zip(&test.dst[..]) {
        let given = [src, dst];
        for end in &given[..if both { 2 } else { 1 }] {
            counts[usize::from(*end < FIRST_WITH_NEGATIVES)] += 1;
        }
    }
    counts
}

/// Writes the graph as arrays and as parts. Returns folders, each with the number of processes and the flags that read it.
fn layouts(graph: &Dataset, folder: &Folder) -> Vec<(PathBuf, &'static str, &'static [&'static str])> {
    let arrays = folder.join("arrays");
    export_npy(graph, &arrays).expect("arrays");
    let mut layouts: Vec<(PathBuf, &str, &[&str])> = vec![(arrays, "1", &["--to-undirected"])];
    let mut stored = graph.clone();
    stored.to_undirected();
    for (num_parts, processes) in [(3, "2"), (2, "4")] {
        let path = folder.join(format!("{num_parts}-parts"));
        let options =
            PartitionOptions { to_undirected: true, method: Method::Random, ..PartitionOptions::new(num_parts) };
        partition(&stored, &options, &path, &()).expect("parts");
        layouts.push((path, processes, &[]));
    }
    layouts
}

fn evaluated(data: &Path, processes: &str, model: &Path, flags: &[&str]) -> Value {
    let mut command = program();
    command.args(["link", "--json", "--load-model", text(model), "--nproc-per-node", processes]);
    json_of(run(command.arg("--dataset-root-dir").arg(data).args(flags)))
}

#[test]
fn neither_direction_of_a_held_out_edge_is_a_negative_or_a_proposal() {
    let folder = Folder::new();
    let graph = graph();
    let model = folder.join("model.safetensors");
    let out = folder.join("out");
    let layouts = layouts(&graph, &folder);
    let mut command = program();
    command.args(["link", "--num-neighbors", "5,3", "--hidden-channels", "8", "--num-epochs", "1", "--to-undirected"]);
    command.args(["--eval-negatives", "all", "--json", "--save-model", text(&model), "--dataset-root-dir"]);
    json_of(run(command.arg(&layouts[0].0)));
    let test = &graph.edge_types[0].held_out.test;
    let mut sources: Vec<u32> = test.src.iter().chain(&test.dst[..]).copied().collect();
    sources.sort_unstable();
    sources.dedup();
    for (data, processes, flags) in layouts {
        let what = format!("{} in {processes}", data.display());
        for negatives in [&["--eval-negatives", "5"][..], &["--eval-negatives", "all"]] {
            let found = evaluated(&data, processes, &model, &[flags, negatives].concat());
            let counts = ["edges", "left_out"].map(|name| found["test"][name].as_u64().expect("a count"));
            assert_eq!(counts, ends_of_test_edges(&graph, false), "{what} {negatives:?}: {found}");
        }
        let found =
            evaluated(&data, processes, &model, &[flags, &["--eval-negatives", "all", "--rank", "both"]].concat());
        let left_out = found["test"]["left_out"].as_u64();
        assert_eq!(left_out, Some(ends_of_test_edges(&graph, true)[1]), "{what}: {found}");
        // Each of the last nodes has one proposal, and the others have none.
        let top = ["--output", "top-k", "--sources", "all", "--top-k", "3", "--format", "csv", "--gather"];
        let predict = [flags, &["--nproc-per-node", processes], &top[..], &["--exclude-known"]].concat();
        predicted(&data, &model, &out, &[&predict[..], &["all"]].concat());
        let rows = std::fs::read_to_string(out.join("top_k.csv")).expect("a table");
        let mut pairs = Vec::new();
        for row in rows.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            pairs.push([fields[0], fields[2]]);
        }
        pairs.sort_unstable();
        assert_eq!(pairs, [["20", "21"], ["21", "20"], ["22", "23"], ["23", "22"]], "{what}");
        // Both ends of a test edge are sources of it.
        let found = predicted(&data, &model, &out, &[&predict[..], &["train"]].concat());
        assert_eq!(found["test"]["sources"].as_u64(), Some(sources.len() as u64), "{what}: {found}");
    }
}

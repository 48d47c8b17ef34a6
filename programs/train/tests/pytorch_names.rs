//! Saved models in PyTorch Geometric: the functions of the guide load them, and the outputs agree.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, export_npy, fake, fake_hetero};
use edgecut_graph::{Dataset, write_npy};
use edgecut_testing::python_has;
use std::path::Path;
use std::process::{Command, Stdio};

/// The variable that names the Python with PyTorch, if it is not `python3`.
const PYTHON: &str = "EDGECUT_TORCH_PYTHON";

/// Runs the models of PyG on exported graphs, and compares their outputs with ours.
const CHECKS: &str = include_str!("pytorch_names.py");

fn python() -> Command {
    Command::new(std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into()))
}

/// Returns whether PyTorch Geometric is installed. Otherwise prints that the test is skipped.
fn has_torch(test: &str) -> bool {
    python_has(python(), "numpy, torch, torch_geometric, safetensors.torch", test)
}

/// Trains a model for an epoch, and writes the logits of all nodes to `out`.
fn train_and_predict(graph: &Dataset, model: &Path, out: &Path, flags: &[&str]) {
    let parts = written_by(graph, 2);
    let run = |command: &mut Command| {
        unplace(command);
        succeeded(run(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
    };
    let mut command = Command::new(TRAIN);
    command.args(["node", "--num-neighbors", "5,5", "--hidden-channels", "16", "--num-epochs", "1", "--lr", "0.01"]);
    run(command.arg("--dataset-root-dir").arg(&parts.path).arg("--save-model").arg(model).args(flags));
    let mut command = Command::new(TRAIN);
    command.args(["predict", "--output", "logit", "--format", "npy", "--out"]).arg(out).arg("--load-model").arg(model);
    run(command.arg("--dataset-root-dir").arg(&parts.path));
}

/// Returns the functions that the guide shows.
fn functions_of_the_guide() -> String {
    let blocks = include_str!("../../../docs/src/models.md").split("```python\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
    assert_eq!(blocks.len(), 2, "the guide shows how to load a stack and an R-GCN");
    blocks.concat()
}

fn check(folder: &Path, checks: &str) {
    let script = format!("{}\n{CHECKS}\n{checks}\n", functions_of_the_guide());
    let output = python().args(["-c", &script]).current_dir(folder).output().expect("run Python");
    assert!(output.status.success(), "{checks}: {}", stderr(&output));
}

fn options() -> FakeOptions {
    FakeOptions { avg_num_nodes: 200, avg_degree: 5.0, num_channels: 8, num_classes: 4, ..FakeOptions::default() }
}

#[test]
fn stacks_compute_the_same_in_pytorch_geometric() {
    if !has_torch("stacks_compute_the_same_in_pytorch_geometric") {
        return;
    }
    let folder = Folder::new();
    let graph = fake(&options()).expect("a fake graph");
    export_npy(&graph, folder.path()).expect("arrays");
    let mut checks = Vec::new();
    for (flags, convs) in [
        (&["--model", "sage"][..], "SAGEConv(8, 16), SAGEConv(16, 4)"),
        (&["--model", "sage", "--aggregation", "max"], "SAGEConv(8, 16, aggr='max'), SAGEConv(16, 4, aggr='max')"),
        (&["--model", "sage", "--layer-norm"], "SAGEConv(8, 16), SAGEConv(16, 4)"),
        (&["--model", "gcn"], "GCNConv(8, 16), GCNConv(16, 4)"),
        (&["--model", "gat", "--heads", "2"], "GATConv(8, 8, heads=2), GATConv(16, 4)"),
        (&["--model", "gatv2", "--heads", "4"], "GATv2Conv(8, 4, heads=4), GATv2Conv(16, 4)"),
    ] {
        let number = checks.len();
        train_and_predict(&graph, &folder.join(format!("model-{number}.safetensors")), &folder.join("out"), flags);
        let logits = folder.join(format!("logits-{number}.npy"));
        std::fs::rename(folder.join("out/predictions.npy"), logits).expect("logits");
        std::fs::remove_dir_all(folder.join("out")).expect("the folder");
        checks.push(format!("check_stack({number}, [{convs}])"));
    }
    // One process, because its start takes longer than a check.
    check(folder.path(), &checks.join("\n"));
}

#[test]
fn a_relational_model_computes_the_same_in_pytorch_geometric() {
    if !has_torch("a_relational_model_computes_the_same_in_pytorch_geometric") {
        return;
    }
    let folder = Folder::new();
    let graph = fake_hetero(&options()).expect("a fake graph");
    for nodes in &graph.node_types {
        let Some(features) = &nodes.features else { continue };
        let mut values = vec![0.0; nodes.num_nodes * features.dim()];
        for (node, row) in values.chunks_exact_mut(features.dim()).enumerate() {
            features.copy_row(node, row);
        }
        let path = folder.join(format!("x_{}.npy", nodes.name));
        write_npy(&path, &[nodes.num_nodes, features.dim()], &values).expect("features");
    }
    for edges in &graph.edge_types {
        let ends: Vec<i64> = edges.src.iter().chain(edges.dst.iter()).map(|&node| i64::from(node)).collect();
        let path = folder.join(format!("edges_{}.npy", edges.relation));
        write_npy(&path, &[2, edges.src.len()], &ends).expect("edges");
    }
    let model = folder.join("model.safetensors");
    train_and_predict(&graph, &model, &folder.join("out"), &["--model", "rgcn"]);
    std::fs::rename(folder.join("out/predictions.npy"), folder.join("logits.npy")).expect("logits");
    check(folder.path(), "check_relational()");
}

//! Tests that the own model learns the same bits as the GraphSAGE of `train node`, and that README.md shows its program.

use edgecut::prelude::{FakeOptions, PartitionOptions, partition, readers::fake};
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of the program `train`, which is built if needed.
fn train_program() -> PathBuf {
    let own = Path::new(env!("CARGO_BIN_EXE_own-model"));
    let folder = own.parent().expect("the folder of the programs");
    let train = folder.join("train");
    if !train.exists() {
        let profile = if folder.ends_with("release") { "release" } else { "dev" };
        let target = folder.parent().expect("the target folder");
        run(Command::new(env!("CARGO"))
            .args(["build", "--locked", "--package", "edgecut-train", "--bin", "train", "--profile", profile])
            .arg("--target-dir")
            .arg(target));
    }
    train
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program that starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_own_model_is_that_of_train_node() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let graph = fake(&FakeOptions { avg_num_nodes: 3000, ..FakeOptions::default() }).expect("a graph");
    partition(&graph, &PartitionOptions::new(2), &dir.path().join("parts"), &()).expect("parts");
    run(Command::new(env!("CARGO_BIN_EXE_own-model")).args([dir.path().join("parts"), dir.path().join("own")]));
    run(Command::new(train_program())
        .args(["node", "--model", "sage", "--num-neighbors", "15,10", "--nproc-per-node", "2", "--dropout", "0.5"])
        .args(["--num-epochs", "10", "--dataset-root-dir"])
        .arg(dir.path().join("parts"))
        .arg("--save-model")
        .arg(dir.path().join("train")));
    let [own, train] = ["own", "train"].map(|name| std::fs::read(dir.path().join(name)).expect("a model file"));
    let own = SafeTensors::deserialize(&own).expect("a model");
    let train = SafeTensors::deserialize(&train).expect("a model");
    assert_eq!(own.names().len(), 6);
    for name in own.names() {
        let expected = train.tensor(name).expect("a tensor with the same name");
        assert_eq!(own.tensor(name).expect("a tensor").data(), expected.data(), "{name}");
    }
}

#[test]
fn the_readme_shows_this_program() {
    let program = include_str!("../src/main.rs");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(program), "README.md does not show examples/own-model/src/main.rs as it is");
}

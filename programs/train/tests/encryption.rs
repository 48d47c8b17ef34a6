//! `train --encrypt` with real processes: the same results as without encryption, and clear errors.

use crate::programs::*;

use edgecut_testing::free_port;
use std::path::Path;
use std::process::{Command, Output};

const SECRET: &str = "a secret of more than 16 bytes";

/// Returns the output of a training of a few epochs, and the bytes of its model.
fn trained(parts: &Path, flags: &[&str]) -> (Vec<serde_json::Value>, Vec<u8>) {
    let dir = Folder::new();
    let model = dir.join("model.safetensors");
    let metrics = dir.join("metrics");
    let mut command = train("node", parts);
    command.args(["--num-epochs", "2", "--num-neighbors", "5,5", "--batch-size", "64", "--json"]);
    command.arg("--save-model").arg(&model).arg("--metrics").arg(&metrics).args(flags);
    succeeded(run(&mut command));
    let text = std::fs::read_to_string(&metrics).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let scores = lines
        .filter(|line| line["event"] == "epoch")
        .map(|line| serde_json::json!([line["epoch"], line["loss"], line["train_accuracy"], line["val"]]));
    (scores.collect(), std::fs::read(&model).expect("a model"))
}

#[test]
fn encryption_does_not_change_metrics_and_model() {
    let parts = fake_parts(3);
    let processes = ["--nproc-per-node", "3"];
    let plain = trained(&parts.path, &processes);
    assert!(!plain.0.is_empty());
    for flag in ["--encrypt", "--check-traffic"] {
        let protected = trained(&parts.path, &[&processes[..], &[flag]].concat());
        assert_eq!(plain.0, protected.0, "{flag}");
        assert!(plain.1 == protected.1, "{flag}: the models differ");
    }
}

#[test]
fn a_rank_without_the_flag_is_refused_and_both_say_so() {
    let parts = fake_parts(2);
    let port = free_port();
    let start = |number, flags: &[&str]| {
        let mut command: Command = rank(&parts.path, number, 2, port);
        command.env("EDGECUT_TOKEN", SECRET).args(flags);
        Process::start(&mut command)
    };
    let ranks = [start(0, &["--encrypt"]), start(1, &[])];
    let outputs: Vec<Output> = ranks.into_iter().map(end).collect();
    for output in &outputs {
        assert!(!output.status.success());
        let error = stderr(output);
        assert!(error.contains("rank 1 at 127.0.0.1:"), "{error}");
        let expected =
            "was started without protection, rank 0 with encryption: give all ranks the same protection (--encrypt";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn encryption_without_a_secret_is_a_wrong_use() {
    let parts = fake_parts(2);
    let mut command = rank(&parts.path, 0, 2, free_port());
    let output = run(command.env_remove("EDGECUT_TOKEN").env_remove("EDGECUT_TOKEN_FILE").arg("--encrypt"));
    assert_fails(&output, 2, &["--encrypt needs a shared secret", "--token-file"]);
}

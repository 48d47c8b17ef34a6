//! Starts the example like users do: two processes with a launcher's variables.

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_partition::{PartitionOptions, partition};
use edgecut_testing::free_port;
use std::process::{Command, Stdio};

#[test]
fn two_processes_learn() {
    let dir = tempfile::tempdir().unwrap();
    let parts = dir.path().join("parts");
    let graph = fake(&FakeOptions { avg_num_nodes: 2_000, ..FakeOptions::default() }).unwrap();
    partition(&graph, &PartitionOptions::new(2), &parts, &()).unwrap();
    let port = free_port();
    let start = |rank: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dist-train-sage-supervised"));
        command.args(["--epochs", "4", "--batch-size", "128", "--dataset-root-dir"]).arg(&parts);
        command.envs([("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")]);
        command.env("MASTER_PORT", port.to_string()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let [first, second] = ["0", "1"].map(start).map(|child| child.wait_with_output().unwrap());
    assert!(first.status.success() && second.status.success());
    assert!(second.stdout.is_empty(), "only rank 0 prints");
    let text = String::from_utf8(first.stdout).unwrap();
    let accuracy =
        text.lines().find_map(|line| line.strip_prefix("test accuracy ")).unwrap_or_else(|| panic!("{text}"));
    assert!(text.contains("epoch  4: loss") && accuracy.parse::<f64>().unwrap() > 0.7, "{text}");
}

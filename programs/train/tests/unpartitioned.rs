//! Tests of jobs on one machine with a dataset that is not partitioned.

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, export_npy, fake};
use edgecut_graph::{Dataset, HoldOut};
use edgecut_testing::{assert_has, free_port};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of a dataset, and an empty folder for temporary files.
struct Set {
    root: tempfile::TempDir,
}

impl Set {
    fn new(graph: &Dataset) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(root.path().join("tmp")).expect("make a folder");
        export_npy(graph, &root.path().join("set")).expect("write the dataset");
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns the command `train node` on the dataset, with the temporary folder.
    fn node(&self, processes: usize, flags: &[&str]) -> Command {
        let mut command = node(&self.path("set"));
        command.args(["--nproc-per-node", &processes.to_string()]).args(flags).env("TMPDIR", self.path("tmp"));
        command
    }

    /// Returns the contents of the temporary folder.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("tmp")).expect("the temporary folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

fn graph() -> Dataset {
    let options = FakeOptions { avg_num_nodes: 600, num_channels: 16, num_classes: 5, ..FakeOptions::default() };
    fake(&options).expect("a fake graph")
}

fn succeed(command: &mut Command) -> Output {
    succeeded(run(command))
}

/// Returns the fields of each epoch and of the result, without times.
fn said(command: &mut Command, metrics: &Path) -> Vec<[Value; 6]> {
    succeed(command.args(["--num-epochs", "3", "--metrics"]).arg(metrics));
    let fields = ["event", "loss", "train_acc", "valid_acc", "test_acc", "best_epoch"];
    metrics_lines(metrics).into_iter().map(|line| fields.map(|field| line[field].clone())).collect()
}

#[test]
fn it_trains_bit_for_bit_as_its_only_part_does() {
    let graph = graph();
    let (set, part): (Set, Parts) = (Set::new(&graph), written_by(&graph, 1));
    for processes in [1, 2] {
        let mut partitioned = node(&part.path);
        partitioned.args(["--nproc-per-node", &processes.to_string()]);
        let expected = said(&mut partitioned, &set.path("partitioned.jsonl"));
        // Three epochs, the confusion matrix, the scores of classes, the curves and the result.
        assert!(expected.len() == 7 && expected[0][1].is_number(), "{expected:?}");
        assert_eq!(said(&mut set.node(processes, &[]), &set.path("whole.jsonl")), expected, "{processes} processes");
        assert_eq!(set.left(), [] as [PathBuf; 0]);
    }
}

#[test]
fn a_name_that_chooses_no_dataset_has_a_note() {
    let set = Set::new(&graph());
    for (name, has_note) in [("other", true), ("Set", false)] {
        let output = succeed(&mut set.node(2, &["--num-epochs", "1", "--dataset", name]));
        let note = format!("note: --dataset {name} has no effect");
        assert_eq!(stderr(&output).matches(&note).count(), usize::from(has_note), "{}", stderr(&output));
    }
}

#[test]
fn edges_are_held_out_as_partition_graph_does() {
    let mut graph = graph();
    let set = Set::new(&graph);
    let hold_out = HoldOut::random(0.1, 0.1, 0);
    graph.hold_out_edges(&graph.edge_type_ids(), &hold_out).expect("held-out edges");
    let part = written_by(&graph, 1);
    let result = |dir: &Path, flags: &[&str]| -> Value {
        let mut command = train("link", dir);
        command.args(["--nproc-per-node", "2", "--num-epochs", "2", "--hidden-channels", "16", "--json"]);
        command.args(["--eval-negatives", "10"]).args(flags);
        let output = succeed(&mut command);
        serde_json::from_slice(&output.stdout).expect("--json prints one JSON object")
    };
    let whole = result(&set.path("set"), &["--hold-out-edges", "0.1,0.1"]);
    assert!(whole["test"]["mrr"].is_number(), "{whole}");
    assert_eq!(whole, result(&part.path, &[]));
}

#[test]
fn processes_that_a_launcher_has_started_share_it_too() {
    let set = Set::new(&graph());
    let port = free_port().to_string();
    let start = |rank: &str, flags: &[&str]| {
        let mut command = set.node(1, flags);
        command.args(["--num-epochs", "1"]);
        command.envs([("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")]);
        Process::start(command.env("MASTER_PORT", &port))
    };
    for child in [start("1", &[]), start("0", &[])] {
        succeeded(end(child));
    }
    for child in [start("1", &["--to-undirected"]), start("0", &[])] {
        assert_error(&end(child), &["--to-undirected is true on rank 1, but false on rank 0"]);
    }
}

#[test]
fn an_error_while_reading_is_said_once_and_ends_all() {
    let set = Set::new(&graph());
    let file = set.path("set/x.npy");
    let bytes = std::fs::read(&file).expect("the features");
    std::fs::write(&file, &bytes[..bytes.len() - 5]).expect("truncate the features");
    // A folder that a killed process left behind.
    let dead = format!("tmp/edgecut-dataset-{}-4194999-0", edgecut_output::host_tag());
    std::fs::create_dir(set.path(&dead)).expect("make a folder");
    let output = run(&mut set.node(3, &[]));
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    let cause = lines("error: rank 0: ");
    assert!(cause.len() == 1 && cause[0].contains("x.npy") && cause[0].contains("truncated"), "{text}");
    assert_eq!(text.matches("x.npy").count(), 1, "{text}");
    assert_eq!(lines("error: ").len(), 1, "the errors of the other ranks are effects: {text}");
    assert_eq!(set.left(), [] as [PathBuf; 0]);
}

#[test]
fn a_temporary_folder_that_cannot_be_written_is_named() {
    let set = Set::new(&graph());
    assert_error(&run(set.node(1, &[]).env("TMPDIR", "/nonexistent")), &["/nonexistent", "TMPDIR"]);
}

/// Returns the process of a rank among the children of `parent`.
fn child_of_rank(parent: u32, rank: usize) -> u32 {
    let wanted = format!("RANK={rank}");
    let is_wanted = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    children_of(parent).into_iter().find(is_wanted).expect("the rank runs")
}

#[test]
fn a_killed_process_ends_the_others_and_is_named() {
    let set = Set::new(&graph());
    let metrics = set.path("metrics.jsonl");
    let parent = start_training(&mut set.node(2, &[]), &metrics);
    assert_eq!(set.left(), [] as [PathBuf; 0], "the names of the files are gone once they are mapped");
    send(Signal::KILL, child_of_rank(parent.id(), 1));
    let output = end(parent);
    assert_eq!(output.status.code(), Some(128 + 9));
    assert_has(stderr(&output), &["rank 1 was ended by signal 9", "error: rank 0: rank 1 at 127.0.0.1"]);
}

#[test]
fn several_nodes_need_parts() {
    let set = Set::new(&graph());
    let mut first = set.node(1, &["--num-nodes", "2", "--node-rank", "0"]);
    let mut second = set.node(2, &["--num-nodes", "2", "--node-rank", "1"]);
    let mut of_launcher = set.node(1, &[]);
    of_launcher.envs([("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "1")]);
    for command in [&mut first, &mut second] {
        command.env("EDGECUT_TOKEN", "a secret of the tests");
    }
    for command in [&mut first, &mut second, &mut of_launcher] {
        assert_fails(&run(command), 2, &["several nodes", "partition-graph"]);
    }
}

#[test]
fn how_a_dataset_is_read_is_no_matter_of_its_parts() {
    let part = written_by(&graph(), 1);
    for flags in [
        &["--split", "random"][..],
        &["--to_undirected"],
        &["--add-reverse-edges"],
        &["--hold-out-edges", "latest:0.1,0.1"],
    ] {
        let output = run(node(&part.path).args(["--nproc-per-node", "2"]).args(flags));
        let flag = flags[0].replace('_', "-");
        assert_fails(&output, 2, &[&flag, "made without it: pass it to partition-graph"]);
    }
    let output = run(node(&part.path).args(["--nproc-per-node", "2", "--overlap", "remove"]));
    assert_fails(&output, 2, &["made with --overlap error: leave the flag out"]);
}

#[test]
fn overlapping_splits_fail_unless_they_are_removed_or_allowed() {
    let mut graph = graph();
    graph.node_types[0].splits.test = graph.node_types[0].splits.train.clone();
    let set = Set::new(&graph);
    assert_fails(&run(&mut set.node(1, &[])), 1, &["training nodes are test nodes", "--overlap remove"]);
    let output = succeed(set.node(2, &["--num-epochs", "1"]).args(["--overlap", "allow"]));
    assert_eq!(stderr(&output).matches("warning: allowed overlaps").count(), 1, "{}", stderr(&output));
}

#[test]
fn a_published_graph_trains_as_it_is() {
    let Some(tolokers) = edgecut_testing::dataset("tolokers", "a_published_graph_trains_as_it_is") else { return };
    let mut command = node(&tolokers);
    command.args(["--nproc-per-node", "2", "--num-epochs", "2", "--json"]);
    let output = succeed(command.args(["--split", "official-0"]));
    let result: Value = serde_json::from_slice(&output.stdout).expect("--json prints one JSON object");
    assert!(result["test_acc"].as_f64() > Some(0.75), "{result}");
    let mut command = node(&tolokers);
    let output = run(command.args(["--nproc-per-node", "2"]));
    assert!(!output.status.success() && stderr(&output).contains("official-0"), "{}", stderr(&output));
}

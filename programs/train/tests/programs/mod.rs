//! Helpers of the tests: starting the program `train`, and writing parts for it.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../../dist-loader/tests/support/mod.rs"]
mod support;

use edgecut_graph::readers::{FakeOptions, fake, fake_hetero};
use edgecut_graph::{Dataset, EdgeLabelValues, EdgeLabels, EdgeTypeId, Features, HoldOut, NO_SPLIT};
use edgecut_partition::Method;
pub use edgecut_testing::{Process, succeeded, unplace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::write_parts;
use tempfile::TempDir;

pub const TRAIN: &str = env!("CARGO_BIN_EXE_train");

/// The time limit of every wait in these tests. Nothing takes that long, even on a busy machine.
pub const ENDS_WITHIN: Duration = Duration::from_secs(120);

const HOLD_OUT: HoldOut = HoldOut::random(0.1, 0.1, 0);

pub struct Parts {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
}

pub fn parts(num_parts: u32, seed: u64) -> Parts {
    written(&random_graph(seed), num_parts, Method::Random)
}

/// Makes the graph that [`parts`] writes.
pub fn random_graph(seed: u64) -> Dataset {
    support::graph(600, 3000, seed)
}

/// Writes a graph whose classes can be learned.
pub fn fake_parts(num_parts: u32) -> Parts {
    fake_parts_of(&FakeOptions::default(), num_parts)
}

pub fn fake_parts_of(options: &FakeOptions, num_parts: u32) -> Parts {
    let graph = fake(options).expect("a fake graph");
    written(&graph, num_parts, Method::Metis { recursive: false })
}

/// Writes a graph with several node and edge types.
pub fn typed_parts(num_parts: u32) -> Parts {
    let options = FakeOptions { avg_num_nodes: 300, avg_degree: 4.0, num_channels: 6, ..FakeOptions::default() };
    written(&fake_hetero(&options).expect("a fake graph"), num_parts, Method::Random)
}

/// Writes a graph with held-out edges, which its communities predict.
pub fn link_parts(num_parts: u32) -> Parts {
    let options = FakeOptions { avg_num_nodes: 400, num_channels: 16, num_classes: 5, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a fake graph");
    graph.hold_out_edges(&graph.edge_type_ids(), &HOLD_OUT).expect("held-out edges");
    written(&graph, num_parts, Method::Metis { recursive: false })
}

/// Writes a graph with several node and edge types, of which `e0` and `e4` have held-out edges.
pub fn typed_link_graph() -> Dataset {
    let options = FakeOptions { avg_num_nodes: 300, num_channels: 6, num_classes: 5, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    graph.hold_out_edges(&[EdgeTypeId(0), EdgeTypeId(4)], &HOLD_OUT).expect("held-out edges");
    graph
}

pub fn typed_link_parts(num_parts: u32) -> Parts {
    written_by(&typed_link_graph(), num_parts)
}

pub fn written_by(graph: &Dataset, num_parts: u32) -> Parts {
    written(graph, num_parts, Method::Random)
}

fn written(graph: &Dataset, num_parts: u32, method: Method) -> Parts {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join(format!("{num_parts}-parts"));
    write_parts(graph, num_parts, method, &path);
    Parts { _dir: dir, path }
}

/// Writes a typed graph whose edges `e0` have a class that their only feature tells. Some nodes have no features with
/// `has_embeddings`.
pub fn edge_parts(num_parts: u32, has_embeddings: bool) -> Parts {
    let options = FakeOptions { avg_num_nodes: 120, avg_degree: 6.0, num_channels: 4, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a valid graph");
    for nodes in dataset.node_types.iter_mut().filter(|nodes| !has_embeddings && nodes.features.is_none()) {
        let values: Vec<f32> = (0..nodes.num_nodes).map(|node| (node % 5) as f32).collect();
        nodes.features = Some(Features::F32 { values: values.into(), dim: 1 });
    }
    let edges = &mut dataset.edge_types[0];
    let numbers: Vec<f32> = (0..edges.src.len()).map(|edge| (edge * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let classes: Vec<i64> = numbers.iter().map(|&number| i64::from(number > 0.2)).collect();
    let splits: Vec<u8> = (0..edges.src.len()).map(|edge| [0, 0, 0, 1, 2, NO_SPLIT][edge % 6]).collect();
    edges.attributes.features = Some(Features::F32 { values: numbers.into(), dim: 1 });
    let values = EdgeLabelValues::Classes { of_edges: classes.into(), num_classes: 2 };
    edges.attributes.labels = Some(EdgeLabels { values, splits: splits.into() });
    dataset.add_reverse_edges();
    written(&dataset, num_parts, Method::Random)
}

/// A temporary folder.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the path of a file as text.
    pub fn text(&self, name: &str) -> String {
        self.join(name).to_str().expect("UTF-8").to_owned()
    }
}

/// A temporary folder, and the paths of a model and of its predictions in it.
pub struct Scratch {
    pub folder: Folder,
    pub model: PathBuf,
    pub out: PathBuf,
}

pub fn scratch() -> Scratch {
    let folder = Folder::new();
    let [model, out] = ["model.safetensors", "out"].map(|name| folder.path().join(name));
    Scratch { folder, model, out }
}

/// Returns the command `train` with the flags that all tests use, and without the variables of launchers.
pub fn train(subcommand: &str, parts: &Path) -> Command {
    let mut command = Command::new(TRAIN);
    command.arg(subcommand).arg("--dataset-root-dir").arg(parts).args(["--num-neighbors", "5,3"]);
    unplace(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn node(parts: &Path) -> Command {
    let mut command = train("node", parts);
    command.args("--hidden-channels 16 --batch-size 32 --lr 0.01 --dropout 0 --num-epochs 10".split(' '));
    command
}

/// Returns the command of one rank in a job with `world_size` nodes.
pub fn rank(parts: &Path, rank: usize, world_size: usize, port: u16) -> Command {
    let mut command = node(parts);
    command.args(["--num-nodes", &world_size.to_string(), "--node-rank", &rank.to_string()]);
    command.args(["--master-port", &port.to_string()]);
    command
}

/// Starts a training of many epochs, and waits until it has written to the file `metrics`.
pub fn start_training(command: &mut Command, metrics: &Path) -> Process {
    let mut job = Process::start(command.args(["--num-epochs", "1000000", "--metrics"]).arg(metrics));
    let has_started = || {
        assert!(job.try_wait().expect("wait for train").is_none(), "training ended");
        std::fs::read_to_string(metrics).is_ok_and(|text| text.contains("\"event\":\"epoch\""))
    };
    wait_until(has_started, || "training did not start".into());
    job
}

/// Waits until `happens`, which must be within [`ENDS_WITHIN`].
pub fn wait_until(mut happens: impl FnMut() -> bool, why: impl Fn() -> String) {
    let deadline = Instant::now() + ENDS_WITHIN;
    while !happens() {
        assert!(Instant::now() < deadline, "{}", why());
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

pub fn send(signal: Signal, process: u32) {
    let pid = Pid::from_raw(i32::try_from(process).expect("a process id")).expect("not 0");
    kill_process(pid, signal).expect("a running process");
}

/// Waits for a process, which must end within [`ENDS_WITHIN`]. A process that hangs is killed and fails the test.
pub fn end(child: impl Into<Process>) -> Output {
    child.into().end_within(ENDS_WITHIN)
}

pub fn run(command: &mut Command) -> Output {
    end(Process::start(command))
}

/// Returns the program `train`, whose output is captured, without the variables of launchers.
pub fn program() -> Command {
    let mut command = Command::new(TRAIN);
    unplace(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `train` with a task and flags, which are words with spaces between them, on the parts in a folder.
pub fn run_on(parts: &Path, words: &str) -> Output {
    run(program().args(words.split_whitespace()).arg("--dataset-root-dir").arg(parts))
}

/// Returns the result that a process has printed with `--json`.
#[track_caller]
pub fn json_of(output: impl Borrow<Output>) -> Value {
    let output = output.borrow();
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("a result as JSON")
}

/// Reads the lines of a metrics file, without the line that describes the run.
pub fn metrics_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a JSON line"));
    lines.filter(|line| line["event"] != "run").collect()
}

/// Returns the losses of the epochs in a metrics file.
pub fn losses_in(path: &Path) -> Vec<f64> {
    let lines = metrics_lines(path).into_iter();
    lines.filter(|line| line["event"] == "epoch").map(|line| number_of(&line, "loss")).collect()
}

/// Returns an entry of a result, such as `test_acc` or `test.mrr`. It must exist, so that two results cannot be equal because
/// both lack it.
#[track_caller]
pub fn entry<'a>(result: &'a Value, name: &str) -> &'a Value {
    let mut found = result;
    for key in name.split('.') {
        found = found.get(key).unwrap_or_else(|| panic!("no {name} in {result}"));
    }
    found
}

/// Returns a number of a result. See [`entry`].
#[track_caller]
pub fn number_of(result: &Value, name: &str) -> f64 {
    entry(result, name).as_f64().unwrap_or_else(|| panic!("{name} is not a number in {result}"))
}

/// Checks that two results have equal entries, which both must have.
#[track_caller]
pub fn assert_same(found: &Value, expected: &Value, names: &[&str]) {
    for name in names {
        assert_eq!(entry(found, name), entry(expected, name), "{name} of {found} and {expected}");
    }
}

/// Runs a command that has flags of a training. If the command evaluates a saved model, these flags are left out.
pub fn train_or_evaluate(command: &Command) -> Output {
    const OF_TRAINING: [&str; 6] =
        ["--num-epochs", "--lr", "--dropout", "--embedding-lr", "--num-negatives", "--n3-weight"];
    const SWITCHES: [&str; 2] = ["--shared-negatives", "--in-batch-negatives"];
    let is_evaluation = command.get_args().any(|word| word == "--load-model");
    let mut started = Command::new(command.get_program());
    let mut words = command.get_args();
    while let Some(word) = words.next() {
        if is_evaluation && OF_TRAINING.iter().any(|flag| word == *flag) {
            words.next();
        } else if !is_evaluation || SWITCHES.iter().all(|flag| word != *flag) {
            started.arg(word);
        }
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    run(started.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Runs `train link` on the given number of processes, or evaluates a saved model.
pub fn link(parts: &Path, nproc: u32, flags: &[&str]) -> Output {
    let mut command = program();
    command.args(["link", "--dataset-root-dir"]).arg(parts).args(["--nproc-per-node", &nproc.to_string()]);
    command.args(["--hidden-channels", "16", "--batch-size", "128", "--lr", "0.01", "--dropout", "0"]);
    train_or_evaluate(command.args(flags))
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the error line of a process, which must have failed with exactly one error and without a panic.
pub fn error_of(output: &Output) -> String {
    assert!(!output.status.success(), "it should have failed");
    let text = stderr(output);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(lines.len(), 1, "one error: {text}");
    assert!(!text.contains("panicked"), "{text}");
    lines[0].to_owned()
}

/// Checks that a process has failed with exactly one error, which has these words.
pub fn assert_error(output: &Output, words: &[&str]) {
    let error = error_of(output);
    assert!(words.iter().all(|word| error.contains(word)), "{error}, expected {words:?}");
}

/// Checks that a process has ended with this status and exactly one error, which has these words.
pub fn assert_fails(output: &Output, status: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(status), "{}, expected {words:?}", stderr(output));
    assert_error(output, words);
}

/// Checks that a process has ended with this status, and that its standard error has these words.
pub fn assert_refused(output: &Output, status: i32, words: &[&str]) {
    let text = stderr(output);
    let is_expected = output.status.code() == Some(status) && words.iter().all(|word| text.contains(word));
    assert!(is_expected, "{text}, expected the status {status} and {words:?}");
}

/// Returns the cases of a text: each line has flags and, after ` => `, the words of the error that they have, with ` | ` between
/// them.
pub fn cases(text: &'static str) -> impl Iterator<Item = (Vec<&'static str>, Vec<&'static str>)> {
    let lines = text.trim().lines();
    lines.map(|line| {
        let (flags, words) = line.split_once("=> ").expect("an error");
        (flags.split_whitespace().collect(), words.split(" | ").collect())
    })
}

/// Returns the number of folders of checkpoints in a folder, complete or not.
pub fn num_checkpoints(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("step-")).count()
}

/// Returns the direct children of a process.
pub fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process table");
    let lists =
        tasks.map(|task| std::fs::read_to_string(task.expect("a task").path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// Trains a model with two processes, and returns the result of an evaluation: of nodes with all neighbors, and of links with few
/// negatives.
pub fn trained(task: &str, parts: &Path, model: &Path, flags: &[&str]) -> Value {
    let mut command = program();
    command.args([task, "--dataset-root-dir"]).arg(parts).args(["--num-neighbors", "5,3", "--hidden-channels", "16"]);
    command.args(["--batch-size", "64", "--lr", "0.01", "--num-epochs", "4", "--nproc-per-node", "2", "--json"]);
    command.arg("--save-model").arg(model);
    command.args(evaluation_of(task));
    // Of a flag that is given twice, the last one counts.
    json_of(run(command.args(flags)))
}

/// Returns the flags of an exact evaluation of nodes, and of a cheap one of links: with the 100 negatives of the default, it takes
/// ten times as long as the training.
pub fn evaluation_of(task: &str) -> &'static [&'static str] {
    match task {
        "node" => &["--eval-num-neighbors", "-1,-1"],
        "link" => &["--eval-negatives", "10"],
        _ => &[],
    }
}

/// Predicts for the nodes of parts.
pub fn predict(parts: &Path, model: &Path, out: &Path, flags: &[&str]) -> Output {
    let mut command = program();
    command.args(["predict", "--dataset-root-dir"]).arg(parts).arg("--load-model").arg(model).arg("--out").arg(out);
    run(command.args(flags))
}

/// Predicts, and returns the result of `--json`.
pub fn predicted(parts: &Path, model: &Path, out: &Path, flags: &[&str]) -> Value {
    json_of(predict(parts, model, out, &[flags, &["--json", "--overwrite"]].concat()))
}

/// Checks that numbers are equal except for rounding.
pub fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{what}, {at}: {found} for {expected}");
    }
}

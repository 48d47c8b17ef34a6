//! Partitioning in scratch files: the same parts as in memory, within the limit, without leftovers.

mod graphs;

use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::readers::{DatasetSource, FakeOptions, export_npy, fake, load};
use edgecut_graph::{Dataset, HotnessRule, Workspace, write_npy};
use edgecut_partition::{
    Assignment, Method, PartitionOptions, partition, partition_loaded, partition_loaded_in, verify,
};
use graphs::{any_graph, contents, names, tempdir};
use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Work bytes with which small graphs are in many buckets, and in one.
const WORK_BYTES: [usize; 3] = [1 << 16, 1 << 18, 1 << 22];

fn methods() -> [Method; 3] {
    [Method::default(), Method::Ldg, Method::Random]
}

/// Partitions the dataset of `source` in memory and in scratch files, and compares all files.
fn compare(source: &DatasetSource, options: &PartitionOptions, given: Option<&Assignment>) {
    let root = tempdir();
    let path = |name: &str| root.path().join(name);
    let expected = match given {
        None => partition_loaded(load(source).unwrap(), options, &path("memory"), &()),
        Some(_) => edgecut_partition::partition_loaded_with(
            load(source).unwrap(),
            given.cloned(),
            options,
            &path("memory"),
            &(),
            ExtraFiles::default(),
        ),
    };
    expected.unwrap();
    let expected = contents(&path("memory"));
    let scratch = path("scratch");
    for work_bytes in WORK_BYTES {
        let space = Workspace::scratch(&scratch, work_bytes, ()).unwrap();
        let source = DatasetSource { space: space.clone(), ..source.clone() };
        let out = path(&format!("scratch-{work_bytes}"));
        let dataset = load(&source).unwrap();
        assert!(dataset.edge_types.iter().all(|edges| edges.src.is_empty() || edges.src.is_mapped()));
        partition_loaded_in(&space, dataset, given.cloned(), options, &out, &(), ExtraFiles::default()).unwrap();
        assert!(contents(&out) == expected, "{work_bytes} bytes, {options:?}");
        assert_eq!(names(&scratch), Vec::<String>::new());
    }
}

/// Saves a generated graph as arrays.
fn saved(dir: &Path, options: &FakeOptions) -> DatasetSource {
    export_npy(&fake(options).unwrap(), dir).unwrap();
    DatasetSource::of_folder(dir)
}

fn fake_options() -> FakeOptions {
    FakeOptions { avg_num_nodes: 4000, avg_degree: 20.0, num_channels: 6, ..FakeOptions::default() }
}

/// Keeps one direction of each edge of the arrays in `dir`, in an order that is not sorted, with duplicates.
fn make_directed(dir: &Path) {
    let dataset = load(&DatasetSource::of_folder(dir)).unwrap();
    let edges = &dataset.edge_types[0];
    let mut pairs: Vec<(i64, i64)> = edges.src.iter().zip(&edges.dst[..]).map(|(&a, &b)| (a.into(), b.into())).collect();
    pairs.retain(|(a, b)| a < b || (a + b) % 7 == 0);
    pairs.sort_by_key(|(a, b)| (a * 31 + b * 17) % 1009);
    let twice: Vec<(i64, i64)> = pairs.iter().copied().step_by(50).collect();
    pairs.extend(twice);
    let ends: Vec<i64> = pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect();
    write_npy(&dir.join("edge_index.npy"), &[2, pairs.len()], &ends).unwrap();
    // Weights, and features in a type that is converted.
    let weights: Vec<f64> = (0..pairs.len()).map(|edge| edge as f64 / 4.0).collect();
    write_npy(&dir.join("edge_weight.npy"), &[pairs.len()], &weights).unwrap();
    let times: Vec<i32> = (0..pairs.len()).map(|edge| edge as i32 * 3 % 1000).collect();
    write_npy(&dir.join("edge_time.npy"), &[pairs.len()], &times).unwrap();
    let features: Vec<f64> = (0..2 * pairs.len()).map(|value| value as f64 / 8.0).collect();
    write_npy(&dir.join("edge_attr.npy"), &[pairs.len(), 2], &features).unwrap();
}

#[test]
fn parts_of_a_homogeneous_graph_are_those_of_memory() {
    let dir = tempdir();
    let source = saved(dir.path(), &fake_options());
    for method in methods() {
        for num_parts in [1, 3] {
            compare(&source, &PartitionOptions { method, seed: 5, ..PartitionOptions::new(num_parts) }, None);
        }
    }
    let rules =
        [HotnessRule::InDegree, HotnessRule::Presample { num_neighbors: vec![5, 3], batch_size: 64 }];
    for rule in rules {
        let options = PartitionOptions { method: Method::Ldg, hotness: Some(rule), ..PartitionOptions::new(3) };
        compare(&source, &options, None);
    }
    let given = Assignment { parts: vec![(0..4000).map(|node| node * 7 % 3).collect()] };
    compare(&source, &PartitionOptions::new(3), Some(&given));
}

#[test]
fn parts_of_directed_and_of_made_undirected_graphs_are_those_of_memory() {
    let dir = tempdir();
    let source = saved(dir.path(), &fake_options());
    make_directed(dir.path());
    let options = PartitionOptions { method: Method::Ldg, ..PartitionOptions::new(3) };
    compare(&source, &options, None);
    let undirected = DatasetSource { to_undirected: true, ..source };
    compare(&undirected, &options, None);
    for name in ["edge_weight.npy", "edge_time.npy", "edge_attr.npy"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    compare(&undirected, &options, None);
    // No edge is added between the ends of held-out edges.
    let dataset = load(&undirected).unwrap();
    let edges = &dataset.edge_types[0];
    let held_out: Vec<usize> = (0..edges.src.len()).step_by(91).collect();
    let ends = |ids: &[u32], add: u32| held_out.iter().map(|&at| i64::from((ids[at] + add) % 4000)).collect::<Vec<_>>();
    let ends = [ends(&edges.src, 1), ends(&edges.dst, 0)].concat();
    write_npy(&dir.path().join("test_edge_index.npy"), &[2, held_out.len()], &ends).unwrap();
    compare(&DatasetSource { overlap: edgecut_graph::OverlapPolicy::Allow, ..undirected }, &options, None);
}

#[test]
fn parts_of_a_typed_graph_are_those_of_memory() {
    let dir = tempdir();
    let array = |path: &str, shape: &[usize], values: &[i64]| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_npy(&path, shape, values).unwrap();
    };
    array("nodes/author/num_nodes.npy", &[1], &[900]);
    array("nodes/paper/y.npy", &[2500], &(0..2500).map(|node| node % 5).collect::<Vec<_>>());
    array("nodes/paper/train_idx.npy", &[500], &(0..500).map(|at| at * 5).collect::<Vec<_>>());
    for (name, sources, destinations, count) in
        [("author__writes__paper", 900, 2500, 9000), ("paper__cites__paper", 2500, 2500, 20_000)]
    {
        let src = (0..count).map(|edge| edge * 7919 % sources);
        let ends: Vec<i64> = src.chain((0..count).map(|edge| edge * edge % destinations)).collect();
        array(&format!("edges/{name}/edge_index.npy"), &[2, count as usize], &ends);
    }
    let source = DatasetSource::of_folder(dir.path());
    for method in methods() {
        let options = PartitionOptions { method, ..PartitionOptions::new(3) };
        compare(&source, &options, None);
        compare(&DatasetSource { to_undirected: true, ..source.clone() }, &options, None);
        compare(&DatasetSource { add_reverse_edges: true, ..source.clone() }, &options, None);
    }
}

#[test]
fn a_generated_graph_is_the_same() {
    let source = DatasetSource { fake: fake_options(), ..DatasetSource::new("fake", "unused") };
    compare(&source, &PartitionOptions { method: Method::Ldg, ..PartitionOptions::new(2) }, None);
}

/// Partitions a graph in memory in scratch files.
fn in_scratch(dataset: Dataset, options: &PartitionOptions, root: &Path) -> PathBuf {
    let space = Workspace::scratch(root, 1 << 16, ()).unwrap();
    let out = root.join("scratch");
    partition_loaded_in(&space, dataset, None, options, &out, &(), ExtraFiles::default()).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn parts_of_any_graph_are_those_of_memory(dataset in any_graph(), num_parts in 1..5_u32, ldg in any::<bool>()) {
        let num_nodes: usize = dataset.node_types.iter().map(|nodes| nodes.num_nodes).sum();
        prop_assume!(num_parts as usize <= num_nodes);
        let method = if ldg { Method::Ldg } else { Method::Random };
        let options = PartitionOptions { method, ..PartitionOptions::new(num_parts) };
        let root = tempdir();
        partition(&dataset, &options, &root.path().join("memory"), &()).unwrap();
        let out = in_scratch(dataset, &options, root.path());
        prop_assert!(contents(&root.path().join("memory")) == contents(&out));
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command.args(arguments).env("RAYON_NUM_THREADS", "2");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fails(arguments: &[&str], status: i32, why: &str) {
    let output = program(arguments).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(why), "{stderr}, expected {why}");
    assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

/// The arrays of a graph that takes several times the limit of the tests in memory.
struct Large {
    root: tempfile::TempDir,
}

impl Large {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let options =
            FakeOptions { avg_num_nodes: 100_000, avg_degree: 60.0, num_channels: 4, ..FakeOptions::default() };
        export_npy(&fake(&options).unwrap(), &root.path().join("graph")).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the program with the arrays, without an output folder.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(&["--dataset", "graph", "--num-partitions", "2", "--to-undirected", "--json"]);
        command.args(["--dataset-dir", &self.path("graph")]).args(arguments);
        command
    }

    /// Returns the parts without a limit.
    fn expected(&self, method: &str) -> std::collections::BTreeMap<String, Vec<u8>> {
        let out = self.path(&format!("expected-{method}"));
        succeeds(&self.program(&["--output-dir", &out, "--method", method]).output().unwrap());
        contents(Path::new(&out))
    }
}

const LIMIT: u64 = 72 << 20;

/// Returns the anonymous memory of a process, 0 once it has ended.
fn anonymous_bytes(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the largest anonymous memory of a process until it ends.
fn watch(command: &mut Command) -> (u64, Output) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(anonymous_bytes(&child));
        std::thread::sleep(Duration::from_millis(1));
    }
    (peak, child.wait_with_output().unwrap())
}

#[test]
fn the_memory_of_a_process_stays_below_the_limit() {
    let large = Large::new();
    let limit = LIMIT.to_string();
    for method in ["ldg", "random"] {
        let expected = large.path(&format!("expected-{method}"));
        let (unlimited, output) = watch(&mut large.program(&["--output-dir", &expected, "--method", method]));
        succeeds(&output);
        // Without this, the test could not fail.
        assert!(unlimited > 2 * LIMIT, "{unlimited} bytes without a limit");
        let out = large.path(&format!("limited-{method}"));
        let scratch = large.path("scratch");
        let flags = ["--output-dir", &out, "--method", method, "--memory-limit", &limit, "--scratch-dir", &scratch];
        let (limited, output) = watch(&mut large.program(&flags));
        let made = succeeds(&output);
        assert!(limited < LIMIT, "{limited} bytes with a limit of {LIMIT}");
        let reported = made["peak_anonymous_bytes"].as_u64().unwrap();
        assert!(reported < LIMIT && reported > LIMIT / 4, "{reported}");
        assert!(contents(Path::new(&out)) == contents(Path::new(&expected)), "{method}");
        assert_eq!(names(Path::new(&scratch)), Vec::<String>::new());
    }
}

#[test]
fn metis_is_replaced_if_it_does_not_fit_unless_it_was_chosen() {
    let large = Large::new();
    let out = large.path("out");
    let limit = LIMIT.to_string();
    let output = large.program(&["--output-dir", &out, "--memory-limit", &limit]).output().unwrap();
    let made = succeeds(&output);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("note: METIS does not fit into --memory-limit"), "{stderr}");
    assert_eq!(made["provenance"]["method"], "ldg");
    assert!(contents(Path::new(&out)) == large.expected("ldg"));
    let output =
        large.program(&["--output-dir", "x", "--memory-limit", &limit, "--method", "metis"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("error: METIS takes about ") && stderr.contains("more than --memory-limit 72MiB"), "{stderr}");
    assert!(stderr.contains("use --method ldg"), "{stderr}");
    assert!(!Path::new("x").exists());
    // A limit that METIS fits into.
    let out = large.path("metis");
    let made = succeeds(&large.program(&["--output-dir", &out, "--memory-limit", "2GiB"]).output().unwrap());
    assert_eq!(made["provenance"]["method"], "metis");
    assert!(contents(Path::new(&out)) == large.expected("metis"));
}

#[test]
fn a_killed_run_leaves_no_scratch_files_and_the_next_one_succeeds() {
    let large = Large::new();
    let expected = large.expected("ldg");
    let scratch = large.path("scratch");
    let out = large.path("parts/out");
    let limit = LIMIT.to_string();
    let flags = ["--output-dir", &out, "--method", "ldg", "--memory-limit", &limit, "--scratch-dir", &scratch];
    // A phase is printed when it ends.
    let moments = [("", 20), ("", 150), ("reading", 10), ("reading", 120), ("preparing", 30), ("LDG", 1), ("LDG", 40)];
    for (at, (after, milliseconds)) in moments.into_iter().enumerate() {
        let signal = if at % 3 == 2 { Signal::TERM } else { Signal::KILL };
        let mut child = large.program(&flags).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !after.is_empty() && !line.starts_with(after) {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before the end of {after}");
        }
        std::thread::sleep(Duration::from_millis(milliseconds));
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        assert!(!Path::new(&scratch).exists() || names(Path::new(&scratch)).is_empty(), "{:?}", names(Path::new(&scratch)));
        assert!(!Path::new(&out).exists(), "it was done before it could be stopped");
    }
    succeeds(&large.program(&flags).output().unwrap());
    assert!(contents(Path::new(&out)) == expected);
    assert_eq!(names(&large.root.path().join("parts")), ["out"]);
    verify(Path::new(&out)).unwrap();
}

/// A small file system in memory. It is unmounted when the value is dropped.
struct Disk(PathBuf);

impl Disk {
    /// Returns `None` if this user may not mount file systems.
    fn mount(path: &Path, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={bytes}");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "disk"]).arg(path).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then(|| Self(path.into()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_scratch_disk_is_an_error_and_the_planned_space_suffices() {
    let large = Large::new();
    let limit = LIMIT.to_string();
    let flags = ["--method", "ldg", "--memory-limit", &limit];
    let plan = succeeds(&large.program(&[&flags[..], &["--plan"]].concat()).output().unwrap());
    let needed = plan["scratch_bytes"].as_u64().unwrap();
    let scratch = large.path("scratch");
    let out = large.path("out");
    let flags = [&flags[..], &["--output-dir", &out, "--scratch-dir", &scratch]].concat();
    for (bytes, why) in [(needed / 4, "of free space, but scratch files take up to"), (needed * 11 / 20, "No space left on device")] {
        let Some(_disk) = Disk::mount(Path::new(&scratch), bytes) else {
            eprintln!("skipped: this user may not mount a small disk");
            return;
        };
        let output = large.program(&flags).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("error: --scratch-dir {scratch}")) && stderr.contains(why), "{stderr}");
        assert!(stderr.contains("is in memory (tmpfs)"), "{stderr}");
        assert!(!Path::new(&out).exists() && names(Path::new(&scratch)).is_empty());
    }
    let _disk = Disk::mount(Path::new(&scratch), needed + (1 << 20)).unwrap();
    succeeds(&large.program(&flags).output().unwrap());
}

#[test]
fn what_does_not_work_within_a_limit_is_one_error() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let generated = ["--num-partitions", "2", "--root-dir", at, "--memory-limit", "64MiB", "--dataset"];
    let fails_with = |arguments: &[&str], status, why: &str| {
        fails(&[&generated[..], arguments].concat(), status, why);
    };
    fails_with(&["fake-hetero"], 1, "error: --memory-limit: dataset fake-hetero: the sizes of a generated heterogeneous graph");
    fails_with(&["fake", "--edge-attributes"], 1, "error: --memory-limit: --edge-attributes takes memory");
    fails_with(&["fake", "--hold-out-edges", "0.1,0.1"], 1, "error: --memory-limit: --hold-out-edges takes memory");
    fails_with(&["fake", "--overlap", "remove"], 1, "error: --memory-limit: --overlap remove takes memory");
    fails_with(&["shop", "--conf", "shop.json"], 2, "--memory-limit reads .npy arrays, but --conf names tables");
    let small = ["--dataset", "fake", "--num-partitions", "2", "--root-dir", at, "--memory-limit"];
    fails(&[&small[..], &["8MiB"]].concat(), 1, "error: the graph needs at least ");
    fails(&[&small[..], &["some"]].concat(), 2, "is not a number of bytes");
    fails(&["--dataset", "fake", "--num-partitions", "2", "--scratch-dir", at], 2, "--memory-limit");
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    fails(&[&small[..], &["64MiB", "--scratch-dir", file]].concat(), 1, &format!("error: --scratch-dir {file}"));
    let raw = root.path().join("text/raw");
    std::fs::create_dir_all(&raw).unwrap();
    std::fs::write(raw.join("edge.csv"), "0,1\n").unwrap();
    fails_with(&["text"], 1, "text: it holds OGB's CSV files, whose sizes are known only once they are read");
    assert!(!root.path().join("partitions").join("fake").join("2-parts").exists());
}

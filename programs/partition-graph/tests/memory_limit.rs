//! `--memory-limit`: the same parts within the limit, without leftovers.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::graphs;

use edgecut_graph::readers::{FakeOptions, export_npy, fake};
use edgecut_partition::verify;
use edgecut_testing::{Need, Process, assert_has, names, skip};
use graphs::{contents, json_of, text};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command.args(arguments).env("RAYON_NUM_THREADS", "2");
    command
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
        Self::of(100_000)
    }

    fn of(avg_num_nodes: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let options = FakeOptions { avg_num_nodes, avg_degree: 40.0, num_channels: 4, ..FakeOptions::default() };
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
        json_of(self.program(&["--output-dir", &out, "--method", method]).output().unwrap());
        contents(Path::new(&out))
    }
}

const LIMIT: u64 = 56 << 20;

/// Runs the program, which must succeed, and returns the largest anonymous memory that it has measured itself.
fn peak_bytes(command: &mut Command) -> u64 {
    json_of(command.output().unwrap())["peak_anonymous_bytes"].as_u64().unwrap()
}

#[test]
fn the_memory_of_a_process_stays_below_the_limit() {
    let large = Large::new();
    let limit = LIMIT.to_string();
    for method in ["ldg", "random"] {
        let expected = large.path(&format!("expected-{method}"));
        let unlimited = peak_bytes(&mut large.program(&["--output-dir", &expected, "--method", method]));
        // Without this, the test could not fail.
        assert!(unlimited > LIMIT * 3 / 2, "{unlimited} bytes without a limit");
        let out = large.path(&format!("limited-{method}"));
        let scratch = large.path("scratch");
        let flags = ["--output-dir", &out, "--method", method, "--memory-limit", &limit, "--scratch-dir", &scratch];
        let limited = peak_bytes(&mut large.program(&flags));
        assert!(limited < LIMIT && limited > LIMIT / 4, "{limited} bytes with a limit of {LIMIT}");
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
    let stderr = text(&output.stderr);
    let made = json_of(output);
    assert!(stderr.contains("note: METIS does not fit into --memory-limit"), "{stderr}");
    assert_eq!(made["provenance"]["method"], "ldg");
    assert!(contents(Path::new(&out)) == large.expected("ldg"));
    let output = large.program(&["--output-dir", "x", "--memory-limit", &limit, "--method", "metis"]).output().unwrap();
    assert_has(
        text(&output.stderr),
        &["error: METIS takes about ", "more than --memory-limit 56MiB", "use --method semi-external or --method ldg"],
    );
    assert!(!Path::new("x").exists());
    // A limit that METIS fits into, and a method that was chosen.
    let small = Large::of(10_000);
    for (flags, method) in [(&[][..], "metis"), (&["--method", "semi-external"][..], "semi-external")] {
        let out = small.path(method);
        let of_limit = ["--output-dir", &out, "--memory-limit", "2GiB"];
        let made = json_of(small.program(&[&of_limit[..], flags].concat()).output().unwrap());
        assert_eq!(made["provenance"]["method"], method);
        assert!(contents(Path::new(&out)) == small.expected(method), "{method}");
    }
}

/// Stops runs at moments from their start to the end of their work. Each leaves no scratch files, and either no output or
/// all of it.
fn stop_at_moments(program: impl Fn() -> Command, scratch: &str, out: &str) {
    const RUNS: u32 = 6;
    let (scratch, out) = (Path::new(scratch), Path::new(out));
    let run = || Process::start(program().stdout(Stdio::null()).stderr(Stdio::null()));
    let start = Instant::now();
    assert!(run().wait().unwrap().success());
    let mut needed = start.elapsed();
    std::fs::remove_dir_all(out).unwrap();
    let mut stopped = 0;
    for at in 0..RUNS {
        let signal = if at % 3 == 2 { Signal::TERM } else { Signal::KILL };
        let start = Instant::now();
        let mut child = run();
        std::thread::sleep(needed * (2 * at + 1) / (2 * RUNS));
        // The run may be done if earlier ones were slower.
        child.signal(signal);
        child.wait().unwrap();
        assert!(!scratch.exists() || names(scratch).is_empty(), "{:?}", names(scratch));
        if out.exists() {
            needed = start.elapsed();
            verify(out).unwrap();
            std::fs::remove_dir_all(out).unwrap();
        } else {
            stopped += 1;
        }
    }
    assert!(stopped > 0, "none of {RUNS} runs was stopped before it was done");
}

#[test]
fn a_killed_run_leaves_no_scratch_files_and_the_next_one_succeeds() {
    let large = Large::of(30_000);
    let expected = large.expected("ldg");
    let scratch = large.path("scratch");
    let out = large.path("parts/out");
    let limit = LIMIT.to_string();
    let flags = ["--output-dir", &out, "--method", "ldg", "--memory-limit", &limit, "--scratch-dir", &scratch];
    stop_at_moments(|| large.program(&flags), &scratch, &out);
    json_of(large.program(&flags).output().unwrap());
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
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "disk"]).arg(path).stderr(Stdio::null()).status();
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
    let plan = json_of(large.program(&[&flags[..], &["--plan"]].concat()).output().unwrap());
    let needed = plan["scratch_bytes"].as_u64().unwrap();
    let scratch = large.path("scratch");
    let out = large.path("out");
    let flags = [&flags[..], &["--output-dir", &out, "--scratch-dir", &scratch]].concat();
    for (bytes, why) in
        [(needed / 4, "of free space, but scratch files take up to"), (needed * 11 / 20, "No space left on device")]
    {
        let Some(_disk) = Disk::mount(Path::new(&scratch), bytes) else {
            return skip(Need::Mount, "a_full_scratch_disk", "this user may not mount a small disk");
        };
        let output = large.program(&flags).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("error: --scratch-dir {scratch}")) && stderr.contains(why), "{stderr}");
        assert!(stderr.contains("is in memory (tmpfs)"), "{stderr}");
        assert!(!Path::new(&out).exists() && names(Path::new(&scratch)).is_empty());
    }
    let _disk = Disk::mount(Path::new(&scratch), needed + (1 << 20)).unwrap();
    json_of(large.program(&flags).output().unwrap());
}

/// Tables with ids that are texts, which take several times the limit of their test in memory.
struct LargeTables {
    root: tempfile::TempDir,
}

impl LargeTables {
    const NUM_NODES: usize = 60_000;
    const LIMIT: u64 = 92 << 20;

    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut nodes = "id,label,a,b,c,d\n".to_owned();
        for node in 0..Self::NUM_NODES {
            writeln!(nodes, "user/{node:07},{},{node},{}.5,-{node}e-3,0.{node}", node % 7, node % 100).unwrap();
        }
        std::fs::write(root.path().join("nodes.csv"), nodes).unwrap();
        std::fs::create_dir(root.path().join("edges")).unwrap();
        for file in 0..2 {
            let mut edges = "from,to,weight\n".to_owned();
            for edge in 0..1_300_000 {
                let [from, to] = [7919, 104_729].map(|prime| (edge + file) * prime % Self::NUM_NODES);
                writeln!(edges, "user/{from:07},user/{to:07},{}", edge % 10).unwrap();
            }
            std::fs::write(root.path().join(format!("edges/{file}.csv")), edges).unwrap();
        }
        let conf = r#"{"nodes": [{"node_type": "user", "node_id_col": "id", "files": "nodes.csv",
            "features": [{"feature_col": ["a", "b", "c", "d"], "feature_name": "x",
                          "transform": {"name": "max_min_norm"}}],
            "labels": [{"task_type": "classification", "label_col": "label", "split_pct": [0.1, 0.1, 0.1]}]}],
            "edges": [{"relation": ["user", "knows", "user"], "files": "edges", "source_id_col": "from",
                       "dest_id_col": "to", "weight_col": "weight"}]}"#;
        std::fs::write(root.path().join("graph.json"), conf).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    fn program(&self, out: &str, more: &[&str]) -> Command {
        let conf = self.path("graph.json");
        let mut command = program(&["--dataset", "users", "--num-partitions", "2", "--method", "ldg", "--json"]);
        command.args(["--conf", &conf, "--output-dir", &self.path(out)]).args(more);
        command
    }
}

#[test]
fn tables_stay_below_the_limit_and_their_plan() {
    let large = LargeTables::new();
    let changes = ["--to-undirected", "--hold-out-edges", "0.02,0.02", "--feature-dtype", "f16"];
    let unlimited = peak_bytes(&mut large.program("whole", &changes));
    assert!(unlimited > LargeTables::LIMIT * 5 / 4, "{unlimited} bytes without a limit");
    let scratch = large.path("scratch");
    let limit = LargeTables::LIMIT.to_string();
    let flags = [&changes[..], &["--memory-limit", &limit, "--scratch-dir", &scratch]].concat();
    let plan = json_of(large.program("limited", &[&flags[..], &["--plan"]].concat()).output().unwrap());
    assert!(!Path::new(&large.path("limited")).exists());
    let limited = peak_bytes(&mut large.program("limited", &flags));
    let planned = plan["peak_memory_bytes"].as_u64().unwrap();
    assert!(limited < planned && planned <= LargeTables::LIMIT, "{limited} bytes, {planned} planned");
    assert!(contents(Path::new(&large.path("limited"))) == contents(Path::new(&large.path("whole"))));
    assert_eq!(names(Path::new(&scratch)), Vec::<String>::new());
    // The sizes of the plan are estimated from the first rows.
    let edges = plan["num_edges"].as_f64().unwrap() / 5_200_000.0;
    assert!(plan["num_nodes"].as_f64().unwrap() >= 0.95 * LargeTables::NUM_NODES as f64, "{plan:#}");
    assert!((0.95..1.3).contains(&edges), "{plan:#}");
}

#[test]
fn a_killed_run_on_tables_leaves_nothing_and_a_full_disk_is_one_error() {
    let large = LargeTables::new();
    let scratch = large.path("scratch");
    let limit = LargeTables::LIMIT.to_string();
    let flags = ["--memory-limit", &limit, "--scratch-dir", &scratch];
    stop_at_moments(|| large.program("parts/out", &flags), &scratch, &large.path("parts/out"));
    json_of(large.program("parts/out", &flags).output().unwrap());
    assert_eq!(names(Path::new(&large.path("parts"))), ["out"]);
    let plan = json_of(large.program("full", &[&flags[..], &["--plan"]].concat()).output().unwrap());
    let needed = plan["scratch_bytes"].as_u64().unwrap();
    let Some(_disk) = Disk::mount(Path::new(&scratch), needed * 11 / 20) else {
        return skip(Need::Mount, "a full scratch disk", "this user may not mount a small disk");
    };
    let output = large.program("full", &flags).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("error: --scratch-dir {scratch}")), "{stderr}");
    assert!(stderr.contains("No space left on device") && stderr.matches("error:").count() == 1, "{stderr}");
    assert!(!Path::new(&large.path("full")).exists() && names(Path::new(&scratch)).is_empty());
}

/// Writes a NumPy archive.
fn write_npz(path: &Path, arrays: &[(&str, Vec<u8>)]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in arrays {
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

/// Returns the file of an array of numbers.
fn array(shape: &[usize], values: impl Iterator<Item = i64>) -> Vec<u8> {
    let mut bytes = edgecut_graph::npy_header::<i64>(shape).unwrap();
    values.for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

#[test]
fn other_layouts_of_arrays_work_within_a_limit() {
    let root = tempfile::tempdir().unwrap();
    let num_edges = 20_000;
    let ends = || (0..2 * num_edges).map(|at| (at * at + 3 * at) % 1000);
    std::fs::create_dir_all(root.path().join("papers/raw")).unwrap();
    write_npz(
        &root.path().join("papers/raw/data.npz"),
        &[
            ("edge_index", array(&[2, num_edges as usize], ends())),
            ("num_nodes_list", array(&[1], std::iter::once(1000))),
            ("node_year", array(&[1000, 1], 1000..2000)),
        ],
    );
    write_npz(
        &root.path().join("papers/raw/node-label.npz"),
        &[("node_label", array(&[1000, 1], (0..1000).map(|n| n % 5)))],
    );
    let relation = root.path().join("mag/processed/author___writes___paper");
    std::fs::create_dir_all(&relation).unwrap();
    std::fs::create_dir_all(root.path().join("mag/processed/paper")).unwrap();
    std::fs::write(relation.join("edge_index.npy"), array(&[2, num_edges as usize], ends())).unwrap();
    let labels = array(&[1000], (0..1000).map(|n| n % 5));
    std::fs::write(root.path().join("mag/processed/paper/node_label.npy"), labels).unwrap();
    let scratch = root.path().join("scratch");
    for (name, flag) in [("papers", "--to-undirected"), ("mag", "--add-reverse-edges")] {
        let dir = root.path().join(name);
        let made = |out: &str, more: &[&str]| {
            let mut command = program(&["--dataset", "graph", "--num-partitions", "2", "--method", "ldg", "--json"]);
            command.arg("--dataset-dir").arg(&dir).arg("--output-dir").arg(root.path().join(out)).arg(flag).args(more);
            json_of(command.output().unwrap())
        };
        let of_limit = ["--memory-limit", "256MiB", "--scratch-dir", scratch.to_str().unwrap()];
        let plan = made("no", &[&of_limit[..], &["--plan"]].concat());
        made(&format!("{name}-whole"), &[]);
        made(&format!("{name}-limited"), &of_limit);
        assert_eq!(plan["num_nodes"], if name == "mag" { 1999 } else { 1000 });
        assert_eq!(plan["num_edges"], 2 * num_edges);
        let [whole, limited] = ["whole", "limited"].map(|end| contents(&root.path().join(format!("{name}-{end}"))));
        assert!(whole == limited, "{name}");
        assert_eq!(names(&scratch), Vec::<String>::new());
    }
}

#[test]
fn what_does_not_work_within_a_limit_is_one_error() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let generated = ["--num-partitions", "2", "--root-dir", at, "--memory-limit", "64MiB", "--dataset"];
    let fails_with = |arguments: &[&str], status, why: &str| {
        fails(&[&generated[..], arguments].concat(), status, why);
    };
    fails_with(
        &["fake-hetero"],
        1,
        "error: --memory-limit: dataset fake-hetero: the sizes of a generated heterogeneous graph",
    );
    fails_with(&["fake", "--edge-attributes"], 1, "error: --memory-limit: --edge-attributes takes memory");
    let small = ["--dataset", "fake", "--num-partitions", "2", "--root-dir", at, "--memory-limit"];
    fails(&[&small[..], &["8MiB"]].concat(), 1, "error: the graph needs at least ");
    fails(&[&small[..], &["some"]].concat(), 2, "is not a number of bytes");
    for more in [["--method", "ldg"], ["--assignment", at]] {
        let flags = ["--dataset", "fake", "--num-partitions", "2", "--scratch-dir", at];
        fails(&[&flags[..], &more].concat(), 2, "--scratch-dir needs --memory-limit or --method metis");
    }
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

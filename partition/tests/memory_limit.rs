//! `--memory-limit`: the same parts within the limit, without leftovers.

mod graphs;

use edgecut_graph::readers::{FakeOptions, export_npy, fake};
use edgecut_partition::verify;
use graphs::{contents, names};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

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
            FakeOptions { avg_num_nodes: 100_000, avg_degree: 40.0, num_channels: 4, ..FakeOptions::default() };
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

const LIMIT: u64 = 56 << 20;

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
        assert!(unlimited > LIMIT * 3 / 2, "{unlimited} bytes without a limit");
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
    let output = large.program(&["--output-dir", "x", "--memory-limit", &limit, "--method", "metis"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("error: METIS takes about ") && stderr.contains("more than --memory-limit 56MiB"),
        "{stderr}"
    );
    assert!(stderr.contains("use --method semi-external or --method ldg"), "{stderr}");
    assert!(!Path::new("x").exists());
    // A limit that METIS fits into, and a method that was chosen. The graph has too many edges for METIS alone.
    for (flags, method) in [(&[][..], "metis"), (&["--method", "semi-external"][..], "semi-external")] {
        let out = large.path(method);
        let of_limit = ["--output-dir", &out, "--memory-limit", "2GiB"];
        let made = succeeds(&large.program(&[&of_limit[..], flags].concat()).output().unwrap());
        assert_eq!(made["provenance"]["method"], method);
        assert!(contents(Path::new(&out)) == large.expected(method), "{method}");
    }
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
        assert!(
            !Path::new(&scratch).exists() || names(Path::new(&scratch)).is_empty(),
            "{:?}",
            names(Path::new(&scratch))
        );
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
    let plan = succeeds(&large.program(&[&flags[..], &["--plan"]].concat()).output().unwrap());
    let needed = plan["scratch_bytes"].as_u64().unwrap();
    let scratch = large.path("scratch");
    let out = large.path("out");
    let flags = [&flags[..], &["--output-dir", &out, "--scratch-dir", &scratch]].concat();
    for (bytes, why) in
        [(needed / 4, "of free space, but scratch files take up to"), (needed * 11 / 20, "No space left on device")]
    {
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
    fails_with(
        &["fake-hetero"],
        1,
        "error: --memory-limit: dataset fake-hetero: the sizes of a generated heterogeneous graph",
    );
    fails_with(&["fake", "--edge-attributes"], 1, "error: --memory-limit: --edge-attributes takes memory");
    fails_with(&["fake", "--hold-out-edges", "0.1,0.1"], 1, "error: --memory-limit: --hold-out-edges takes memory");
    fails_with(&["fake", "--overlap", "remove"], 1, "error: --memory-limit: --overlap remove takes memory");
    fails_with(&["shop", "--conf", "shop.json"], 2, "--memory-limit reads .npy arrays, but --conf names tables");
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

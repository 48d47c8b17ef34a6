//! A file that is truncated while a process has it mapped ends the process with an error that names the file.
//!
//! The process is this test program itself, started with an environment variable.

use edgecut_graph::part_writer::write_one_part;
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{DiskPartId, NodeTypeId, Part, end_on_unreadable_pages};
use edgecut_testing::Process;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The folder of the part that a started process reads.
const PART: &str = "EDGECUT_TEST_MAPPED_PART";
/// Set for a process that does not handle the signal.
const PLAIN: &str = "EDGECUT_TEST_PLAIN";
/// Set for a process that reads with several threads at the same time.
const THREADS: &str = "EDGECUT_TEST_THREADS";
const FEATURES: &str = "part_0/nodes/node/features.npy";

/// Opens a part, reads its first features, waits for a line on standard input, and then reads all features. Does
/// nothing unless a test has started this process.
#[test]
fn reader() {
    let Some(dir) = std::env::var_os(PART) else { return };
    if std::env::var_os(PLAIN).is_none() {
        end_on_unreadable_pages().unwrap();
    }
    let part = Part::open(Path::new(&dir), DiskPartId(0), true).unwrap();
    let features = part.nodes(NodeTypeId(0)).features.as_ref().unwrap();
    let sum = |rows: std::ops::Range<usize>| rows.map(|row| u64::from(features.row_bytes(row)[0])).sum::<u64>();
    std::io::stdout().write_all(format!("opened {}\n", sum(0..1)).as_bytes()).unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
    if std::env::var_os(THREADS).is_some() {
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(|| (start.wait(), sum(0..features.num_rows())))));
        });
    }
    std::io::stdout().write_all(format!("read {}\n", sum(0..features.num_rows())).as_bytes()).unwrap();
}

struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Starts a reader, and lets it read all features after `change`.
fn read_after(dir: &Path, variables: &[&str], change: impl FnOnce()) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "truncated_while_mapped::reader", "--nocapture", "--quiet"]).env(PART, dir);
    command.envs(variables.iter().map(|name| (name, "1")));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Process::start(command);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("opened") {
        assert!(stdout.read_line(&mut text).unwrap() > 0, "the reader ended: {text}");
    }
    change();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    stdout.read_to_string(&mut text).unwrap();
    let output = child.output().unwrap();
    Ended { status: output.status, stdout: text, stderr: String::from_utf8(output.stderr).unwrap() }
}

fn part() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let graph = fake(&FakeOptions { avg_num_nodes: 2000, num_channels: 64, ..FakeOptions::default() }).unwrap();
    write_one_part(graph, dir.path()).unwrap();
    dir
}

fn truncate(dir: &Path, bytes: u64) {
    std::fs::File::options().write(true).open(dir.join(FEATURES)).unwrap().set_len(bytes).unwrap();
}

#[test]
fn an_intact_file_is_read() {
    let dir = part();
    let Ended { status, stdout, stderr } = read_after(dir.path(), &[], || {});
    assert!(status.success() && stdout.contains("read "), "{stdout}{stderr}");
}

#[test]
fn a_truncated_file_is_named_with_both_sizes() {
    let dir = part();
    // The reader has read all pages when it compared checksums, so they are in memory until the file is truncated.
    let Ended { status, stdout, stderr } = read_after(dir.path(), &[], || truncate(dir.path(), 100_000));
    assert_eq!(status.code(), Some(1), "{stdout}{stderr}");
    let path = dir.path().join(FEATURES);
    let expected = format!("error: {}: it was truncated while in use, from 512128 to 100000 bytes.", path.display());
    assert!(stderr.contains(&expected), "{stderr}");
    assert!(!stdout.contains("read "), "{stdout}");
}

#[test]
fn threads_that_read_it_at_the_same_time_report_it_once() {
    for _ in 0..20 {
        let dir = part();
        let Ended { status, stderr, .. } = read_after(dir.path(), &[THREADS], || truncate(dir.path(), 4096));
        assert_eq!(status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
    }
}

#[test]
fn a_truncated_file_without_a_name_is_still_named() {
    let dir = part();
    let Ended { status, stderr, .. } = read_after(dir.path(), &[], || {
        truncate(dir.path(), 0);
        std::fs::remove_file(dir.path().join(FEATURES)).unwrap();
    });
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("features.npy: a page of the 512128 bytes could not be read"), "{stderr}");
}

#[test]
fn without_the_handler_the_signal_kills() {
    let dir = part();
    let Ended { status, .. } = read_after(dir.path(), &[PLAIN], || truncate(dir.path(), 4096));
    assert_eq!(status.signal(), Some(nix::libc::SIGBUS));
}

#[test]
fn a_signal_that_no_mapped_file_causes_still_kills() {
    let dir = part();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "truncated_while_mapped::reader", "--nocapture", "--quiet"]).env(PART, dir.path());
    let mut child = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    // Without standard input the reader would end by itself.
    let _stdin = child.stdin.take();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("opened") {
        assert!(stdout.read_line(&mut text).unwrap() > 0, "the reader ended: {text}");
    }
    child.signal(edgecut_testing::Signal::BUS);
    assert_eq!(child.wait().unwrap().signal(), Some(nix::libc::SIGBUS));
}

//! Tests that processes of a node with the same part share one copy of its files in memory.
#![cfg(target_os = "linux")]

use crate::programs::*;

use edgecut_graph::Dataset;
use edgecut_graph::readers::{FakeOptions, export_npy, fake};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROCESSES: usize = 4;

/// The memory of one mapped file in a process, in KiB. The file may already be removed.
#[derive(Default)]
struct Mapped {
    size: u64,
    resident: u64,
    /// The resident pages, each divided by the number of processes that map it.
    share: u64,
    /// The pages that were written to, which are private copies.
    own: u64,
}

/// Returns the files under `dir` that a process maps.
fn mapped(pid: u32, dir: &Path) -> BTreeMap<PathBuf, Mapped> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("the mappings of a process");
    let mut files: BTreeMap<PathBuf, Mapped> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let key = fields.next().unwrap_or_default();
        if !key.ends_with(':') {
            // A new mapping starts with: addresses, permissions, offset, device, inode, path.
            current = line.find('/').map(|at| PathBuf::from(&line[at..])).filter(|path| path.starts_with(dir));
            continue;
        }
        let Some(path) = &current else { continue };
        let mut kib = || fields.next().and_then(|n| n.parse::<u64>().ok()).expect("a number of kB");
        let file = files.entry(path.clone()).or_default();
        match key {
            "Size:" => file.size += kib(),
            "Rss:" => file.resident += kib(),
            "Pss:" => file.share += kib(),
            "Private_Dirty:" | "Anonymous:" => file.own += kib(),
            _ => {}
        }
    }
    files
}

fn graph() -> Dataset {
    let options = FakeOptions { avg_num_nodes: 8_000, avg_degree: 30.0, ..FakeOptions::default() };
    fake(&options).expect("a fake graph")
}

/// Starts a job, waits until all processes are training, and returns the files under `dir` that each of them maps.
fn files_of_job(mut command: Command, dir: &Path) -> Vec<BTreeMap<PathBuf, Mapped>> {
    let dir = dir.canonicalize().expect("a folder");
    let metrics = dir.join("metrics.jsonl");
    let parent = start_training(command.args(["--nproc-per-node", &PROCESSES.to_string()]), &metrics);
    let children = children_of(parent.id());
    assert_eq!(children.len(), PROCESSES);
    let files = children.iter().map(|&pid| mapped(pid, &dir)).collect();
    send(Signal::INT, parent.id());
    assert_eq!(end(parent).status.code(), Some(130));
    files
}

fn maps_edges(files: &BTreeMap<PathBuf, Mapped>) -> bool {
    // The kernel appends " (deleted)" to the path of a removed file.
    files.keys().any(|path| path.to_string_lossy().contains("indices.npy"))
}

fn assert_in_memory_once(processes: &[BTreeMap<PathBuf, Mapped>]) {
    let mut once = BTreeMap::new();
    let mut resident = 0;
    let mut share = 0;
    for files in processes {
        assert!(maps_edges(files), "the edges are read from the mapped file: {:?}", files.keys());
        for (path, file) in files {
            assert_eq!(file.own, 0, "{} is not written to", path.display());
            once.insert(path, file.size);
            resident += file.resident;
            share += file.share;
        }
    }
    let once: u64 = once.values().sum();
    // Every process reads the edges and the features of an epoch.
    assert!(resident > 2 * once, "{PROCESSES} processes have {resident} KiB of {once} KiB of files");
    // Apart from page sizes and rounding, each page counts once in the sum of all shares.
    assert!(share < once * 5 / 4, "{once} KiB of files take {share} KiB");
}

#[test]
fn processes_that_share_a_part_have_its_files_in_memory_once() {
    let parts = written_by(&graph(), 1);
    assert_in_memory_once(&files_of_job(node(&parts.path), &parts.path));
}

#[test]
fn edges_are_copied_where_that_is_asked_for() {
    let parts = written_by(&graph(), 1);
    let mut command = node(&parts.path);
    command.arg("--copy-edges");
    assert!(files_of_job(command, &parts.path).iter().all(|files| !maps_edges(files)));
}

#[test]
fn processes_have_a_dataset_that_is_not_partitioned_in_memory_once() {
    let dir = Folder::new();
    let set = dir.join("set");
    let shared = dir.join("tmp");
    std::fs::create_dir(&shared).expect("make a folder");
    export_npy(&graph(), &set).expect("write the dataset");
    let mut command = node(&set);
    command.env("TMPDIR", &shared);
    let processes = files_of_job(command, &shared);
    assert_in_memory_once(&processes);
    for path in processes.iter().flat_map(BTreeMap::keys) {
        assert!(path.to_string_lossy().ends_with(" (deleted)"), "{} has a name still", path.display());
    }
}

//! Smoke tests of the program `bench`, and of the scripts that measure with it, on graphs so small that each benchmark
//! takes seconds.

mod peers;

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_partition::{Method, PartitionOptions, partition};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const BENCH: &str = env!("CARGO_BIN_EXE_bench");

struct Parts {
    dir: TempDir,
    path: PathBuf,
}

fn parts(num_parts: u32) -> Parts {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join(format!("{num_parts}-parts"));
    let graph = fake(&FakeOptions { avg_num_nodes: 200, num_channels: 12, ..FakeOptions::default() });
    let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(num_parts) };
    partition(&graph.expect("a graph"), &options, &path, &()).expect("partition a valid graph");
    Parts { dir, path }
}

/// Runs a benchmark once, and checks the fields that every record must have.
fn records(folder: &Path, args: &[&str]) -> Vec<Value> {
    let json = folder.join("records.json");
    let output = Command::new(BENCH)
        .args(args)
        .args(["--reps=1", "--threads=2", "--array-mib=8", "--json"])
        .arg(&json)
        .output()
        .expect("start bench");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read(&json).expect("read the records");
    let records: Vec<Value> = serde_json::from_slice(&text).expect("the records are a JSON array");
    assert!(!records.is_empty(), "{args:?}");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for record in &records {
        assert_eq!(record["bench"], args[0], "{record}");
        for field in ["median_s", "min_s", "throughput"] {
            assert!(record[field].as_f64() > Some(0.0), "{field} of {record}");
        }
        assert!(record["cpu_s"].is_number() && record["unit"].is_string() && record["params"].is_object(), "{record}");
        assert!(record["machine"]["cores"].as_u64() > Some(0) && record["date"].is_string(), "{record}");
        assert_eq!(record["limit"].is_null(), record["ratio"].is_null(), "{record}");
        assert!(table.contains(record["name"].as_str().expect("a name")), "{record} in {table}");
    }
    records
}

/// Runs a benchmark of batches on one part.
fn batches(name: &str, more: &[&str]) -> Vec<Value> {
    let parts = parts(1);
    let path = parts.path.to_str().expect("a UTF-8 path");
    let args = [&[name, "--data", path, "--num-neighbors=3,2", "--batch-size=16", "--batches=2"], more].concat();
    records(parts.dir.path(), &args)
}

#[test]
fn sampling_is_compared_with_random_reads() {
    let records = batches("sampling", &[]);
    assert_eq!(records[0]["unit"], "edges/s");
    assert!(records[0]["ratio"].as_f64() > Some(0.0));
    assert!(records[0]["details"]["edges_per_batch"].as_f64() > Some(16.0));
}

#[test]
fn layer_neighbor_sampling_has_fewer_nodes() {
    let [labor, neighbor] = [&["--sampler=labor", "--batch-dependency=4"][..], &[]].map(|flags| {
        batches("sampling", flags)[0]["details"]["input_nodes_per_batch"].as_f64().expect("a number of nodes")
    });
    assert!(labor < neighbor, "{labor} nodes instead of {neighbor}");
}

#[test]
fn gathering_is_compared_with_copies() {
    let records = batches("gather", &[]);
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record["ratio"].as_f64() > Some(0.0)));
    assert_eq!(records[0]["details"]["rows_per_batch"], records[1]["details"]["rows_per_batch"]);
}

#[test]
fn caches_save_bytes_and_none_more_than_the_best_rows() {
    let parts = parts(2);
    let path = parts.path.to_str().expect("a UTF-8 path");
    let args = ["cache", "--data", path, "--num-neighbors=3,2", "--batch-size=8", "--ratios=0.2,1"];
    let records = records(parts.dir.path(), &args);
    assert_eq!(records.len(), 10);
    let saved = |record: &Value| record["details"]["bytes_saved"].as_f64().expect("a fraction");
    let (small, whole) = records.split_at(5);
    assert!(small.iter().all(|record| saved(record) > 0.0 && saved(record) < 1.0));
    // A cache of all rows chosen in advance by degree has no misses, and the best rows save everything.
    assert_eq!((saved(&whole[1]), saved(&whole[4])), (1.0, 1.0));
}

#[test]
fn aggregation_runs_on_a_sampled_batch_and_on_a_generated_one() {
    let sampled = batches("aggregation", &["--width=5"]);
    assert!(sampled.iter().any(|record| record["name"] == "gather + scatter, forward + backward"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let generated = records(folder.path(), &["aggregation", "--num-src=80"]);
    assert_eq!(generated[0]["params"]["num_src"], 80);
}

#[test]
fn linear_takes_shapes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = records(folder.path(), &["linear", "--shapes=40x8x16"]);
    assert_eq!(records.len(), 6);
    assert_eq!(records[1]["name"], "dense layer in bf16, forward");
    assert_eq!(records[1]["params"]["outputs"], 16);
}

#[test]
fn steps_run_alone_and_with_batches_overlapped() {
    let records = batches("step", &["--hidden=8"]);
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["params"]["batch_size"], 16);
    let records = batches("step", &["--hidden=8", "--mixed-precision=bf16"]);
    let precisions: Vec<&Value> = records.iter().map(|record| &record["params"]["precision"]).collect();
    assert_eq!(precisions, ["f32", "bf16", "bf16", "bf16"]);
}

#[test]
fn graphs_are_compared_with_a_plain_loop() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = records(folder.path(), &["graphs", "--num-graphs=30", "--batch-size=8", "--hidden=4"]);
    assert_eq!(records.len(), 4);
    assert!(records[1]["ratio"].as_f64() > Some(0.0) && records[3]["ratio"].as_f64() > Some(0.0));
}

#[test]
fn reading_of_tables_is_compared_with_random_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = records(folder.path(), &["tables", "--nodes=500", "--edges=3001"]);
    assert!(records[0]["ratio"].as_f64() > Some(0.0) && records[0]["unit"] == "edges/s");
}

#[test]
fn startup_ends_with_a_batch() {
    assert_eq!(batches("startup", &[]).len(), 3);
}

#[test]
fn a_peer_in_another_process_sends_rows() {
    let parts = parts(2);
    let path = parts.path.to_str().expect("a UTF-8 path");
    let records = records(parts.dir.path(), &["rpc", "--data", path, "--rows=10,20", "--in-flight=1,4"]);
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record["details"]["server_cpu_ms"].as_f64() > Some(0.0)));
}

#[test]
fn batches_come_from_several_ranks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = records(folder.path(), &["many-ranks", "--ranks=4", "--batch-size=16"]);
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record["details"]["requests_per_batch"].as_f64() > Some(0.0)));
}

#[test]
fn two_processes_all_reduce() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = records(folder.path(), &["all-reduce", "--bytes=4096,100000"]);
    assert_eq!(records.len(), 3);
    assert_eq!(records[2]["params"]["bytes"], 100_000);
}

#[test]
fn every_protection_is_compared_with_none() {
    let parts = parts(2);
    let path = parts.path.to_str().expect("a UTF-8 path");
    let records = records(parts.dir.path(), &["protection", "--data", path, "--bytes=4096,300000", "--rows=20"]);
    assert_eq!(records.len(), 9);
    assert_eq!(records[0]["ratio"], 1.0);
    assert_eq!(records[5]["params"]["protection"], "Encrypted");
}

#[test]
fn a_folder_of_the_wrong_number_of_parts_is_named() {
    let parts = parts(2);
    let output = Command::new(BENCH).arg("sampling").arg("--data").arg(&parts.path).output().expect("start bench");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("2 parts") && error.contains("2-parts"), "{error}");
}

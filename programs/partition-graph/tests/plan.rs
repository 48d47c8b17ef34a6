//! Plans against the memory and the files of real runs.

use crate::graphs::json_of;
use crate::table_files::{Folder, one_type};
use edgecut_graph::write_npy;
use edgecut_testing::succeeded;
use serde_json::{Value, json};
use std::process::Command;

/// The factor by which a planned peak may exceed the measured one. It is never below it.
const FACTOR: f64 = 2.0;

fn run(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    json_of(command.args(arguments).arg("--json").env("RAYON_NUM_THREADS", "2").output().unwrap())
}

/// Returns the planned and the measured run.
fn compare(flags: &[&str], memory: &[&str]) {
    let planned = run(&[flags, memory, &["--plan"]].concat());
    let made = run(&[flags, memory].concat());
    let expected = planned["peak_memory_bytes"].as_f64().unwrap();
    let measured = made["peak_anonymous_bytes"].as_f64().unwrap();
    assert!(
        measured <= expected && expected <= FACTOR * measured,
        "planned {expected}, measured {measured}: {flags:?} {memory:?} {planned:#}"
    );
    let expected = planned["output_bytes"].as_f64().unwrap();
    let measured = made["bytes"].as_f64().unwrap();
    assert!((expected / measured - 1.0).abs() < 0.02, "planned {expected}, written {measured}: {flags:?}");
    assert_eq!(planned["method"], made["provenance"]["method"]);
    assert_eq!(planned["phases"].as_array().unwrap().len(), 4);
}

#[test]
fn planned_memory_is_measured_memory_to_within_a_factor() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let options = edgecut_graph::readers::FakeOptions {
        avg_num_nodes: 250_000,
        avg_degree: 30.0,
        num_channels: 8,
        ..edgecut_graph::readers::FakeOptions::default()
    };
    let graph = edgecut_graph::readers::fake(&options).unwrap();
    edgecut_graph::readers::export_npy(&graph, &root.path().join("graph")).unwrap();
    drop(graph);
    let dir = path("graph");
    let out = path("parts");
    let flags = ["--dataset", "graph", "--dataset-dir", &dir, "--output-dir", &out, "--overwrite", "--num-partitions"];
    let of = |more: &[&'static str]| -> Vec<&str> { [&flags[..], more].concat() };
    for method in ["ldg", "random", "metis", "semi-external"] {
        compare(&of(&["2", "--method", method]), &[]);
    }
    for method in ["ldg", "random"] {
        compare(&of(&["4", "--method", method]), &["--memory-limit", "128MiB"]);
    }
    compare(&of(&["4", "--method", "semi-external"]), &["--memory-limit", "512MiB"]);
    compare(&of(&["4", "--feature-dtype", "int8", "--method", "random"]), &["--memory-limit", "96MiB"]);
}

#[test]
fn the_arrays_of_a_generated_graph_are_planned() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("parts");
    let flags = ["--dataset", "fake", "--num-partitions", "2", "--method", "random", "--overwrite", "--output-dir"];
    let flags = [&flags[..], &[out.to_str().unwrap(), "--avg-num-nodes", "250000", "--num-channels", "32"]].concat();
    for more in [&[][..], &["--edge-ids"], &["--edge-ids", "--edge-attributes"]] {
        compare(&[&flags[..], more].concat(), &[]);
    }
    let plans = [&["--plan"][..], &["--plan", "--edge-ids"]].map(|more| run(&[&flags[..], more].concat()));
    let num_edges = plans[0]["num_edges"].as_u64().unwrap();
    assert_eq!(planned_reading(&plans[1]) - planned_reading(&plans[0]), 8 * num_edges);
    let limit = ["--plan", "--memory-limit", "1GiB"];
    let scratch = [&[][..], &["--edge-ids"]].map(|more| {
        let plan = run(&[&flags[..], &limit, more].concat());
        plan["scratch_bytes"].as_u64().unwrap()
    });
    assert!(scratch[1] >= scratch[0] + 8 * num_edges, "{scratch:?}");
}

#[test]
fn a_plan_reads_headers_only_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    // Papers100M's numbers: a run would need 100 GB of disk.
    let sizes = ["--avg-num-nodes", "111059956", "--avg-degree", "29.1", "--num-channels", "128"];
    let flags = ["--dataset", "fake", "--num-partitions", "4", "--root-dir", at, "--plan", "--memory-limit", "32GiB"];
    let plan = run(&[&flags[..], &sizes].concat());
    assert_eq!(plan["num_edges"].as_u64().unwrap() / 1_000_000, 3231);
    assert_eq!(plan["method"], "semi-external");
    assert!(plan["peak_memory_bytes"].as_u64().unwrap() < 32 << 30, "{plan:#}");
    assert!(plan["rank"]["part_bytes"].as_u64().unwrap() > 3_000_000_000, "{plan:#}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

/// Returns the planned memory of reading.
fn planned_reading(plan: &Value) -> u64 {
    assert_eq!(plan["phases"][0]["phase"], "reading");
    plan["phases"][0]["memory_bytes"].as_u64().unwrap()
}

#[test]
fn a_plan_counts_the_splits_of_labeled_edges_and_the_ids_of_edges() {
    const NUM_EDGES: usize = 10_000;
    let folder = Folder::new();
    let arrays = folder.path("arrays");
    std::fs::create_dir_all(&arrays).unwrap();
    write_npy(&arrays.join("edge_index.npy"), &[2, NUM_EDGES], &vec![0_i64; 2 * NUM_EDGES]).unwrap();
    write_npy(&arrays.join("x.npy"), &[1, 1], &[0_f32]).unwrap();
    let dir = arrays.to_str().unwrap();
    let flags = ["--dataset", "g", "--dataset-dir", dir, "--num-partitions", "1", "--memory-limit", "1GiB", "--plan"];
    let plain = run(&flags);
    let without = planned_reading(&plain);
    let numbered = run(&[&flags[..], &["--edge-ids"]].concat());
    let sizes = [&numbered, &plain].map(|plan| plan["output_bytes"].as_u64().unwrap());
    assert_eq!(sizes[0] - sizes[1], 8 * NUM_EDGES as u64);
    write_npy(&arrays.join("edge_label.npy"), &[NUM_EDGES], &vec![0_i64; NUM_EDGES]).unwrap();
    assert_eq!(planned_reading(&run(&flags)) - without, 9 * NUM_EDGES as u64);
}

/// Returns the planned memory of reading with a feature of a column of `n.csv`.
fn planned_for_impute(folder: &Folder, column: &str, impute: &str) -> u64 {
    let feature = json!({"feature_col": column, "impute": impute});
    let conf = one_type(&json!({"features": [feature]}), &json!({}));
    let output = succeeded(folder.with(&conf).run("none", &["--plan"]));
    planned_reading(&serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn a_plan_counts_the_values_whose_rows_are_counted() {
    const NUM_ROWS: usize = 2000;
    let folder = Folder::new();
    let rows = (0..NUM_ROWS).fold("id,x,few\n".to_owned(), |text, row| format!("{text}{row},{row},{}\n", row % 5));
    folder.write("n.csv", rows).write("e.csv", "s,d\n0,1\n");
    for (column, num_counted) in [("x", NUM_ROWS as u64), ("few", 5)] {
        let [with, without] = ["most_frequent", "none"].map(|impute| planned_for_impute(&folder, column, impute));
        assert_eq!(with - without, 200 * num_counted, "{column}");
    }
}

//! Splits of tables by time and by group, splits of arrays without masks, and nodes without labels in splits.

use crate::graphs::json_of;
use crate::table_files::{Folder, one_type, with};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray};
use edgecut_graph::{DiskPartId, EdgeTypeId, Meta, Part, Split, map_npy, write_npy};
use edgecut_testing::{assert_has, succeeded};
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

const NUM_NODES: usize = 100;

/// Writes nodes with labels, days and groups, of which every tenth has no label and no day.
fn write(folder: &Folder, label: &Value) {
    let mut nodes = "id,y,day,group\n".to_owned();
    for node in 0..NUM_NODES {
        let (y, day) = match node % 10 {
            9 => (String::new(), String::new()),
            rest => ((rest % 2).to_string(), format!("2020-01-{:02}", 1 + node * 7 % 30)),
        };
        nodes += &format!("{node},{y},{day},g{}\n", node % 17);
    }
    folder.write("n.csv", nodes);
    folder.write(
        "e.csv",
        (0..NUM_NODES).fold("s,d\n".to_owned(), |text, n| format!("{text}{n},{}\n", n * 3 % NUM_NODES)),
    );
    let of_nodes = json!({"task_type": "classification", "label_col": "y", "split_pct": [0.6, 0.2, 0.2]});
    folder.with(&one_type(&json!({"labels": [with(of_nodes, label)]}), &json!({})));
}

/// Returns the original ids of the nodes of type `n` in each split, ascending.
fn splits(folder: &Folder, out: &str) -> [Vec<u32>; 3] {
    splits_of(folder, out, "n")
}

/// Returns the original ids of the nodes of a type in each split, ascending.
fn splits_of(folder: &Folder, out: &str, node_type: &str) -> [Vec<u32>; 3] {
    let num_parts = Meta::read(&folder.path(out)).unwrap().num_parts;
    ["train", "valid", "test"].map(|split| {
        let mut nodes = Vec::new();
        for part in 0..num_parts {
            let dir = folder.path(&format!("{out}/part_{part}/nodes/{node_type}"));
            let (_, ids) = map_npy::<u32>(&dir.join("original_ids.npy")).unwrap();
            let (_, rows) = map_npy::<u32>(&dir.join(format!("{split}.npy"))).unwrap();
            nodes.extend(rows.iter().map(|&row| ids[row as usize]));
        }
        nodes.sort_unstable();
        nodes
    })
}

#[test]
fn the_earliest_nodes_train() {
    let folder = Folder::new();
    write(&folder, &json!({"split_by": "day"}));
    folder.made("one", &["--num-partitions", "1"]);
    folder.made("three", &["--num-partitions", "3"]);
    assert_eq!(splits(&folder, "one"), splits(&folder, "three"));
    let [train, valid, test] = splits(&folder, "one");
    assert_eq!([train.len(), valid.len(), test.len()], [54, 18, 18]);
    let day = |nodes: &[u32]| {
        let days: Vec<usize> = nodes.iter().map(|&node| node as usize * 7 % 30).collect();
        (*days.iter().min().unwrap(), *days.iter().max().unwrap())
    };
    assert!(day(&train).1 <= day(&valid).0 && day(&valid).1 <= day(&test).0);
    // A day of a labeled node must be known.
    let table = std::fs::read_to_string(folder.path("n.csv")).unwrap();
    folder.write("n.csv", table.replace("\n3,1,2020-01-22,", "\n3,1,,"));
    assert_has(folder.fails(&[]), &["n.csv: row 4: column day: it is missing"]);
    let (made, stderr) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert!(stderr.contains("dropped 1 row of nodes[0] with no value for the split (1.0 % of 100)"), "{stderr}");
    assert!(stderr.contains("dropped 2 rows of edges[0] with an end that was dropped (2.0 % of 100)"), "{stderr}");
    assert_eq!(made["edge_types"][0]["num_edges"], 98);
}

#[test]
fn groups_are_in_one_split() {
    let folder = Folder::new();
    write(&folder, &json!({"split_by_group": "group"}));
    folder.made("out", &[]);
    let groups = splits(&folder, "out").map(|nodes| nodes.into_iter().map(|node| node % 17).collect::<BTreeSet<u32>>());
    assert!(groups.iter().all(|of_split| !of_split.is_empty()));
    let total: usize = groups.iter().map(BTreeSet::len).sum();
    assert_eq!(total, groups.iter().flatten().collect::<BTreeSet<_>>().len());
}

const NUM_GROUPS: usize = 12;

/// Returns the group of a row in one of several spellings.
fn spelled_group(row: usize) -> String {
    let group = row % NUM_GROUPS;
    match row % 5 {
        0 => group.to_string(),
        1 => format!("{group}.0"),
        _ => format!(" {group}.00"),
    }
}

/// Writes rows of nodes with labels and groups.
fn write_groups(folder: &Folder, file: &str, rows: std::ops::Range<usize>, groups: ArrayRef) {
    let ids = Int64Array::from_iter_values(rows.clone().map(|row| row as i64));
    let labels = Int64Array::from_iter_values(rows.map(|row| (row % 2) as i64));
    let columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(ids)), ("y", Arc::new(labels)), ("group", groups)];
    folder.write_parquet(file, Compression::SNAPPY, columns);
}

#[test]
fn all_spellings_of_a_number_are_one_group() {
    let folder = Folder::new();
    for part in 0..5 {
        let rows = part * NUM_GROUPS..(part + 1) * NUM_GROUPS;
        let groups = rows.clone().map(|row| (row % NUM_GROUPS) as i64);
        let whole: ArrayRef = Arc::new(Int64Array::from_iter_values(groups.clone()));
        write_groups(&folder, &format!("whole-{part}.parquet"), rows.clone(), whole.clone());
        let mixed: ArrayRef = match part {
            0 => whole,
            1 => Arc::new(Float64Array::from_iter_values(groups.map(|group| group as f64))),
            2 => Arc::new(StringArray::from_iter_values(rows.clone().map(spelled_group))),
            scale => {
                let unit = 10_i128.pow(scale as u32);
                let decimals = Decimal128Array::from_iter_values(groups.map(|group| i128::from(group) * unit));
                Arc::new(decimals.with_precision_and_scale(20, scale as i8).unwrap())
            }
        };
        write_groups(&folder, &format!("mixed-{part}.parquet"), rows, mixed);
    }
    let mut csv = "id,y,group\n".to_owned();
    for row in 0..5 * NUM_GROUPS {
        csv += &format!("{row},{},{}\n", row % 2, spelled_group(row));
    }
    folder.write("n.csv", csv).write("e.csv", "s,d\n0,1\n");
    for (out, file) in [("whole", "whole-*.parquet"), ("mixed", "mixed-*.parquet"), ("csv", "n.csv")] {
        let label = json!({"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.25, 0.25],
            "split_by_group": "group"});
        folder.with(&one_type(&json!({"files": file, "labels": [label]}), &json!({}))).made(out, &[]);
        assert_eq!(splits(&folder, "whole"), splits(&folder, out), "{out}");
    }
}

#[test]
fn rows_without_a_label_need_no_time_of_a_split() {
    let folder = Folder::new();
    write(&folder, &json!({"split_by": "day"}));
    folder.made("empty", &[]);
    // Node 9 has no label.
    let table = std::fs::read_to_string(folder.path("n.csv")).unwrap();
    folder.write("n.csv", table.replace("\n9,,,", "\n9,,soon,"));
    folder.made("text", &[]);
    assert_eq!(splits(&folder, "empty"), splits(&folder, "text"));
    folder.write("n.csv", table.replace("\n8,0,2020-01-27,", "\n8,0,soon,"));
    assert_has(folder.fails(&[]), &["n.csv: row 9: column day: \"soon\" is not a whole number, or a date"]);
    let (_, stderr) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert!(stderr.contains("dropped 1 row of nodes[0] with no value for the split"), "{stderr}");
}

#[test]
fn edges_are_held_out_by_time() {
    let folder = Folder::new();
    folder.write("e.csv", (0..20).fold("s,d,t\n".to_owned(), |text, n| format!("{text}u{n},v{n},{n}\n")));
    let label = json!({"task_type": "link_prediction", "split_pct": [0.8, 0.1, 0.1], "split_by": "t"});
    let conf = json!({"edges": [{"relation": ["u", "to", "v"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
        "time_col": "t", "labels": [label]}]});
    let (made, _) = folder.with(&conf).made("out", &["--num-partitions", "1"]);
    assert_eq!(made["edge_types"][0]["held_out"], json!([2, 2]));
    let mut times = map_npy::<i64>(&folder.path("out/part_0/edges/u__to__v/times.npy")).unwrap().1.to_vec();
    times.sort_unstable();
    assert_eq!(times, (0..16).collect::<Vec<i64>>());
}

const NUM_EDGES: usize = 90;

/// Returns the day of an edge. The edges without a label have no day in the table.
fn day(edge: usize) -> usize {
    edge * 7 % NUM_EDGES
}

/// Writes edges with labels, days, groups and a season that changes on day 54, as `e.csv` and `e.parquet`. Every ninth label
/// is `unknown`, without a day.
fn write_edges(folder: &Folder) {
    let kinds: Vec<&str> =
        (0..NUM_EDGES).map(|edge| if edge % 9 == 8 { "unknown" } else { ["fraud", "honest"][edge % 2] }).collect();
    let days: Vec<Option<i64>> = (0..NUM_EDGES).map(|edge| (edge % 9 != 8).then_some(day(edge) as i64)).collect();
    let seasons: Vec<&str> = (0..NUM_EDGES).map(|edge| if day(edge) < 54 { "early" } else { "late" }).collect();
    let mut csv = "s,d,n,kind,day,group,season\n".to_owned();
    for edge in 0..NUM_EDGES {
        let day = days[edge].map_or_else(String::new, |day| day.to_string());
        csv += &format!("u{edge},v{},{edge},{},{day},g{},{}\n", edge % 7, kinds[edge], edge % 17, seasons[edge]);
    }
    folder.write("e.csv", csv);
    let texts = |values: Vec<String>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("s", texts((0..NUM_EDGES).map(|edge| format!("u{edge}")).collect())),
        ("d", texts((0..NUM_EDGES).map(|edge| format!("v{}", edge % 7)).collect())),
        ("n", Arc::new(Int64Array::from_iter_values(0..NUM_EDGES as i64))),
        ("kind", Arc::new(StringArray::from(kinds))),
        ("day", Arc::new(Int64Array::from(days))),
        ("group", texts((0..NUM_EDGES).map(|edge| format!("g{}", edge % 17)).collect())),
        ("season", Arc::new(StringArray::from(seasons))),
    ];
    folder.write_parquet("e.parquet", Compression::SNAPPY, columns);
}

/// Writes the configuration of the edges in `file`.
fn write_edge_conf(folder: &Folder, file: &str, split: &Value) {
    let label = json!({"task_type": "classification", "label_col": "kind", "missing_values": ["unknown"],
        "split_pct": [0.6, 0.2, 0.2]});
    let season = json!({"feature_col": "season", "transform": {"name": "frequency"}});
    let conf = json!({"edges": [{"relation": ["u", "pays", "v"], "files": file, "source_id_col": "s", "dest_id_col": "d",
        "features": [{"feature_col": "n"}, season], "labels": [with(label, split)]}]});
    folder.with(&conf);
}

/// Returns the class, the split and the frequency of the season of each edge.
fn labeled_edges(folder: &Folder, out: &str) -> Vec<(i64, Option<Split>, f32)> {
    let mut found = vec![(-2, None, 0.0); NUM_EDGES];
    for part in 0..Meta::read(&folder.path(out)).unwrap().num_parts {
        let part = Part::open(&folder.path(out), DiskPartId(part), true).unwrap();
        let attributes = &part.edges(EdgeTypeId(0)).attributes;
        let labels = attributes.labels.as_ref().unwrap();
        for at in 0..labels.splits.len() {
            let mut row = [0.0; 2];
            attributes.features.as_ref().unwrap().copy_row(at, &mut row);
            let class = labels.values.classes().unwrap()[at];
            found[row[0] as usize] = (class, Split::of_code(labels.splits[at]), row[1]);
        }
    }
    found
}

/// Writes the edges in one and three parts, from CSV and Parquet, with and without a limit of memory, and checks that all of
/// them are the same.
fn labeled_edges_of_all_forms(folder: &Folder, name: &str, split: &Value) -> Vec<(i64, Option<Split>, f32)> {
    let scratch = folder.path("scratch");
    let limit = ["--memory-limit", "512MiB", "--scratch-dir", scratch.to_str().unwrap()];
    let mut first = None;
    for parts in ["1", "3"] {
        for (run, file, more) in
            [("csv", "e.csv", &[][..]), ("parquet", "e.parquet", &[]), ("limit", "e.parquet", &limit)]
        {
            write_edge_conf(folder, file, split);
            let out = format!("{name}-{parts}-{run}");
            folder.made(&out, &[&["--num-partitions", parts], more].concat());
            let found = labeled_edges(folder, &out);
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{out}");
        }
    }
    first.unwrap()
}

#[test]
fn labeled_edges_are_split_by_time() {
    let folder = Folder::new();
    write_edges(&folder);
    let edges = labeled_edges_of_all_forms(&folder, "time", &json!({"split_by": "day"}));
    for (edge, &(class, split, frequency)) in edges.iter().enumerate() {
        if edge % 9 == 8 {
            assert_eq!((class, split), (-1, None), "edge {edge}");
        } else {
            // 48 of 80 labeled edges are before day 54.
            let expected = match day(edge) {
                0..54 => Split::Train,
                54..72 => Split::Valid,
                _ => Split::Test,
            };
            assert_eq!((class, split), (edge as i64 % 2, Some(expected)), "edge {edge}");
        }
        // Training edges have no late season.
        assert_eq!(frequency, if day(edge) < 54 { 1.0 } else { 0.0 }, "edge {edge}");
    }
    // A day of a labeled edge must be known.
    let table = std::fs::read_to_string(folder.path("e.csv")).unwrap();
    folder.write("e.csv", table.replace("u3,v3,3,honest,21,", "u3,v3,3,honest,,"));
    write_edge_conf(&folder, "e.csv", &json!({"split_by": "day"}));
    assert_has(folder.fails(&[]), &["e.csv: row 4: column day: it is missing"]);
    let (made, stderr) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert!(stderr.contains("dropped 1 row of edges[0] with no value for the split"), "{stderr}");
    assert_eq!(made["edge_types"][0]["labels"], json!({"num_classes": 2, "split_sizes": [47, 15, 15]}));
}

#[test]
fn labeled_edges_of_a_group_are_in_one_split() {
    let folder = Folder::new();
    write_edges(&folder);
    let edges = labeled_edges_of_all_forms(&folder, "group", &json!({"split_by_group": "group"}));
    let groups = Split::ALL.map(|split| {
        let of_split = (0..NUM_EDGES).filter(|&edge| edges[edge].1 == Some(split));
        of_split.map(|edge| edge % 17).collect::<BTreeSet<usize>>()
    });
    assert!(groups.iter().all(|of_split| !of_split.is_empty()));
    let total: usize = groups.iter().map(BTreeSet::len).sum();
    assert_eq!(total, groups.iter().flatten().collect::<BTreeSet<_>>().len());
    assert!((0..NUM_EDGES).all(|edge| edge % 9 != 8 || edges[edge].1.is_none()));
}

#[test]
fn listed_nodes_without_a_label_are_in_no_split() {
    let folder = Folder::new();
    for (split, said) in [
        ("train", "1 of 3 train nodes have no label: they do not train"),
        ("valid", "1 of 3 valid nodes have no label: they are not evaluated"),
        ("test", "1 of 3 test nodes have no label: they are not evaluated"),
    ] {
        write(&folder, &json!({"custom_split_filenames": {split: "list.json"}}));
        folder.write("list.json", "1\n2\n9\n");
        let (made, stderr) = folder.made(split, &[]);
        let sizes: u64 =
            made["node_types"][0]["split_sizes"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        assert_eq!(sizes, 2, "{split}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn arrays_without_masks_are_divided_by_a_flag() {
    let folder = Folder::new();
    let arrays = folder.path("arrays");
    std::fs::create_dir_all(&arrays).unwrap();
    let ends: Vec<i64> = (0..60).map(|at| at * 7 % 30).collect();
    write_npy(&arrays.join("edge_index.npy"), &[2, 30], &ends).unwrap();
    write_npy(&arrays.join("y.npy"), &[30], &(0..30).map(|node| node % 3).collect::<Vec<i64>>()).unwrap();
    write_npy(&arrays.join("node_time.npy"), &[30], &(0..30).rev().collect::<Vec<i64>>()).unwrap();
    let run = |out: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
        command
            .args(["--dataset", "g", "--num-partitions", "2", "--to-undirected", "--json", "--dataset-dir"])
            .arg(&arrays);
        command.arg("--output-dir").arg(folder.path(out)).args(more).output().unwrap()
    };
    let output = run("none", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no node is in a split") && stderr.contains("--split-nodes 0.8,0.1,0.1"), "{stderr}");
    for (out, flag, more) in [
        ("random", "0.6,0.2,0.2,7", &[][..]),
        ("seeded", "0.6,0.2,0.2", &["--seed", "7"]),
        ("other", "0.6,0.2,0.2", &["--seed", "8"]),
        ("given", "0.6,0.2,0.2,7", &["--seed", "8"]),
        ("time", "by-time:0.6,0.2,0.2", &[]),
    ] {
        let made = json_of(run(out, &[&["--split-nodes", flag], more].concat()));
        assert_eq!(made["node_types"][0]["split_sizes"], json!([18, 6, 6]), "{out}");
        edgecut_partition::verify(&folder.path(out)).unwrap();
        succeeded(run("unused", &["--split-nodes", flag, "--plan"]));
    }
    // The last nodes are the earliest.
    assert_eq!(
        splits_of(&folder, "time", "node"),
        [(12..30).collect(), (6..12).collect(), (0..6).collect::<Vec<u32>>()]
    );
    let [random, seeded, given, other] =
        ["random", "seeded", "given", "other"].map(|out| splits_of(&folder, out, "node"));
    assert!(random == seeded && random == given && random != other);
    let output = run("twice", &["--split-nodes", "0.6,0.2"]);
    assert_eq!(output.status.code(), Some(2));
    write_npy(&arrays.join("train_idx.npy"), &[1], &[0_i64]).unwrap();
    let output = run("twice", &["--split-nodes", "0.6,0.2,0.2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("are in splits already: leave out --split-nodes or their masks"), "{stderr}");
    assert!(!folder.path("twice").exists());
}

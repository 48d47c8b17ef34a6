//! Splits of tables by time and by group, splits of arrays without masks, and nodes without labels in splits.

use crate::table_files::Folder;
use edgecut_graph::{Meta, map_npy, write_npy};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

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
    let mut of_nodes = json!({"task_type": "classification", "label_col": "y", "split_pct": [0.6, 0.2, 0.2]});
    of_nodes.as_object_mut().unwrap().extend(label.as_object().unwrap().clone());
    let conf = json!({
        "nodes": [{"node_type": "n", "node_id_col": "id", "files": "n.csv", "labels": [of_nodes]}],
        "edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"}]
    });
    folder.write("graph.json", conf.to_string());
}

/// Returns the original ids of the nodes in each split, ascending.
fn splits(folder: &Folder, out: &str) -> [Vec<u32>; 3] {
    let num_parts = Meta::read(&folder.path(out)).unwrap().num_parts;
    ["train", "valid", "test"].map(|split| {
        let mut nodes = Vec::new();
        for part in 0..num_parts {
            let dir = folder.path(&format!("{out}/part_{part}/nodes/n"));
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
    let error = folder.fails(&[]);
    assert!(error.contains("n.csv: row 4: column day: it is missing"), "{error}");
    let (made, stderr) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert!(stderr.contains("dropped 1 rows of nodes[0] with no value for the split (1.0 % of 100)"), "{stderr}");
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

#[test]
fn edges_are_held_out_by_time() {
    let folder = Folder::new();
    folder.write("e.csv", (0..20).fold("s,d,t\n".to_owned(), |text, n| format!("{text}u{n},v{n},{n}\n")));
    let label = json!({"task_type": "link_prediction", "split_pct": [0.8, 0.1, 0.1], "split_by": "t"});
    let conf = json!({"edges": [{"relation": ["u", "to", "v"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d",
        "time_col": "t", "labels": [label]}]});
    folder.write("graph.json", conf.to_string());
    let (made, _) = folder.made("out", &["--num-partitions", "1"]);
    assert_eq!(made["edge_types"][0]["held_out"], json!([2, 2]));
    let mut times = map_npy::<i64>(&folder.path("out/part_0/edges/u__to__v/times.npy")).unwrap().1.to_vec();
    times.sort_unstable();
    assert_eq!(times, (0..16).collect::<Vec<i64>>());
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
    for (out, flag) in [("random", "0.6,0.2,0.2,7"), ("time", "by-time:0.6,0.2,0.2")] {
        let output = run(out, &["--split-nodes", flag]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(made["node_types"][0]["split_sizes"], json!([18, 6, 6]), "{out}");
        edgecut_partition::verify(&folder.path(out)).unwrap();
        let planned = run("unused", &["--split-nodes", flag, "--plan"]);
        assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    }
    let output = run("twice", &["--split-nodes", "0.6,0.2"]);
    assert_eq!(output.status.code(), Some(2));
    write_npy(&arrays.join("train_idx.npy"), &[1], &[0_i64]).unwrap();
    let output = run("twice", &["--split-nodes", "0.6,0.2,0.2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("are in splits already: leave out --split-nodes or their masks"), "{stderr}");
    assert!(!folder.path("twice").exists());
}

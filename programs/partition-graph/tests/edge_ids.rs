//! Edges keep the ids that they have in their table: in parts, in reverse types and in updates.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::table_files::{Folder, contents, with};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use edgecut_graph::{DiskPartId, EdgeTypeId, Meta, Part};
use edgecut_testing::{assert_has, succeeded};
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;

const NUM_EDGES: usize = 300;

/// Returns the source, the destination and the id of an edge. Several edges have the same ends.
fn edge(n: usize) -> (String, String, String) {
    (format!("u{}", n * 7 % 40), format!("v{}", n * 11 % 8), format!("pay {}", 5 * n))
}

fn write_conf(folder: &Folder, files: &str, id_col: Option<&str>, more: Value) {
    let mut table = json!({"relation": ["u", "pays", "v"], "files": files, "source_id_col": "s", "dest_id_col": "t",
        "features": [{"feature_col": "n"}]});
    if let Some(id_col) = id_col {
        table["edge_id_col"] = id_col.into();
    }
    folder.with(&with(json!({"edges": [table]}), &more));
}

/// Writes the table of edges, with ids that are texts.
fn write_edges(folder: &Folder) {
    let mut text = "s,t,n,payment\n".to_owned();
    for n in 0..NUM_EDGES {
        let (src, dst, id) = edge(n);
        text += &format!("{src},{dst},{n},{id}\n");
    }
    folder.write("edges.csv", text);
}

/// Returns the ids of the edges of a type in all parts, by the number in their feature.
fn ids(folder: &Folder, out: &str, edge_type: u16) -> BTreeMap<usize, Vec<String>> {
    let num_parts = Meta::read(&folder.path(out)).unwrap().num_parts;
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for part in 0..num_parts {
        let part = Part::open(&folder.path(out), DiskPartId(part), true).unwrap();
        let attributes = &part.edges(EdgeTypeId(edge_type)).attributes;
        let ids = attributes.ids.as_ref().unwrap();
        for at in 0..ids.len() {
            let mut number = [0.0];
            attributes.features.as_ref().unwrap().copy_row(at, &mut number);
            found.entry(number[0] as usize).or_default().push(ids.get(at).to_string());
        }
    }
    found
}

/// Returns the version of parts.
fn version(folder: &Folder, out: &str) -> u32 {
    Meta::read(&folder.path(out)).unwrap().version
}

/// Returns the ids of all edges, each of which is stored `count` times.
fn expected(count: usize) -> BTreeMap<usize, Vec<String>> {
    (0..NUM_EDGES).map(|n| (n, vec![edge(n).2; count])).collect()
}

#[test]
fn edges_and_their_reverses_have_the_ids_of_the_table() {
    let folder = Folder::new();
    write_edges(&folder);
    write_conf(&folder, "edges.csv", Some("payment"), json!({}));
    for num_parts in ["1", "3"] {
        let flags = ["--num-partitions", num_parts, "--add-reverse-edges"];
        let (made, _) = folder.made(num_parts, &flags);
        assert_eq!((version(&folder, num_parts), &made["edge_types"][0]["ids"]), (4, &json!("texts")));
        assert_eq!([0, 1].map(|edge_type| ids(&folder, num_parts, edge_type)), [expected(1), expected(1)]);
        let limited = format!("limited-{num_parts}");
        folder.made(&limited, &[&flags[..], &["--memory-limit", "1GiB"]].concat());
        let [limited, parts] = [&limited[..], num_parts].map(|out| contents(&folder.path(out)));
        assert!(limited == parts, "a limit of memory does not matter");
    }
    // Parquet files with numbers.
    let all: Vec<(String, String, String)> = (0..NUM_EDGES).map(edge).collect();
    let numbers: Vec<i64> = (0..NUM_EDGES as i64).collect();
    let columns = vec![
        ("s", Arc::new(StringArray::from_iter_values(all.iter().map(|edge| &edge.0))) as ArrayRef),
        ("t", Arc::new(StringArray::from_iter_values(all.iter().map(|edge| &edge.1)))),
        ("n", Arc::new(Int64Array::from(numbers.clone()))),
        ("payment", Arc::new(Int64Array::from_iter_values(numbers.iter().map(|n| 1000 - 3 * n)))),
    ];
    folder.write_parquet("edges.parquet", Compression::SNAPPY, columns);
    write_conf(&folder, "edges.parquet", Some("payment"), json!({}));
    let (made, _) = folder.made("numbers", &[]);
    assert_eq!(made["edge_types"][0]["ids"], "numbers");
    assert!(ids(&folder, "numbers", 0).iter().all(|(&n, ids)| ids[..] == [(1000 - 3 * n as i64).to_string()]));
}

#[test]
fn parts_without_ids_are_those_of_earlier_versions() {
    let folder = Folder::new();
    write_edges(&folder);
    write_conf(&folder, "edges.csv", None, json!({}));
    let (made, _) = folder.made("plain", &[]);
    assert_eq!((version(&folder, "plain"), made["edge_types"][0].get("ids")), (2, None));
    assert!(contents(&folder.path("plain")).keys().all(|name| !(name.contains("/edges/") && name.contains("/id"))));
}

#[test]
fn both_directions_of_an_undirected_edge_have_its_id() {
    let folder = Folder::new();
    // No two edges join the same nodes.
    let rows = (0..NUM_EDGES).map(|n| format!("{},{},{n},{}\n", n % 40, 40 + n / 8, edge(n).2));
    folder.write("edges.csv", rows.fold("s,t,n,payment\n".to_owned(), |text, row| text + &row));
    let table = json!({"relation": ["u", "pays", "u"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t",
        "edge_id_col": "payment", "features": [{"feature_col": "n"}]});
    folder.with(&json!({"edges": [table]})).made("parts", &["--to-undirected"]);
    assert_eq!(ids(&folder, "parts", 0), expected(2));
}

#[test]
fn training_edges_keep_their_ids_when_others_are_held_out() {
    let folder = Folder::new();
    write_edges(&folder);
    write_conf(&folder, "edges.csv", Some("payment"), json!({}));
    folder.made("parts", &["--hold-out-edges", "0.1,0.2", "--add-reverse-edges"]);
    for edge_type in [0, 1] {
        let found = ids(&folder, "parts", edge_type);
        assert!((100..NUM_EDGES).contains(&found.len()) && found.iter().all(|(&n, ids)| ids[..] == [edge(n).2]));
    }
}

#[test]
fn ids_that_repeat_or_are_missing_are_errors() {
    let folder = Folder::new();
    write_conf(&folder, "edges.csv", Some("payment"), json!({}));
    folder.write("edges.csv", "s,t,n,payment\na,x,0,p7\nb,y,1,p8\na,y,2,p7\n");
    let error = folder.fails(&[]);
    for text in ["edges.csv: row 3", "column payment: the id p7 of u__pays__v is also in an earlier row"] {
        assert!(error.contains(text), "{error}");
    }
    folder.write("edges.csv", "s,t,n,payment\na,x,0,7\nb,y,1,\nc,y,2,7\na,y,3,007\n");
    assert!(folder.fails(&[]).contains("edges.csv: row 2: column payment"));
    let (_, stderr) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert!(stderr.contains("with the id of an earlier row") && stderr.contains("with no id"), "{stderr}");
    let expected = [(0, "7"), (3, "007")].map(|(n, id)| (n, vec![id.to_owned()]));
    assert_eq!(ids(&folder, "dropped", 0), BTreeMap::from(expected));
    folder.write(
        "graph.json",
        json!({"edges": [{"relation": ["u", "pays", "v"], "files": "edges.csv",
        "edge_id_col": "payment"}]})
        .to_string(),
    );
    assert!(folder.fails(&[]).contains("a table with edge_id_col needs source_id_col and dest_id_col"));
}

fn update(folder: &Folder) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command.arg("update").arg(folder.path("parts")).arg("--conf").arg(folder.path("graph.json"));
    command.arg("--output-dir").arg(folder.path("updated")).arg("--overwrite").output().unwrap()
}

fn error_of(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn updates_carry_and_extend_the_ids() {
    let folder = Folder::new();
    write_edges(&folder);
    write_conf(&folder, "edges.csv", Some("payment"), json!({}));
    folder.made("parts", &["--num-partitions", "3", "--add-reverse-edges"]);
    // Edges between two nodes are removed together.
    let (src, dst, _) = edge(3);
    let removed: Vec<usize> = (0..NUM_EDGES).filter(|&n| edge(n).0 == src && edge(n).1 == dst).collect();
    folder.write("removed.csv", format!("s,t\n{src},{dst}\n"));
    let removed_edges = json!({"removed_edges": [{"relation": ["u", "pays", "v"], "files": "removed.csv",
        "source_id_col": "s", "dest_id_col": "t"}]});
    // The id of a removed edge is free. A number among texts is a text.
    let id = edge(removed[0]).2;
    folder.write("new.csv", format!("s,t,n,payment\nu1,v1,900,{id}\nnew,v2,901,17\n"));
    write_conf(&folder, "new.csv", Some("payment"), removed_edges);
    succeeded(update(&folder));
    let mut expected = expected(1);
    removed.iter().for_each(|n| assert!(expected.remove(n).is_some()));
    expected.extend([(900, vec![id]), (901, vec!["17".to_owned()])]);
    assert_eq!([0, 1].map(|edge_type| ids(&folder, "updated", edge_type)), [expected.clone(), expected]);
    assert_eq!(version(&folder, "updated"), 4);

    let id = edge(20).2;
    folder.write("new.csv", format!("s,t,n,payment\nu1,v1,900,{id}\n"));
    write_conf(&folder, "new.csv", Some("payment"), json!({}));
    let error = error_of(&update(&folder));
    assert!(error.contains(&format!("u__pays__v: an added edge has the id {id}, which another edge has")), "{error}");
    write_conf(&folder, "new.csv", None, json!({}));
    assert_has(error_of(&update(&folder)), &["u__pays__v: the tables have no ids of edges, but the parts have some"]);
}

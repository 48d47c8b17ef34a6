//! `--edge-ids`: edges keep their positions in the dataset, in parts, in reverse types and in updates.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::corruption::edit_meta;
use crate::table_files::{Folder, contents};
use edgecut_graph::{DiskPartId, EdgeIds, EdgeTypeId, Meta, Part, checksum, write_npy};
use edgecut_testing::{assert_has, succeeded};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

const NUM_NODES: usize = 40;
const NUM_EDGES: usize = 320;

/// An edge in original ids: its source and its destination.
type Ends = [u32; 2];

/// Returns the ends of the edge at a position. Several edges have the same ends.
fn edge(position: usize) -> Ends {
    [position * 7 % NUM_NODES, (position * 11 + position / 80) % NUM_NODES].map(|node| node as u32)
}

/// Returns all edges with their positions.
fn all_edges() -> Vec<(Ends, i64)> {
    (0..NUM_EDGES).map(|position| (edge(position), position as i64)).collect()
}

fn write_edges(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let ends = [0, 1].map(|end| (0..NUM_EDGES).map(|position| i64::from(edge(position)[end])).collect::<Vec<_>>());
    write_npy(&dir.join("edge_index.npy"), &[2, NUM_EDGES], &ends.concat()).unwrap();
}

fn write_num_nodes(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    write_npy(&dir.join("num_nodes.npy"), &[1], &[NUM_NODES as i64]).unwrap();
}

/// Writes a dataset with one type.
fn homogeneous() -> Folder {
    let folder = Folder::new();
    write_edges(&folder.path("graph"));
    write_num_nodes(&folder.path("graph"));
    folder
}

/// Writes a dataset with the types `u` and `v`, and an edge type between them.
fn typed() -> Folder {
    let folder = Folder::new();
    write_edges(&folder.path("graph/edges/u__pays__v"));
    write_num_nodes(&folder.path("graph/nodes/u"));
    write_num_nodes(&folder.path("graph/nodes/v"));
    folder
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_partition-graph"))
}

/// Partitions the dataset with `--edge-ids`, and verifies the parts.
fn partition(folder: &Folder, out: &str, num_parts: &str, more: &[&str]) {
    let mut command = program();
    command.args(["--dataset", "graph", "--method", "random", "--edge-ids", "--num-partitions", num_parts]);
    command.arg("--dataset-dir").arg(folder.path("graph")).arg("--output-dir").arg(folder.path(out)).args(more);
    succeeded(command.output().unwrap());
    succeeded(program().arg("verify").arg(folder.path(out)).output().unwrap());
    let meta = Meta::read(&folder.path(out)).unwrap();
    assert!(meta.provenance.edge_ids && meta.version == 4);
}

/// Returns all edges of a type in parts, with their ids, in the order of the ids.
fn stored(folder: &Folder, out: &str, edge_type: u16) -> Vec<(Ends, i64)> {
    let dir = folder.path(out);
    let num_parts = Meta::read(&dir).unwrap().num_parts;
    let parts: Vec<Part> = (0..num_parts).map(|part| Part::open(&dir, DiskPartId(part), true).unwrap()).collect();
    let mut found = Vec::new();
    for part in &parts {
        let edges = part.edges(EdgeTypeId(edge_type));
        let Some(EdgeIds::Numbers(ids)) = &edges.attributes.ids else { panic!("edges without numbers") };
        let sources: Vec<u32> =
            parts.iter().flat_map(|part| part.nodes(edges.src_type).original_ids.to_vec()).collect();
        for row in 0..edges.csc.num_rows() {
            let destination = part.nodes(edges.dst_type).original_ids[row];
            let first = edges.csc.indptr()[row] as usize;
            for (at, &source) in (first..).zip(edges.csc.neighbors(row)) {
                found.push(([sources[source as usize], destination], ids[at]));
            }
        }
    }
    found.sort_by_key(|edge| edge.1);
    found
}

/// Returns the ids of the edges of the only part, in their order.
fn stored_ids(folder: &Folder) -> Vec<i64> {
    let part = Part::open(&folder.path("parts"), DiskPartId(0), true).unwrap();
    let Some(EdgeIds::Numbers(ids)) = &part.edges(EdgeTypeId(0)).attributes.ids else {
        panic!("edges without numbers")
    };
    ids.to_vec()
}

#[test]
fn edges_have_their_positions_in_any_number_of_parts() {
    let folder = homogeneous();
    for num_parts in ["1", "3"] {
        partition(&folder, num_parts, num_parts, &[]);
        assert_eq!(stored(&folder, num_parts, 0), all_edges());
        let limited = format!("limited-{num_parts}");
        partition(&folder, &limited, num_parts, &["--memory-limit", "1GiB"]);
        let [limited, parts] = [&limited[..], num_parts].map(|out| contents(&folder.path(out)));
        assert!(limited == parts, "a limit of memory does not matter");
    }
}

#[test]
fn an_added_reverse_has_the_position_of_its_edge() {
    let folder = homogeneous();
    // An edge of the dataset keeps its own position, and of parallel edges the first stays.
    let mut expected: BTreeMap<Ends, i64> = BTreeMap::new();
    for (ends, position) in all_edges() {
        expected.entry(ends).or_insert(position);
    }
    for ([src, dst], position) in all_edges() {
        expected.entry([dst, src]).or_insert(position);
    }
    for (out, more) in
        [("parts", &["--to-undirected"][..]), ("limited", &["--to-undirected", "--memory-limit", "1GiB"])]
    {
        partition(&folder, out, "3", more);
        let found = stored(&folder, out, 0);
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), expected);
    }

    let folder = typed();
    for num_parts in ["1", "3"] {
        partition(&folder, num_parts, num_parts, &["--add-reverse-edges"]);
        assert_eq!(stored(&folder, num_parts, 0), all_edges());
        let reversed: Vec<(Ends, i64)> = all_edges().into_iter().map(|([src, dst], at)| ([dst, src], at)).collect();
        assert_eq!(stored(&folder, num_parts, 1), reversed);
    }
}

#[test]
fn positions_count_held_out_edges() {
    let folder = homogeneous();
    partition(&folder, "parts", "2", &["--hold-out-edges", "0.1,0.2"]);
    let found = stored(&folder, "parts", 0);
    assert!((NUM_EDGES / 2..NUM_EDGES).contains(&found.len()), "{}", found.len());
    assert!(found.iter().all(|&(ends, position)| ends == edge(position as usize)));
    assert_eq!(found.iter().map(|edge| edge.1).collect::<BTreeSet<_>>().len(), found.len());
}

fn update(folder: &Folder, conf: &Value) -> Output {
    folder.with(conf);
    let mut command = program();
    command.arg("update").arg(folder.path("parts")).arg("--conf").arg(folder.path("graph.json"));
    command.arg("--output-dir").arg(folder.path("updated")).output().unwrap()
}

#[test]
fn an_update_removes_edges_and_refuses_to_add_any() {
    let folder = typed();
    partition(&folder, "parts", "3", &["--add-reverse-edges"]);
    let table =
        |file: &str| json!([{"relation": ["u", "pays", "v"], "files": file, "source_id_col": "s", "dest_id_col": "t"}]);
    let removed = edge(5);
    folder.write("edges.csv", format!("s,t\n{},{}\n", removed[0], removed[1]));
    let output = update(&folder, &json!({"edges": table("edges.csv")}));
    assert!(!output.status.success() && !folder.path("updated").exists());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_has(stderr, &["u__pays__v: the ids of its edges are their positions in the dataset (--edge-ids)"]);

    succeeded(update(&folder, &json!({"removed_edges": table("edges.csv")})));
    let kept: Vec<(Ends, i64)> = all_edges().into_iter().filter(|edge| edge.0 != removed).collect();
    assert_eq!(kept.len(), NUM_EDGES - 2);
    assert_eq!(stored(&folder, "updated", 0), kept);
    assert!(Meta::read(&folder.path("updated")).unwrap().provenance.edge_ids);
}

/// The order of edges in parts is sorted by ends, so only the check of all ids finds a position of another edge.
#[test]
fn parts_with_a_negative_or_repeated_position_are_not_valid() {
    for (position, why) in [(-1, "is -1, but it is a position"), (7, "has the id 7, which another edge has as well")] {
        let folder = homogeneous();
        partition(&folder, "parts", "1", &[]);
        let file = "part_0/edges/node__to__node/ids.npy";
        let path = folder.path("parts").join(file);
        let mut ids = stored_ids(&folder);
        let changed = ids.iter().position(|&id| id == 9).unwrap();
        ids[changed] = position;
        write_npy(&path, &[NUM_EDGES], &ids).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        edit_meta(&folder.path("parts"), |meta| {
            meta["files"][file] = json!({"bytes": bytes.len(), "xxh3": checksum(&bytes)});
        });
        let output = program().arg("verify").arg(folder.path("parts")).output().unwrap();
        assert!(!output.status.success());
        assert_has(String::from_utf8(output.stderr).unwrap(), &["ids.npy", why]);
    }
}

#[test]
fn tables_and_other_parts_have_no_positions() {
    let folder = homogeneous();
    let mut command = program();
    command
        .args(["--dataset", "graph", "--num-partitions", "2", "--edge-ids", "--conf"])
        .arg(folder.path("graph.json"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_has(String::from_utf8(output.stderr).unwrap(), &["--edge-ids", "--conf"]);
    let mut command = program();
    command.args(["--dataset", "graph", "--num-partitions", "2", "--dataset-dir"]).arg(folder.path("graph"));
    succeeded(command.arg("--output-dir").arg(folder.path("plain")).output().unwrap());
    let meta = Meta::read(&folder.path("plain")).unwrap();
    assert!(!meta.provenance.edge_ids && meta.edge_types[0].ids.is_none() && meta.version == 2);
}

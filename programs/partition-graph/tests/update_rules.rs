//! `partition-graph update`: the rows, types and files that it accepts, and its counts.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::corruption::edit_meta;
use crate::table_files::{Folder, arrays, contents, one_type, with};
use crate::updates::{edges_conf, partition, program, update, updated};
use edgecut_graph::{DiskPartId, Meta, Part, checksum};
use edgecut_tables::IdMaps;
use edgecut_testing::{assert_has, names};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Makes parts of two tables, and returns the folder and the configuration.
pub(crate) fn small_parts(more: &[&str]) -> (Folder, Value) {
    let folder = Folder::of(&[("n.csv", "id,x,y\na,1,red\nb,2,blue\nc,3,red\nd,4,blue\n")]);
    folder.write("e.csv", "s,d,w\na,b,1\nb,c,2\nc,d,3\n");
    let label = json!({"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.25, 0.25]});
    let of_nodes = json!({"features": [{"feature_col": "x"}], "labels": [label]});
    let conf = one_type(&of_nodes, &json!({"weight_col": "w"}));
    partition(folder.with(&conf), "graph.json", "parts", more);
    (folder, conf)
}

/// Updates parts, which must fail and leave them as they were, and returns the error.
pub(crate) fn fails(folder: &Folder, conf: &Value) -> String {
    folder.write("new.json", conf.to_string());
    let before = contents(&folder.path("parts"));
    let output = update(folder, "parts", "new.json", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(contents(&folder.path("parts")) == before, "{stderr}");
    let left = names(&folder.path(""));
    assert!(!left.iter().any(|name| name.contains(".partial")), "{left:?}");
    stderr
}

#[test]
fn tables_that_do_not_fit_the_parts_are_errors() {
    let (folder, conf) = small_parts(&[]);
    folder.write("n.csv", "id,x,y,z\ne,5,red,0\n").write("e.csv", "s,d,w\na,e,1\n").write("unknown.csv", "id\nq\n");
    folder.write("pairs.csv", "s,d\nb,a\n");
    for (expected, change) in [
        (
            "the features of n are z (no-op), but those of transforms.json are x",
            &(|conf: &mut Value| conf["nodes"][0]["features"][0]["feature_col"] = "z".into()) as &dyn Fn(&mut Value),
        ),
        ("the features of n are x (z_score)", &|conf| {
            conf["nodes"][0]["features"][0]["transform"] = json!({"name": "z_score"});
        }),
        ("nodes[0].node_type: the parts have no node type m", &|conf| conf["nodes"][0]["node_type"] = "m".into()),
        ("edges[0].relation: the parts have no edge type n__too__n (did you mean n__to__n?)", &|conf| {
            conf["edges"][0]["relation"] = json!(["n", "too", "n"]);
        }),
        ("the nodes of type n have ids in the parts: set node_id_col", &|conf| {
            conf["nodes"][0].as_object_mut().unwrap().remove("node_id_col");
        }),
        ("the tables have no weights, but the parts have some", &|conf| {
            conf["edges"][0].as_object_mut().unwrap().remove("weight_col");
        }),
        ("the tables have times, but the parts have none", &|conf| conf["edges"][0]["time_col"] = "w".into()),
        ("removed_nodes[0].node_type: the parts have no node type m", &|conf| {
            conf["removed_nodes"] = json!([{"node_type": "m", "files": "unknown.csv", "node_id_col": "id"}]);
        }),
        ("there is no n with the id q", &|conf| {
            conf["removed_nodes"] = json!([{"node_type": "n", "files": "unknown.csv", "node_id_col": "id"}]);
        }),
        ("removed_edges[0]: 1 edge does not exist, such as n__to__n from b to a", &|conf| {
            conf["removed_edges"] = json!([{"relation": ["n", "to", "n"], "files": "pairs.csv", "source_id_col": "s",
                                            "dest_id_col": "d"}]);
        }),
        ("removed_node: unknown key (did you mean removed_nodes?)", &|conf| conf["removed_node"] = json!([])),
    ] {
        let mut changed = conf.clone();
        change(&mut changed);
        let error = fails(&folder, &changed);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for (file, content, expected) in [
        ("n.csv", "id,x,y\ne,5,green\n", "the label \"green\" is not one of the known classes"),
        ("n.csv", "id,x,y\na,5,red\na,6,red\n", "the id a of n is also in an earlier row"),
        ("n.csv", "id,x,y\ne,5,red\ne,5,red\n", "the id e of n is also in an earlier row"),
        ("e.csv", "s,d,w\na,zz,1\n", "there is no n with the id zz"),
    ] {
        let before = std::fs::read(folder.path(file)).unwrap();
        folder.write(file, content);
        let error = fails(&folder, &conf);
        assert!(error.contains(expected), "{expected}: {error}");
        folder.write(file, before);
    }
}

/// The parts keep parameters that need no fit.
#[test]
fn other_parameters_than_those_of_the_parts_are_errors() {
    let features = json!([
        {"feature_col": "x", "feature_name": "fill", "impute": "constant", "fill_value": 5},
        {"feature_col": "x", "feature_name": "scaled", "transform": {"name": "max_min_norm", "max_val": 10, "max_bound": 9}},
        {"feature_col": "x", "feature_name": "shifted", "transform": {"name": "log", "offset": 2}},
        {"feature_col": "x", "feature_name": "clipped", "transform": {"name": "clip", "max": 3}},
        {"feature_col": "y", "feature_name": "one", "transform": {"name": "to_categorical", "mapping": {"red": 0, "blue": 1}}},
        {"feature_col": "y", "feature_name": "two", "transform": {"name": "hash_buckets", "buckets": 4}},
        {"feature_col": "x", "feature_name": "age", "transform": {"name": "date", "epoch": "s", "reference": "2024-01-01"}},
        {"feature_col": "x", "feature_name": "rank", "transform": {"name": "rank_gauss", "epsilon": 0.1}},
        {"feature_col": "x", "feature_name": "spread", "transform": {"name": "z_score"}}
    ]);
    let (folder, mut conf) = small_parts(&[]);
    std::fs::remove_dir_all(folder.path("parts")).unwrap();
    conf["nodes"][0]["features"] = features;
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    folder.write("n.csv", "id,x,y\ne,5,red\n").write("e.csv", "s,d,w\na,e,1\n");
    for (at, key, value, expected) in [
        (0, "fill_value", json!(6), "fill: fill_value is [6.0], but [5.0] in transforms.json"),
        (1, "max_val", json!(20), "scaled: max_val is [20.0], but [10.0] in transforms.json"),
        (1, "min_val", json!(0), "scaled: min_val is [0.0], but [1.0] in transforms.json"),
        (2, "offset", json!(1), "shifted: offset is 1.0, but 2.0 in transforms.json"),
        (3, "max", json!(4), "clipped: max is [4.0], but [3.0] in transforms.json"),
        (3, "min", json!(1), "clipped: min is [1.0], but not set in transforms.json"),
        (
            4,
            "mapping",
            json!({"red": 1, "blue": 0}),
            "one: mapping is {\"blue\":0,\"red\":1}, but {\"blue\":1,\"red\":0} in",
        ),
        (5, "buckets", json!(5), "two: buckets is 5, but 4 in transforms.json"),
        (5, "separator", json!("|"), "two: separator is \"|\", but not set in transforms.json"),
        (6, "reference", json!("2025-01-01"), "age: reference is 1735689600.0, but [1704067200.0] in transforms.json"),
        (6, "scale", json!(true), "age: scale is true, but not set in transforms.json"),
    ] {
        let mut changed = conf.clone();
        let feature = &mut changed["nodes"][0]["features"][at];
        if at == 0 {
            feature[key] = value
        } else {
            feature["transform"][key] = value
        }
        let error = fails(&folder, &changed);
        assert!(error.contains(&format!("nodes[0].features[{at}], feature {expected}")), "{key}: {error}");
        assert!(error.contains("keep its value, or partition all tables again with the new one"), "{error}");
        let error = folder.with(&changed).fails(&["--transforms", folder.path("parts").to_str().unwrap()]);
        assert!(error.contains(expected), "{key}: {error}");
    }
    // The parts keep neither bounds nor the parameters of ranks, and have their own values for keys that are left out.
    conf["nodes"][0]["features"][1]["transform"]["max_bound"] = 8.into();
    conf["nodes"][0]["features"][7]["transform"]["epsilon"] = 0.2.into();
    for at in [2, 4, 6] {
        let transform = conf["nodes"][0]["features"][at]["transform"].as_object_mut().unwrap();
        transform.retain(|key, _| ["name", "epoch"].contains(&key.as_str()));
    }
    said(&folder, &conf);
}

/// Classes of another column are other classes.
#[test]
fn another_column_than_the_label_of_the_parts_is_an_error() {
    let (folder, mut conf) = small_parts(&[]);
    std::fs::remove_dir_all(folder.path("parts")).unwrap();
    folder.write("e.csv", "s,d,w,y\na,b,1,0\nb,c,2,1\nc,d,3,1\n");
    conf["edges"][0]["labels"] = json!([{"task_type": "classification", "label_col": "y"}]);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    folder.write("n.csv", "id,x,y,z\ne,5,red,blue\n").write("e.csv", "s,d,w,y,z\na,e,1,0,1\n");
    for (list, at) in [("nodes", "nodes[0].labels[0]"), ("edges", "edges[0].labels[0]")] {
        let mut changed = conf.clone();
        changed[list][0]["labels"][0]["label_col"] = "z".into();
        let error = fails(&folder, &changed);
        assert!(error.contains(&format!("{at}: transforms.json has no label z, but y, ")), "{error}");
        assert!(error.contains("name its column, leave the label out"), "{error}");
    }
    // Parts of earlier versions do not name the label.
    let path = folder.path("parts/transforms.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("\"label_name\": \"y\"").count(), 2, "{text}");
    let old = text.replace("\"label_name\"", "\"labels\"").replace("\"labels\": \"y\"", "\"labels\": {}");
    std::fs::write(&path, &old).unwrap();
    edit_meta(&folder.path("parts"), |meta| {
        meta["files"]["transforms.json"] = json!({"bytes": old.len(), "xxh3": checksum(old.as_bytes())});
    });
    conf["nodes"][0]["labels"][0]["label_col"] = "z".into();
    said(&folder, &conf);
}

#[test]
fn only_updates_remove_rows() {
    let (folder, mut conf) = small_parts(&[]);
    conf["removed_nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id"}]);
    assert_has(
        folder.with(&conf).fails(&[]),
        &["removed_nodes: only `partition-graph update` removes nodes and edges"],
    );
}

#[test]
fn files_of_users_in_parts_stop_an_update() {
    let (folder, conf) = small_parts(&[]);
    folder.write("parts/model.safetensors", "hours of training");
    let error = fails(&folder, &conf);
    assert!(error.contains("model.safetensors") && error.contains("an update replaces the folder"), "{error}");
    assert!(!error.contains("--overwrite"), "{error}");
}

#[test]
fn deferred_features_are_not_updated() {
    let (folder, conf) = small_parts(&["--defer-features"]);
    assert_has(fails(&folder, &conf), &["the features of part 0 are not built yet"]);
    folder.built_features("parts", 0);
    folder.built_features("parts", 1);
    assert_has(fails(&folder, &conf), &["its features are built after the parts, so they cannot be updated"]);
}

#[test]
fn bad_rows_are_dropped_and_counted() {
    let (folder, mut conf) = small_parts(&[]);
    folder.write("n.csv", "id,x,y\ne,5,red\nf,,red\na,7,\n").write("e.csv", "s,d,w\na,e,1\na,f,1\na,zz,1\n");
    folder.write("gone.csv", "id\nb\nq\n");
    conf["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    folder.write("new.json", conf.to_string());
    let results = updated(&folder, "parts", "new.json", &["--on-bad-rows", "drop"]);
    let nodes = json!([{"node_type": "n", "before": 4, "removed": 1, "changed": 1, "new": 1, "after": 4}]);
    assert_eq!(results["nodes"], nodes);
    let edges = json!([{"edge_type": "n__to__n", "before": 3, "removed": 0, "removed_with_nodes": 2, "removed_overlaps": 0,
                        "added": 1, "after": 2}]);
    assert_eq!(results["edges"], edges);
    let reasons: BTreeSet<&str> =
        results["dropped_rows"].as_array().unwrap().iter().map(|dropped| dropped["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
}

#[test]
fn an_update_without_rows_keeps_all_files() {
    let (folder, _) = small_parts(&[]);
    folder.write("empty.csv", "id,x,y\n");
    let conf = json!({"nodes": [{"node_type": "n", "files": "empty.csv", "node_id_col": "id",
                                 "features": [{"feature_col": "x"}]}]});
    folder.write("new.json", conf.to_string());
    let results = updated(&folder, "parts", "new.json", &["--output-dir", folder.path("same").to_str().unwrap()]);
    assert_eq!(arrays(&folder.path("same")), arrays(&folder.path("parts")));
    assert_eq!(results["quality"]["updates"], 1);
    let scratch = folder.path("");
    let in_files = folder.path("in-files");
    let more = ["--scratch-dir", scratch.to_str().unwrap(), "--output-dir", in_files.to_str().unwrap()];
    updated(&folder, "parts", "new.json", &more);
    assert_eq!(contents(&folder.path("same")), contents(&in_files));
}

/// Opens all parts of a folder.
pub(crate) fn open(folder: &Folder, parts: &str) -> Vec<Part> {
    let dir = folder.path(parts);
    let num_parts = Meta::read(&dir).unwrap().num_parts;
    (0..num_parts).map(|part| Part::open(&dir, DiskPartId(part), true).unwrap()).collect()
}

/// Returns the ids of the first node type's nodes, in the order of their original ids.
pub(crate) fn ids(folder: &Folder) -> Vec<String> {
    let maps = IdMaps::read(&folder.path("parts"), &open(folder, "parts")).unwrap();
    (0..maps.0[0].len() as u32).map(|node| maps.0[0].ids().show(node)).collect()
}

/// Updates parts with a configuration, which must succeed, and returns what the program says.
pub(crate) fn said(folder: &Folder, conf: &Value) -> String {
    folder.write("new.json", conf.to_string());
    let output = update(folder, "parts", "new.json", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

#[test]
fn numbers_of_removed_rows_are_not_given_again() {
    let folder = Folder::of(&[("n.csv", "x\n1\n2\n3\n4\n"), ("e.csv", "s,d\n0,1\n1,2\n")]);
    let mut conf = edges_conf();
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "features": [{"feature_col": "x"}]}]);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    let mut day = conf.clone();
    day.as_object_mut().unwrap().remove("edges");
    // The last row is removed, and others follow.
    folder.write("gone.csv", "id\n3\n").write("n.csv", "x\n5\n6\n");
    day["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
    said(&folder, &day);
    assert_eq!(ids(&folder), ["0", "1", "2", "4", "5"]);
    let without_rows = json!({"removed_nodes": [{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]});
    folder.write("gone.csv", "id\n5\n4\n");
    said(&folder, &without_rows);
    assert_eq!(ids(&folder), ["0", "1", "2"]);
    // The numbers that are left are 0, 1 and 2, but 3 has been another node.
    day.as_object_mut().unwrap().remove("removed_nodes");
    assert_has(fails(&folder, &day), &["the nodes of type n have ids in the parts: set node_id_col"]);
}

#[test]
fn relations_are_compared_by_their_three_names() {
    let folder = Folder::of(&[("e.csv", "s,d\nx,y\n"), ("none.csv", "s,d\n")]);
    let edges =
        |relation: [&str; 3]| json!({"relation": relation, "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"});
    folder.write("graph.json", json!({"edges": [edges(["a__b", "c", "d"]), edges(["a", "b__c", "d"])]}).to_string());
    assert_has(folder.fails(&[]), &["both have the name a__b__c__d in parts: rename one of them"]);
    partition(folder.with(&json!({"edges": [edges(["a__b", "c", "d"])]})), "graph.json", "parts", &[]);
    for key in ["edges", "removed_edges"] {
        let error = fails(&folder, &json!({key: [edges(["a", "b__c", "d"])]}));
        assert!(error.contains(r#"no edge type a__b__c__d of ["a", "b__c", "d"], but ["a__b", "c", "d"]"#), "{error}");
    }
}

#[test]
fn edges_name_no_new_nodes_of_a_type_with_a_table() {
    let folder = Folder::of(&[("n.csv", "id\na\nb\n"), ("e.csv", "s,d\na,b\n")]);
    let mut conf = edges_conf();
    conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id"}]);
    partition(folder.with(&conf), "graph.json", "parts", &[]);
    folder.write("e.csv", "s,d\na,bb\n");
    assert_has(fails(&folder, &edges_conf()), &["there is no n with the id bb"]);
    folder.write("n.csv", "id\nbb\n");
    said(&folder, &conf);
    folder.write("e.csv", "s,d\na,c\n");
    assert_has(fails(&folder, &edges_conf()), &["there is no n with the id c"]);
}

/// Removals come first, so an added edge names a removed node only if the update has the node again.
#[test]
fn an_edge_to_a_removed_node_needs_the_node_again() {
    for has_table in [true, false] {
        let folder = Folder::of(&[("n.csv", "id\na\nb\n"), ("e.csv", "s,d\na,b\n"), ("gone.csv", "id\na\n")]);
        let mut conf = edges_conf();
        if has_table {
            conf["nodes"] = json!([{"node_type": "n", "files": "n.csv", "node_id_col": "id"}]);
        }
        partition(folder.with(&conf), "graph.json", "parts", &[]);
        folder.write("e.csv", "s,d\nb,a\n");
        let mut changes = edges_conf();
        changes["removed_nodes"] = json!([{"node_type": "n", "files": "gone.csv", "node_id_col": "id"}]);
        if has_table {
            let why = "column d: this update removes the n with the id a (removed_nodes): leave the edge out";
            assert_has(fails(&folder, &changes), &[why]);
            folder.write("n.csv", "id\na\n");
            changes["nodes"] = conf["nodes"].clone();
        }
        folder.write("new.json", changes.to_string());
        let results = updated(&folder, "parts", "new.json", &[]);
        let nodes = &results["nodes"][0];
        assert_eq!([&nodes["removed"], &nodes["new"], &nodes["after"]], [&json!(1), &json!(1), &json!(2)], "{results}");
        let edges = &results["edges"][0];
        assert_eq!([&edges["removed_with_nodes"], &edges["added"]], [&json!(1), &json!(1)], "{results}");
    }
}

#[test]
fn reverse_types_follow_their_types() {
    let (folder, conf) = small_parts(&["--add-reverse-edges"]);
    for key in ["edges", "removed_edges"] {
        let mut table = conf["edges"][0].clone();
        table["relation"] = json!(["n", "rev_to", "n"]);
        if key == "removed_edges" {
            table.as_object_mut().unwrap().remove("weight_col");
        }
        assert_has(fails(&folder, &json!({key: [table]})), &[r#"are the reverses of ["n", "to", "n"]"#]);
    }
}

/// An update that adds the reverses of held-out edges to a declared reverse type reveals them.
#[test]
fn added_reverses_of_held_out_edges_are_overlaps() {
    let folder = Folder::of(&[("writes.csv", "s,d\na,x\nb,y\nc,z\n"), ("test.json", "[\"a\", \"x\"]\n")]);
    let ends = json!({"source_id_col": "s", "dest_id_col": "d"});
    let split = json!([{"task_type": "link_prediction", "custom_split_filenames": {"test": "test.json"}}]);
    let writes =
        with(json!({"relation": ["author", "writes", "paper"], "files": "writes.csv", "labels": split}), &ends);
    let by = with(json!({"relation": ["paper", "written_by", "author"], "files": "by.csv"}), &ends);
    let all = json!({"edges": [writes, by]});
    let added = json!({"edges": [by]});
    let leak = "1 of 1 test edges are training edges of the reverse type";
    let pair: &[&str] = &["--reverse-types", "writes=written_by"];
    for [of_parts, of_update] in [[pair, &[]], [&[], pair]] {
        let _ = std::fs::remove_dir_all(folder.path("parts"));
        folder.write("by.csv", "s,d\ny,b\n");
        partition(folder.with(&all), "graph.json", "parts", of_parts);
        folder.write("by.csv", "s,d\nx,a\nz,c\n").write("new.json", added.to_string());
        let output = update(&folder, "parts", "new.json", of_update);
        assert_has(String::from_utf8_lossy(&output.stderr), &[leak, "--overlap remove"]);
        let results = updated(&folder, "parts", "new.json", &[of_update, &["--overlap", "remove"]].concat());
        let mut edges = results["edges"].as_array().unwrap().iter();
        let reverses = edges.find(|edges| edges["edge_type"] == "paper__written_by__author").unwrap();
        let [added, removed, after] = ["added", "removed_overlaps", "after"].map(|key| &reverses[key]);
        assert_eq!((added, removed, after), (&json!(2), &json!(1), &json!(2)), "{results}");
        // The next update knows the pair.
        let meta = Meta::read(&folder.path("parts")).unwrap();
        assert_eq!(meta.declared_reverses().len(), 1);
        assert_eq!(meta.provenance.reverse_types, [("writes".to_owned(), "written_by".to_owned())]);
    }
    for (pair, expected) in [
        ("writes=written_bye", "there is no edge type written_bye (--reverse-types) (did you mean written_by?)"),
        ("writes=writes", "edge types writes and writes are not each other's reverse (--reverse-types)"),
    ] {
        let output = update(&folder, "parts", "new.json", &["--reverse-types", pair]);
        assert_has(String::from_utf8_lossy(&output.stderr), &[expected]);
        assert_has(folder.with(&all).fails(&["--reverse-types", pair]), &[expected]);
    }
    // The types that --add-reverse-edges adds are known, too.
    let flags = ["--add-reverse-edges", "--reverse-types", "writes=rev_writen"];
    assert_has(folder.with(&all).fails(&flags), &["there is no edge type rev_writen (--reverse-types)"]);
}

#[test]
fn a_table_of_features_without_ids_is_an_error() {
    let (folder, mut conf) = small_parts(&[]);
    folder.write("ids.csv", "id\n").write("n.csv", "x\n7\n");
    conf["nodes"] = json!([{"node_type": "n", "files": "ids.csv", "node_id_col": "id"},
                           {"node_type": "n", "files": "n.csv", "features": [{"feature_col": "x"}]}]);
    conf.as_object_mut().unwrap().remove("edges");
    assert_has(fails(&folder, &conf), &["the table nodes[1] has 1 rows, but an earlier table of the same type has 0"]);
}

#[test]
fn a_missing_undirected_edge_counts_once_and_names_its_table() {
    let (folder, _) = small_parts(&["--to-undirected"]);
    folder.write("gone.csv", "s,d\nd,c\nd,a\n");
    let removed = json!({"removed_edges": [{"relation": ["n", "to", "n"], "files": "gone.csv", "source_id_col": "s",
                                            "dest_id_col": "d"}]});
    assert_has(fails(&folder, &removed), &["removed_edges[0]: 1 edge does not exist, such as n__to__n from d to a"]);
    let results = updated(&folder, "parts", "new.json", &["--on-bad-rows", "drop"]);
    assert_eq!((&results["missing_edges"], &results["edges"][0]["removed"]), (&json!(1), &json!(2)));
}

#[test]
fn features_of_arrays_have_no_transforms_for_rows() {
    let folder = Folder::new();
    let mut command = program();
    command.args(["--dataset", "fake", "--avg-num-nodes", "60", "--num-partitions", "2", "--output-dir"]);
    assert!(command.arg(folder.path("parts")).output().unwrap().status.success());
    let name = Meta::read(&folder.path("parts")).unwrap().node_types[0].name.clone();
    folder.write("n.csv", "x\n1\n");
    let conf = json!({"nodes": [{"node_type": name, "files": "n.csv", "features": [{"feature_col": "x"}]}]});
    assert_has(fails(&folder, &conf), &["are from arrays, and have no transforms for rows of tables"]);
    folder.write("n.csv", "id\n59\n");
    said(&folder, &json!({"removed_nodes": [{"node_type": name, "files": "n.csv", "node_id_col": "id"}]}));
}

#[test]
fn contents_of_first_rows_are_recorded() {
    let (folder, mut conf) = small_parts(&[]);
    let digests = || Meta::read(&folder.path("parts")).unwrap().node_types[0].digests.clone();
    let first = digests();
    assert!(first.earlier_contents.is_empty());
    conf.as_object_mut().unwrap().remove("edges");
    for id in ["e", "f"] {
        folder.write("n.csv", format!("id,x,y\n{id},5,red\n"));
        said(&folder, &conf);
    }
    let after = digests();
    assert_eq!((after.earlier_contents.len(), after.earlier_contents.first()), (2, first.content.as_ref()));
    folder.write("n.csv", "id,x,y\na,7,red\n");
    said(&folder, &conf);
    assert!(digests().earlier_contents.is_empty(), "a row was changed");
}

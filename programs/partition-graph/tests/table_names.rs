//! Names of tables, columns, keys and values that match nothing, and near ones.

use crate::table_files::{Folder, one_type, with};
use crate::table_forms::edges;
use edgecut_graph::Meta;
use edgecut_testing::assert_has;
use serde_json::json;
use std::process::Command;

#[test]
fn names_that_match_nothing_are_compared_with_near_ones() {
    let folder = Folder::of(&[("items.csv", "id\na\nb\n"), ("e.csv", "s,d\na,b\n")]);
    let nodes = json!([{"node_type": "item", "node_id_col": "id", "files": "items.csv"}]);
    let relation = json!(["item", "to", "itm"]);
    let conf = json!({"nodes": nodes, "edges": [edges(&json!({"files": "e.csv", "relation": relation}))]});
    let (_, stderr) = folder.with(&conf).made("out", &[]);
    let why = "warning: edges[0].relation: the node type itm has no table, so it has the ids that edges name; did you mean item?";
    assert!(stderr.contains(why), "{stderr}");
    assert_eq!(Meta::read(&folder.path("out")).unwrap().node_types.len(), 2);
    for (from, to, why) in [
        ("node_id_col", "node_id", "nodes[0].node_id: unknown key (did you mean node_id_col?)"),
        ("source_id_col", "src_id_col", "edges[0].src_id_col: unknown key (did you mean source_id_col?)"),
        ("\"s\"", "\"S\"", "e.csv: it has no column S (did you mean s?)"),
        ("items.csv", "item.csv", "item.csv (did you mean items.csv?)"),
    ] {
        assert_has(folder.with(&conf.to_string().replace(from, to)).fails(&[]), &[why]);
    }
    // Values of keys, and files of a configuration in the working directory.
    for (keys, why) in [
        (
            json!({"impute": "medain"}),
            "impute: \"medain\" is not one of mean, median, most_frequent, constant and none (did you mean median?)",
        ),
        (json!({"fit_on": "tran"}), "fit_on: \"tran\" is not one of all and train (did you mean train?)"),
        (
            json!({"transform": {"name": "hash_ngrams", "buckets": 9, "of": "leters"}}),
            "of: \"leters\" is not one of words and letters (did you mean letters?)",
        ),
        (json!({"transform": {"name": "date", "outputs": "ages"}}), "(did you mean age?)"),
    ] {
        let feature = with(json!({"feature_col": "id"}), &keys);
        let nodes = json!({"features": [feature]});
        assert_has(folder.with(&one_type(&nodes, &json!({}))).fails(&[]), &[why]);
    }
    let held_out = json!({"time_col": "day", "labels": [{"task_type": "link_prediction", "split_by": "dya"}]});
    let why = "edges are held out by their time_col: set time_col to dya (did you mean day?)";
    assert_has(folder.with(&one_type(&json!({}), &held_out)).fails(&[]), &[why]);
    folder.write("tables/part-0.csv", "id\na\n");
    for (files, near) in [("tabels", "tables"), ("tabels/*.csv", "tables/*.csv"), ("item.csv", "items.csv")] {
        folder.with(&one_type(&json!({"files": files}), &json!({})));
        let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
        command.args(["--conf", "graph.json", "--dataset", "graph", "--num-partitions", "1", "--output-dir", "failed"]);
        command.current_dir(folder.path(""));
        let error = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let why = format!("nodes[0].files: there is no file {files} (did you mean {near}?)");
        assert!(error.contains(&why), "{error}");
    }
}

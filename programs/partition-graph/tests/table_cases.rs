//! Tables with bad rows, several tables of a type and others: with limited memory, and with features that are built later.

use crate::table_files::{Folder, arrays, contents};
use crate::table_transforms::{TRANSFORMED, features};
use crate::tables::{write_parquet, write_splits};
use edgecut_graph::{DiskPartId, Part, map_npy};
use edgecut_testing::{assert_has, succeeded};
use serde_json::{Value, json};
use std::fs::File;
use std::process::Command;

/// Writes tables with rows that are dropped.
fn write_bad_rows(folder: &Folder) {
    folder.write("nodes.csv", "id,x,y\na,1,0\nb,nan,1\nc,3,0\na,4,1\n,5,0\nd,6,1\ne,x,0\nf,7,1\n");
    folder.write("edges.csv", "s,t,w\na,c,1\nb,c,1\nc,d,-1\nd,f,2\nf,zz,1\n,a,1\nf,a,0\n");
    let conf = json!({
        "nodes": [{"node_type": "n", "node_id_col": "id", "files": "nodes.csv",
            "features": [{"feature_col": "x", "transform": {"name": "max_min_norm"}}],
            "labels": [{"task_type": "classification", "label_col": "y", "custom_split_filenames": {"train": "train.json"}}]}],
        "edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t",
            "weight_col": "w"}]});
    folder.write("graph.json", conf.to_string()).write("train.json", "\"a\"\n\"b\"\n\"f\"\n");
}

/// Writes tables of which two belong to a node type, and two to a relation.
fn write_several_tables(folder: &Folder) {
    folder.write("ids.csv", "id\n3\n1\n2\n").write("more.csv", "x,y,t\n1,4,7\n2,5,8\n3,6,9\n");
    folder.write("edges.csv", "s,t\n3,1\n1,2\n").write("weights.csv", "w\n0.5\n1.5\n");
    let conf = json!({
        "nodes": [
            {"node_type": "item", "node_id_col": "id", "files": "ids.csv", "features": [{"feature_col": "id"}]},
            {"node_type": "item", "files": "more.csv", "time_col": "t",
                "features": [{"feature_col": "x"}, {"feature_col": "y", "out_dtype": "float16"}]}],
        "edges": [
            {"relation": ["item", "to", "item"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"},
            {"relation": ["item", "to", "item"], "files": "weights.csv", "weight_col": "w"}]});
    folder.write("graph.json", conf.to_string());
}

/// Writes tables with every transform. Prices are all different.
fn write_transformed(folder: &Folder) {
    folder.write("graph.json", TRANSFORMED);
    let item = |n: usize| {
        let color = ["red", "green", "blue"][n % 3];
        let tags = ["new|old", "old", ""][n % 3];
        format!("i{n},{},{color},{tags},{n} {} 9,{}\n", n * 37 % 41, n * n, n % 2)
    };
    folder.write("items.csv", (0..40).fold("id,price,color,tags,vector,kind\n".to_owned(), |text, n| text + &item(n)));
    folder
        .write("with.csv", (0..60).fold("a,b\n".to_owned(), |text, e| format!("{text}i{},i{}\n", e % 40, e * 7 % 40)));
}

/// Writes edges of which a tenth is held out.
fn write_held_out(folder: &Folder) {
    let edges = (0..500).fold("s,t,at\n".to_owned(), |text, e| format!("{text}u{},v{},{e}\n", e % 50, e / 10));
    folder.write("edges.csv", edges);
    let conf = json!({"edges": [{"relation": ["u", "likes", "v"], "files": "edges.csv", "source_id_col": "s",
        "dest_id_col": "t", "time_col": "at",
        "labels": [{"task_type": "link_prediction", "split_pct": [0.7, 0.1, 0.2]}]}]});
    folder.write("graph.json", conf.to_string());
}

/// A way to write tables with the configuration `graph.json`, and the flags that they need.
type Case = (&'static str, fn(&Folder), &'static [&'static str]);

const CASES: &[Case] = &[
    ("bad rows", write_bad_rows, &["--on-bad-rows", "drop"]),
    ("several tables", write_several_tables, &[]),
    ("transforms", write_transformed, &["--feature-dtype", "f16"]),
    ("held-out edges", write_held_out, &["--add-reverse-edges"]),
    (
        "parquet",
        |folder| {
            write_splits(folder);
            write_parquet(folder);
            std::fs::rename(folder.path("parquet.json"), folder.path("graph.json")).unwrap();
        },
        &["--hold-out-edges", "latest:0.1,0.1"],
    ),
];

#[test]
fn a_limit_of_memory_does_not_matter() {
    for (name, write, flags) in CASES {
        let folder = Folder::new();
        write(&folder);
        folder.made("whole", flags);
        let scratch = folder.path("scratch");
        let of_limit = ["--memory-limit", "512MiB", "--scratch-dir", scratch.to_str().unwrap()];
        folder.made("limited", &[flags, &of_limit[..]].concat());
        assert!(contents(&folder.path("whole")) == contents(&folder.path("limited")), "{name}");
        assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
    }
}

/// Runs `partition-graph features`.
pub(crate) fn features_of_part(folder: &Folder, out: &str, part: u32, more: &[&str]) -> std::process::Output {
    folder.features(out).args(more).env("NODE_RANK", part.to_string()).output().unwrap()
}

#[test]
fn features_that_are_built_later_are_those_of_the_parts() {
    for (name, write, flags) in CASES.iter().filter(|(name, ..)| *name != "held-out edges") {
        let folder = Folder::new();
        write(&folder);
        folder.made("whole", flags);
        let output = folder.run("deferred", &[flags, &["--defer-features"][..]].concat());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let error = Part::open(&folder.path("deferred"), DiskPartId(1), false).unwrap_err().to_string();
        assert!(error.contains("the features of part 1 are not built yet: run `partition-graph features`"), "{error}");
        let policy: Vec<&str> = if flags.contains(&"drop") { vec!["--on-bad-rows", "drop"] } else { Vec::new() };
        for part in [1, 0] {
            let output = features_of_part(&folder, "deferred", part, &policy);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(String::from_utf8_lossy(&output.stdout).trim_end().ends_with("built"), "{output:?}");
        }
        let [whole, deferred] = ["whole", "deferred"].map(|out| arrays(&folder.path(out)));
        assert!(whole.keys().any(|file| file.ends_with("features.npy")));
        assert!(whole == deferred, "{name}");
        let verified =
            Command::new(env!("CARGO_BIN_EXE_partition-graph")).arg("verify").arg(folder.path("deferred")).output();
        let verified = verified.unwrap();
        assert!(verified.status.success(), "{name}: {}", String::from_utf8_lossy(&verified.stderr));
        let output = features_of_part(&folder, "deferred", 0, &[&policy[..], &["--json"]].concat());
        let built: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(built[0]["there_already"], true);
    }
}

#[test]
fn features_are_only_built_from_the_tables_of_the_parts() {
    let folder = Folder::new();
    write_transformed(&folder);
    folder.made("whole", &[]);
    succeeded(folder.run("deferred", &["--defer-features"]));
    let fails = |out: &str, part: u32, why: &str| {
        let output = features_of_part(&folder, out, part, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(why), "{stderr}, expected {why}");
        assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    };
    fails(
        "whole",
        0,
        "its features are complete: only parts that were made with --defer-features have features to build",
    );
    fails("deferred", 2, "there is no part 2: the parts are 0 to 1");
    fails("absent", 0, "absent: there is no such folder: pass the N-parts folder");
    assert!(!folder.path("absent").exists());
    let items = std::fs::read_to_string(folder.path("items.csv")).unwrap();
    folder.write("items.csv", format!("{items}i99,3,red,old,1 2 3,0\n"));
    fails("deferred", 0, "items.csv: the table nodes[0] has 41 used rows, but the parts have 40 nodes of type item");
    folder.write("items.csv", items.replace("\ni7,", "\nx7,"));
    let owner = (0..2).find(|part| {
        let ids = folder.path(&format!("deferred/part_{part}/nodes/item/original_ids.npy"));
        map_npy::<u32>(&ids).unwrap().1.contains(&7)
    });
    fails("deferred", owner.unwrap(), "column id: the id 7 rows after ");
    folder.write("items.csv", items.replace("\ni0,0,", "\ni0,nan,"));
    let bad = (0..2).map(|part| features_of_part(&folder, "deferred", part, &[]));
    let failed =
        bad.filter(|output| String::from_utf8_lossy(&output.stderr).contains("row 1: column price: it is missing"));
    assert_eq!(failed.count(), 1, "only the part that has the node needs its features");
    // What failed left nothing behind.
    let names = contents(&folder.path("deferred")).into_keys().filter(|name| name.contains(".features-"));
    assert_eq!(names.count(), 0);
    folder.write("items.csv", &items);
    for part in 0..2 {
        assert!(features_of_part(&folder, "deferred", part, &["--overwrite"]).status.success());
    }
    assert!(arrays(&folder.path("whole")) == arrays(&folder.path("deferred")));
    // A truncated file is noticed when the part is opened.
    let path = folder.path("deferred/part_0/nodes/item/features.npy");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(150).unwrap();
    let error = Part::open(&folder.path("deferred"), DiskPartId(0), false).unwrap_err().to_string();
    assert!(error.contains("features.npy") && error.contains("remove both files"), "{error}");
}

#[test]
fn bad_rows_are_dropped_and_counted() {
    let folder = Folder::new();
    write_bad_rows(&folder);
    let error = folder.fails(&[]);
    assert!(error.contains("nodes.csv: row 4: column id: the id a of n is also in an earlier row"), "{error}");
    assert!(error.contains("--on-bad-rows drop"), "{error}");
    let (made, stderr) = folder.made("out", &["--on-bad-rows", "drop"]);
    let sizes = (&made["node_types"][0]["book"][2], &made["edge_types"][0]["num_edges"]);
    assert_eq!(sizes, (&json!(4), &json!(3)));
    assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 0, 0]));
    let counts: Vec<(&str, u64)> = made["dropped_rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["reason"].as_str().unwrap(), entry["rows"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("no id", 1),
        ("an end that does not exist", 1),
        ("an end that was dropped", 1),
        ("a weight that is negative, too small or not a finite number", 1),
        ("no id", 1),
        ("the id of an earlier row", 1),
        ("a feature that is not a finite number", 2),
        ("an entry of a split file that cannot be used", 1),
    ];
    assert_eq!(counts, expected);
    let note = "dropped 2 rows of nodes[0] with a feature that is not a finite number (25.0 % of 8)";
    assert!(stderr.contains(note), "{stderr}");
    assert!(stderr.contains("column s: the n with the id b was dropped"), "{stderr}");
    assert!(stderr.contains("nodes.csv: row 2: column x: it is missing"), "{stderr}");
    // Dropped rows do not take part in fits: 1, 3, 6 and 7 become 0, 1/3, 5/6 and 1.
    let saved: Value = serde_json::from_slice(&std::fs::read(folder.path("out/transforms.json")).unwrap()).unwrap();
    let transform = &saved["node_types"]["n"]["features"][0]["transform"];
    assert_eq!((&transform["min_val"], &transform["max_val"]), (&json!([1.0]), &json!([7.0])));
}

#[test]
fn several_tables_of_a_type_have_its_columns() {
    let folder = Folder::new();
    write_several_tables(&folder);
    let (made, _) = folder.made("out", &[]);
    assert_eq!(features(&folder, "out"), [[3.0, 1.0, 4.0], [1.0, 2.0, 5.0], [2.0, 3.0, 6.0]]);
    assert_eq!(
        (&made["node_types"][0]["has_times"], &made["edge_types"][0]["has_weights"]),
        (&json!(true), &json!(true))
    );
    folder.write("more.csv", "x,y,t\n1,4,7\n2,5,8\n");
    assert_has(
        folder.fails(&[]),
        &["more.csv: the table nodes[1] has 2 rows, but an earlier table of the same type has 3"],
    );
}

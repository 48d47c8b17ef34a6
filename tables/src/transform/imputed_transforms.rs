//! Tests of missing values before each transform.

use super::{NAMES, SavedFeature};
use crate::{TableOptions, read_tables};
use serde_json::{Value, json};
use std::path::Path;

/// The number, the text and the time of the row [`KNOWN`] replace the missing values of the row [`MISSING`] by each rule.
const TABLE: &str = "number,text,time\n1,blue,2020-01-01\n2,red,2020-01-02\n3,red,2020-01-03\n2,red,2020-01-02\n,,\n";
const KNOWN: usize = 1;
const MISSING: usize = 4;

/// Returns the keys of a transform beside its name.
fn keys(transform: &str) -> Value {
    match transform {
        "clip" => json!({"min": 1.5}),
        "bucket_numerical" => json!({"range": [0, 4], "bucket_cnt": 4}),
        "hash_buckets" | "hash_ngrams" => json!({"buckets": 1000}),
        _ => json!({}),
    }
}

/// Returns the column of a transform, the replacements that it has, and the value of a constant.
fn column(transform: &str) -> (&'static str, &'static [&'static str], Value) {
    const ALL: &[&str] = &["mean", "median", "most_frequent", "constant", "none"];
    match transform {
        "to_categorical" | "hash_buckets" | "frequency" | "hash_ngrams" => ("text", &ALL[2..], json!("red")),
        "date" => ("time", ALL, json!("2020-01-02")),
        _ => ("number", ALL, json!(2)),
    }
}

/// Reads the table with one feature. Returns the feature of each row, and its form in `transforms.json`.
fn read(folder: &Path, feature: &Value) -> (Vec<Vec<f32>>, SavedFeature) {
    let conf = json!({
        "nodes": [{"node_type": "n", "files": "n.csv", "features": [feature]}],
        "edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"}]
    });
    let path = folder.join("graph.json");
    std::fs::write(&path, conf.to_string()).expect("a configuration");
    let graph = read_tables(&path, "graph", &TableOptions::default()).unwrap_or_else(|why| panic!("{feature}: {why}"));
    let features = graph.dataset.node_types[0].features.as_ref().expect("features");
    let mut rows = vec![vec![0.0; features.dim()]; features.num_rows()];
    for (number, row) in rows.iter_mut().enumerate() {
        features.copy_row(number, row);
    }
    (rows, graph.transforms.node_types["n"].features[0].clone())
}

#[test]
fn each_rule_replaces_missing_values_before_each_transform() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("n.csv"), TABLE).expect("a table of nodes");
    std::fs::write(folder.path().join("e.csv"), "s,d\n0,1\n").expect("a table of edges");
    for &name in NAMES {
        let (column, rules, constant) = column(name);
        for &rule in rules {
            let mut transform = keys(name);
            transform["name"] = json!(name);
            let mut feature = json!({"feature_col": column, "impute": rule, "indicator": true, "transform": transform});
            if rule == "constant" {
                feature["fill_value"] = constant.clone();
            }
            let (mut rows, saved) = read(folder.path(), &feature);
            let indicators: Vec<f32> = rows.iter_mut().filter_map(Vec::pop).collect();
            assert_eq!(indicators, [0.0, 0.0, 0.0, 0.0, 1.0], "{name}, {rule}");
            let zeros = vec![0.0; rows[0].len()];
            let expected = if rule == "none" { &zeros } else { &rows[KNOWN] };
            assert_eq!(&rows[MISSING], expected, "{name}, {rule}");
            assert_ne!(rows[0], rows[KNOWN], "{name}, {rule}");
            // The fitted replacement is in the file.
            let saved = serde_json::to_value(&saved).expect("JSON")["impute"].take();
            assert_eq!((&saved["strategy"], &saved["indicator"]), (&json!(rule), &json!(true)), "{name}");
            let replacement = match column {
                "text" => &saved["text"],
                _ => &saved["numbers"][0],
            };
            assert_eq!(replacement.is_null(), rule == "none", "{name}, {rule}: {saved}");
        }
    }
}

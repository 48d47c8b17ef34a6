//! Transforms of the columns of tables: fitted, saved, and applied to new data.

use crate::corruption::edit_meta;
use crate::table_cases::features_of_part;
use crate::table_files::{Folder, arrays, contents, rows_of};
use edgecut_graph::map_npy;
use edgecut_testing::{assert_has, succeeded};
use serde_json::{Value, json};

/// Returns the features of all nodes of the first type, in the order of the original ids.
pub(crate) fn features(folder: &Folder, out: &str) -> Vec<Vec<f32>> {
    rows_of(folder, out, "item", "features.npy")
}

pub(crate) const TRANSFORMED: &str = r#"
nodes:
  - node_type: item
    node_id_col: id
    files: items.csv
    features:
      - {feature_col: price, transform: {name: max_min_norm, max_bound: 50}}
      - {feature_col: price, feature_name: share, transform: {name: standard}}
      - {feature_col: price, feature_name: rank, transform: {name: rank_gauss}}
      - {feature_col: color, transform: {name: to_categorical}}
      - {feature_col: tags, transform: {name: to_categorical, separator: '|'}}
      - {feature_col: price, feature_name: buckets, transform: {name: bucket_numerical, range: [0, 40], bucket_cnt: 2}}
      - {feature_col: vector, transform: {name: no-op, separator: ' ', truncate_dim: 2}}
    labels:
      - {task_type: classification, label_col: kind, split_pct: [0.5, 0.25, 0.25]}
edges:
  - {relation: [item, with, item], files: with.csv, source_id_col: a, dest_id_col: b}
"#;

#[test]
fn transforms_are_fitted_saved_and_applied_to_new_data() {
    let folder = Folder::new();
    folder.write("graph.json", TRANSFORMED).write("with.csv", "a,b\nx,y\ny,z\nz,w\n");
    folder.write(
        "items.csv",
        "id,price,color,tags,vector,kind\nx,10,red,a|b,1 2 3,toy\ny,20,blue,b,4 5 6,book\nz,30,,a,7 8 9,\nw,100,red,c|a,1 1 1,toy\n",
    );
    let (made, _) = folder.made("out", &[]);
    assert_eq!(made["node_types"][0]["num_classes"], 2);
    // NumPy: (price - 10) / (50 - 10) clipped to 0..1; price / 160; scipy.special.erfinv of the ranks; numpy.unique.
    let rank = [-3.458_910_7_f32, -0.304_570_2, 0.304_570_2, 3.458_910_7];
    let one_hot = [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]];
    let tags = [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]];
    let buckets = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]];
    let vectors = [[1.0, 2.0], [4.0, 5.0], [7.0, 8.0], [1.0, 1.0]];
    let scaled = [0.0, 0.25, 0.5, 1.0];
    let share = [0.0625, 0.125, 0.1875, 0.625];
    for (row, found) in features(&folder, "out").into_iter().enumerate() {
        let expected =
            [&[scaled[row], share[row], rank[row]], &one_hot[row][..], &tags[row], &buckets[row], &vectors[row]]
                .concat();
        assert_eq!(found.len(), expected.len());
        for (column, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 1e-6, "row {row}, column {column}: {found}, expected {expected}");
        }
    }
    let saved: Value = serde_json::from_slice(&std::fs::read(folder.path("out/transforms.json")).unwrap()).unwrap();
    let item = &saved["node_types"]["item"];
    assert_eq!(item["classes"], json!(["book", "toy"]));
    assert_eq!(item["features"][3]["transform"]["mapping"], json!({"blue": 0, "red": 1}));
    assert_eq!(item["features"][4]["columns"], json!([5, 8]));

    // Verification computes the digests of transforms again.
    edgecut_partition::verify(&folder.path("out")).unwrap();
    for (key, what) in [("transforms", "features"), ("classes", "classes")] {
        let meta = std::fs::read(folder.path("out/META.json")).unwrap();
        edit_meta(&folder.path("out"), |meta| meta["node_types"][0]["digests"][key] = "0123".into());
        let error = edgecut_partition::verify(&folder.path("out")).unwrap_err().to_string();
        assert!(error.contains(&format!("its digest of the {what} of item is not that of transforms.json")), "{error}");
        std::fs::write(folder.path("out/META.json"), meta).unwrap();
    }

    // The same data gives the same parts.
    let transforms = folder.path("out");
    let transforms = transforms.to_str().unwrap();
    folder.made("again", &["--transforms", transforms]);
    assert!(contents(&folder.path("out")) == contents(&folder.path("again")));

    // Unknown categories are zeros, ranks are interpolated, and values beyond the range are limited.
    folder.write(
        "items.csv",
        "id,price,color,tags,vector,kind\nx,15,green,d|b,1 2 3,toy\ny,-5,blue,b,4 5 6,toy\nz,1e9,red,a,7 8 9,toy\nw,100,red,a,1 1 1,toy\n",
    );
    let (_, stderr) = folder.made("new", &["--transforms", &format!("{transforms}/transforms.json")]);
    for feature in ["color", "tags"] {
        let note = format!("note: nodes[0], feature {feature}: 1 category that its transform does not have");
        assert!(stderr.contains(&note), "{stderr}");
    }
    let found = features(&folder, "new");
    assert_eq!(found[0][3..8], [0.0, 0.0, 0.0, 1.0, 0.0]);
    assert!((found[0][2] - (rank[0] + rank[1]) / 2.0).abs() < 1e-6, "{:?}", found[0]);
    assert_eq!((found[1][0], found[2][0], found[1][2], found[2][2]), (0.0, 1.0, rank[0], rank[3]));
    let labels: Vec<i64> = (0..2)
        .flat_map(|part| {
            map_npy::<i64>(&folder.path(&format!("new/part_{part}/nodes/item/labels.npy"))).unwrap().1.to_vec()
        })
        .collect();
    assert_eq!(labels, [1; 4]);

    folder.write("items.csv", "id,price,color,tags,vector,kind\nx,15,green,d,1 2 3,game\n");
    folder.write("with.csv", "a,b\nx,x\n");
    let error = folder.fails(&["--transforms", transforms]);
    assert!(error.contains("items.csv: row 1: the label \"game\" is not one of the known classes"), "{error}");
    folder.write("graph.json", TRANSFORMED.replace("feature_name: share, ", "feature_name: part, "));
    assert_has(folder.fails(&["--transforms", transforms]), &["part (standard)", "those of transforms.json are"]);
}

#[test]
fn all_files_of_a_column_have_vectors_of_one_length() {
    let folder = Folder::new();
    let conf = json!({
        "nodes": [{"node_type": "item", "node_id_col": "id", "files": "items-*.csv",
            "features": [{"feature_col": "v", "transform": {"name": "no-op", "separator": " "}}],
            "labels": [{"task_type": "classification", "label_col": "kind"}]}],
        "edges": [{"relation": ["item", "to", "item"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
    folder.write("graph.json", conf.to_string()).write("edges.csv", "s,t\na,c\nc,d\n");
    // The first file has no rows, and the first row of the last one has another length.
    folder.write("items-0.csv", "id,v,kind\n").write("items-1.csv", "id,v,kind\na,1 2 3,cat\n");
    folder.write("items-2.csv", "id,v,kind\nb,1 2,dog\nc,4 5 6,dog\nd,7 8 9,-1\n");
    assert_has(folder.fails(&[]), &["items-2.csv: row 1: column v: it has 2 numbers, but earlier rows have 3"]);
    let (made, _) = folder.made("whole", &["--on-bad-rows", "drop"]);
    assert_eq!(features(&folder, "whole"), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    // A text of -1 is a missing label, as the number is.
    assert_eq!(made["node_types"][0]["num_classes"], 2);
    succeeded(folder.run("deferred", &["--on-bad-rows", "drop", "--defer-features"]));
    // A run that was killed has left a file.
    folder.write("deferred/part_0/nodes/item/features.partial", "half of it");
    for part in 0..2 {
        succeeded(features_of_part(&folder, "deferred", part, &["--on-bad-rows", "drop"]));
    }
    assert!(arrays(&folder.path("whole")) == arrays(&folder.path("deferred")));
    assert!(!folder.path("deferred/part_0/nodes/item/features.partial").exists());
}

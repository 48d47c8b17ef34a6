//! Labels and splits of tables: of nodes, of edges, and edges that are held out.

use crate::table_files::{Folder, arrays, one_type, rows_of};
use crate::tables::feature;
use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use edgecut_graph::{DiskPartId, EdgeTypeId, Part, Split};
use edgecut_testing::assert_has;
use parquet::basic::Compression;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

#[test]
fn several_labels_and_numbers_to_predict_are_those_of_arrays() {
    let folder = Folder::new();
    let n = 30;
    // A null, an empty text and NaN are unknown. The first rows have no labels at all.
    let tag = |node: usize, tag: usize| (node * 7 + tag * 3) % 5 % 2;
    let is_known = |node: usize| node > 8 && !node.is_multiple_of(6);
    let mut csv = "id,tags,price\n".to_owned();
    let mut lists = ListBuilder::new(Float32Builder::new());
    let mut prices = Vec::new();
    for node in 0..n {
        let price = if node % 4 == 3 { String::new() } else { format!("{}", feature(node)) };
        prices.push((node % 4 != 3).then(|| f64::from(feature(node))));
        if is_known(node) {
            let [a, b] = [tag(node, 0), tag(node, 1)];
            writeln!(csv, "n{node},{a}|{b}|nan,{price}").unwrap();
            lists.append_value([Some(a as f32), Some(b as f32), None]);
        } else {
            writeln!(csv, "n{node},,{price}").unwrap();
            // Empty lists are unknown as well, also before the first label.
            if node % 2 == 0 { lists.append_null() } else { lists.append_value([]) }
        }
    }
    folder.write("items.csv", &csv);
    folder.write("edges.csv", (1..n).fold("s,t\n".to_owned(), |text, node| format!("{text}n{node},n{}\n", node / 2)));
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((0..n).map(|node| format!("n{node}"))));
    let lists: ArrayRef = Arc::new(lists.finish());
    let prices: ArrayRef = Arc::new(Float64Array::from(prices));
    folder.write_parquet("items.parquet", Compression::SNAPPY, vec![("id", ids), ("tags", lists), ("price", prices)]);
    let conf = |files: &str, label: Value| {
        let conf = json!({
            "nodes": [{"node_type": "item", "node_id_col": "id", "files": files, "labels": [label]}],
            "edges": [{"relation": ["item", "to", "item"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
        folder.write("graph.json", conf.to_string());
    };
    let several = json!({"task_type": "classification", "label_col": "tags"});
    let in_texts = json!({"task_type": "classification", "label_col": "tags", "separator": "|"});
    let number = json!({"task_type": "regression", "label_col": "price"});
    let price_or_nan = |node: usize| if node % 4 == 3 { f32::NAN } else { feature(node) };
    for (name, label, dim, num_known) in [("tags", &several, 3, 17), ("price", &number, 1, 23)] {
        let label_of_csv = if name == "tags" { &in_texts } else { label };
        conf("items.csv", label_of_csv.clone());
        let (made, _) = folder.made(&format!("{name}-csv"), &[]);
        conf("items.parquet", label.clone());
        folder.made(&format!("{name}-parquet"), &["--on-bad-rows", "drop"]);
        folder.made(&format!("{name}-limited"), &["--memory-limit", "256MiB"]);
        for other in ["parquet", "limited"] {
            let [expected, found] = ["csv", other].map(|out| arrays(&folder.path(&format!("{name}-{out}"))));
            assert!(found == expected, "{name} in {other}");
        }
        let rows = rows_of::<f32>(&folder, &format!("{name}-csv"), "item", "targets.npy");
        for (node, row) in rows.iter().enumerate() {
            let expected = match name {
                "tags" if is_known(node) => vec![tag(node, 0) as f32, tag(node, 1) as f32, f32::NAN],
                "tags" => vec![f32::NAN; 3],
                _ => vec![price_or_nan(node)],
            };
            // NaN does not equal itself.
            let shown = |row: &[f32]| format!("{row:?}");
            assert_eq!(shown(row), shown(&expected), "node {node}");
        }
        let sizes: u64 =
            made["node_types"][0]["split_sizes"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        assert!(sizes <= num_known && sizes + 3 > num_known, "{sizes} nodes in splits");
        assert_eq!(
            (&made["node_types"][0]["num_classes"], &made["node_types"][0]["targets"]["dim"]),
            (&json!(0), &json!(dim))
        );
    }
}

#[test]
fn lists_of_one_label_are_classes() {
    let folder = Folder::of(&[("edges.csv", "s,t\n1,2\n2,3\n")]);
    let classes = [None, Some(1.0_f32), Some(0.0), Some(2.0), Some(f32::NAN), Some(1.0)];
    let mut csv = "id,y\n".to_owned();
    let mut lists = ListBuilder::new(Float32Builder::new());
    let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 1);
    for (node, class) in classes.into_iter().enumerate() {
        let known = class.filter(|class| !class.is_nan());
        writeln!(csv, "{node},{}", known.map(|class| class.to_string()).unwrap_or_default()).unwrap();
        match class {
            Some(class) => lists.append_value([Some(class)]),
            None => lists.append_null(),
        }
        fixed.values().append_option(class);
        fixed.append(class.is_some());
    }
    folder.write("items.csv", &csv);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..classes.len() as i64));
    let lists: [ArrayRef; 2] = [Arc::new(lists.finish()), Arc::new(fixed.finish())];
    for (name, labels) in ["lists.parquet", "fixed.parquet"].into_iter().zip(lists) {
        folder.write_parquet(name, Compression::SNAPPY, vec![("id", ids.clone()), ("y", labels)]);
    }
    for file in ["items.csv", "lists.parquet", "fixed.parquet"] {
        let conf = json!({
            "nodes": [{"node_type": "item", "node_id_col": "id", "files": file,
                       "labels": [{"task_type": "classification", "label_col": "y"}]}],
            "edges": [{"relation": ["item", "to", "item"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
        let (made, _) = folder.with(&conf).made(&format!("of-{file}"), &[]);
        assert_eq!(made["node_types"][0]["num_classes"], 3, "{file}");
    }
    let [expected, lists, fixed] =
        ["items.csv", "lists.parquet", "fixed.parquet"].map(|file| arrays(&folder.path(&format!("of-{file}"))));
    assert!(lists == expected && fixed == expected);
}

#[test]
fn labels_of_two_kinds_are_errors() {
    let folder = Folder::of(&[("edges.csv", "s,t\n1,2\n2,3\n")]);
    let conf = |labels: Value| {
        let conf = json!({
            "nodes": [{"node_type": "item", "node_id_col": "id", "files": "items-*.parquet", "labels": labels}],
            "edges": [{"relation": ["item", "to", "item"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
        folder.write("graph.json", conf.to_string());
    };
    let ids = |range: std::ops::Range<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter_values(range)) };
    let mut lists = ListBuilder::new(Float32Builder::new());
    (0..3).for_each(|_| lists.append_value([Some(1.0), Some(0.0)]));
    let lists: ArrayRef = Arc::new(lists.finish());
    let classes: ArrayRef = Arc::new(Int64Array::from(vec![1, 0, 1]));
    let class = json!({"task_type": "classification", "label_col": "y"});
    conf(json!([class]));
    for [first, second] in [[&lists, &classes], [&classes, &lists]] {
        folder.write_parquet("items-0.parquet", Compression::SNAPPY, vec![("id", ids(1..4)), ("y", first.clone())]);
        folder.write_parquet("items-1.parquet", Compression::SNAPPY, vec![("id", ids(4..7)), ("y", second.clone())]);
        assert_has(folder.fails(&[]), &["items-1.parquet: its labels are", "in earlier rows"]);
    }
    folder.write_parquet("items-1.parquet", Compression::SNAPPY, vec![("id", ids(4..7)), ("y", classes.clone())]);
    conf(json!([{"task_type": "regression", "label_col": "y"}, class]));
    assert!(folder.fails(&[]).contains("nodes[0].labels[1].label_col: nodes[0].labels[0] has the column y already"));
}

#[test]
fn several_labels_of_a_node_type_keep_their_classes_and_splits() {
    let folder = Folder::of(&[("edges.csv", "s,t\na,b\nb,c\nc,d\nd,e\n")]);
    // Node f has no label, and other nodes have some.
    folder.write(
        "nodes.csv",
        "id,x,churn,spend,kind,tags\na,1,yes,0.5,red,1|0\nb,2,no,,blue,0|1\nc,3,yes,2.5,,1|1\nd,4,,3.5,red,0|0\ne,5,no,4.5,green,1|0\n\
         f,6,,,,\n",
    );
    let mut conf = json!({
        "nodes": [{"node_type": "user", "node_id_col": "id", "files": "nodes.csv", "features": [{"feature_col": "x"}]}],
        "edges": [{"relation": ["user", "to", "user"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
    conf["nodes"][0]["labels"] = json!([
        {"task_type": "classification", "label_col": ["churn", "kind"], "split_pct": [0.5, 0.25, 0.25]},
        {"task_type": "regression", "label_col": "spend", "split_pct": [1, 0, 0]},
        {"task_type": "classification", "label_col": "tags", "separator": "|", "split_pct": [0.4, 0.4, 0.2]}
    ]);
    folder.write("graph.json", conf.to_string());
    let mut first = None;
    for parts in ["1", "2"] {
        for flags in [&[][..], &["--memory-limit", "256MiB"]] {
            let out = format!("out{parts}{}", flags.len());
            let (made, _) = folder.made(&out, &[&["--num-partitions", parts], flags].concat());
            assert_eq!(edgecut_graph::Meta::read(&folder.path(&out)).unwrap().version, 3);
            assert_eq!(made["node_types"][0]["label_name"], "churn", "{made}");
            assert_eq!(
                (&made["node_types"][0]["num_classes"], &made["node_types"][0]["split_sizes"]),
                (&json!(2), &json!([2, 1, 1]))
            );
            let mut more = made["node_types"][0]["more_labels"].clone();
            for label in more.as_array_mut().unwrap() {
                label.as_object_mut().unwrap().remove("classes");
            }
            let multi_label = json!({"dim": 2, "kind": "multi-label"});
            assert_eq!(
                more,
                json!([
                    {"name": "kind", "has_labels": true, "num_classes": 3, "split_sizes": [2, 1, 1]},
                    {"name": "spend", "has_labels": false, "num_classes": 0, "targets": {"dim": 1, "kind": "regression"},
                        "split_sizes": [4, 0, 0]},
                    {"name": "tags", "has_labels": false, "num_classes": 0, "targets": multi_label, "split_sizes": [2, 2, 1]},
                ])
            );
            // The content does not depend on the parts or the memory.
            let content = made["node_types"][0]["digests"].clone();
            assert_eq!(first.get_or_insert(content.clone()), &content);
        }
    }
    conf["nodes"][0]["labels"] = json!([{"task_type": "classification", "label_col": ["churn", "churn"]}]);
    assert!(folder.with(&conf).fails(&[]).contains("nodes[0].labels[0] has the column churn already"));
    conf["nodes"][0]["labels"] = json!([{"task_type": "classification", "label_col": ["clicks/day", "churn"]}]);
    assert!(folder.with(&conf).fails(&[]).contains("label_col: the column \"clicks/day\" cannot be a folder name"));
}

/// The classes of kind are some of the classes of churn, so that a mistake in their order would not be an error.
#[test]
fn saved_classes_of_several_labels_are_found_by_name() {
    let folder = Folder::of(&[("n.csv", "id,churn,kind\n1,a,b\n2,b,c\n3,c,b\n"), ("e.csv", "s,d\n1,2\n")]);
    let write = |labels: Value| {
        let label = json!({"task_type": "classification", "label_col": labels, "split_pct": [1, 0, 0]});
        folder.with(&one_type(&json!({"labels": [label]}), &json!({})));
    };
    write(json!(["churn", "kind"]));
    folder.made("first", &["--num-partitions", "1"]);
    let first = folder.path("first");
    let with_saved = ["--num-partitions", "1", "--transforms", first.to_str().unwrap()];
    for labels in [json!(["kind", "churn"]), json!(["kind"])] {
        write(labels.clone());
        let out = format!("with-{}", labels.as_array().unwrap().len());
        folder.made(&out, &with_saved);
        let saved: Value =
            serde_json::from_slice(&std::fs::read(folder.path(&out).join("transforms.json")).unwrap()).unwrap();
        assert_eq!(saved["node_types"]["n"]["classes"], json!(["b", "c"]), "{labels}");
    }
    write(json!(["kind", "id"]));
    assert_has(folder.fails(&with_saved), &["transforms.json has no label id, but churn, kind, "]);
}

#[test]
fn a_row_that_is_bad_in_several_labels_counts_once() {
    let folder = Folder::of(&[("n.csv", "id,a,b\n1,0.5,1\n2,x,y\n3,2.5,z\n4,3.5,4\n"), ("e.csv", "s,d\n1,4\n")]);
    let labels = json!([{"task_type": "regression", "label_col": ["a", "b"], "split_pct": [1, 0, 0]}]);
    let conf = one_type(&json!({"labels": labels}), &json!({}));
    let (made, _) = folder.with(&conf).made("out", &["--on-bad-rows", "drop", "--num-partitions", "1"]);
    let dropped = made["dropped_rows"].as_array().unwrap();
    assert_eq!((dropped.len(), &dropped[0]["rows"], &dropped[0]["table_rows"]), (1, &json!(2), &json!(4)), "{made}");
}

#[test]
fn edges_are_held_out_by_shares_or_by_files() {
    let folder = Folder::new();
    let edges = (0..500).fold("s,t,at\n".to_owned(), |text, e| format!("{text}u{},v{},{e}\n", e % 50, e / 10));
    folder.write("edges.csv", edges);
    let with = |label: Value| {
        let conf = json!({"edges": [{"relation": ["u", "likes", "v"], "files": "edges.csv", "source_id_col": "s",
            "dest_id_col": "t", "time_col": "at", "labels": [label]}]});
        folder.write("graph.json", conf.to_string());
    };
    with(json!({"task_type": "link_prediction", "split_pct": [0.7, 0.1, 0.2]}));
    let (made, _) = folder.made("shares", &[]);
    let held_out: Vec<u64> = serde_json::from_value(made["edge_types"][0]["held_out"].clone()).unwrap();
    assert!((25..=80).contains(&held_out[0]) && (60..=140).contains(&held_out[1]), "{held_out:?}");
    let split = json!({"valid": "valid.json", "test": "test.json"});
    with(json!({"task_type": "link_prediction", "custom_split_filenames": split}));
    folder.write("valid.json", "[\"u0\", \"v0\"]\n[\"u1\",\"v0\"]\n");
    folder.write("test.json", "[\"u1\", \"v0\"]\n[\"u2\",\"v0\"]\n");
    let why = "test.json: row 1: u1, v0: the list valid has it as well: leave it in one list";
    assert_has(folder.fails(&[]), &[why]);
    let (made, _) = folder.made("files", &["--on-bad-rows", "drop"]);
    assert_eq!(made["edge_types"][0]["held_out"], json!([2, 1]));
    assert_eq!(made["edge_types"][0]["held_out_has_times"], true);
    assert_eq!(made["edge_types"][0]["num_edges"], 497);
}

/// The class, the targets and the split of an edge.
type EdgeLabel = (Option<i64>, Option<Vec<f32>>, Option<Split>);

/// Returns the label of each edge of the only edge type by the number in its only feature.
fn edge_labels(folder: &Folder, out: &str) -> Vec<EdgeLabel> {
    let mut found = std::collections::BTreeMap::new();
    for part in 0..2 {
        let part = Part::open(&folder.path(out), DiskPartId(part), true).unwrap();
        let attributes = &part.edges(EdgeTypeId(0)).attributes;
        let labels = attributes.labels.as_ref().unwrap();
        for at in 0..labels.splits.len() {
            let mut number = [0.0];
            attributes.features.as_ref().unwrap().copy_row(at, &mut number);
            let class = labels.values.classes().map(|classes| classes[at]);
            let targets = labels.values.targets().map(|targets| targets.row(at).to_vec());
            found.insert(number[0] as u64, (class, targets, Split::of_code(labels.splits[at])));
        }
    }
    found.into_values().collect()
}

#[test]
fn edges_have_classes_with_names_or_numbers_and_splits_by_shares_or_by_files() {
    let folder = Folder::new();
    let kind = |e: usize| ["fraud", "", "honest"][e % 3];
    let amount = |e: usize| if e.is_multiple_of(4) { String::new() } else { format!("{}.5", e) };
    let rows = (0..300).map(|e| format!("u{},v{},{e},{},{}\n", e % 50, e / 10, kind(e), amount(e)));
    folder.write("edges.csv", rows.fold("s,t,n,kind,amount\n".to_owned(), |text, row| text + &row));
    let with = |label: Value| {
        let conf = json!({"edges": [{"relation": ["u", "pays", "v"], "files": "edges.csv", "source_id_col": "s",
            "dest_id_col": "t", "features": [{"feature_col": "n"}], "labels": [label]}]});
        folder.write("graph.json", conf.to_string());
    };
    with(json!({"task_type": "classification", "label_col": "kind", "split_pct": [0.5, 0.25, 0.25]}));
    let (made, _) = folder.made("classes", &[]);
    assert_eq!(made["edge_types"][0]["labels"], json!({"num_classes": 2, "split_sizes": [100, 50, 50]}));
    assert_eq!(
        (&made["edge_types"][0]["num_edges"], &made["edge_types"][0]["held_out"]),
        (&json!(300), &json!([0, 0]))
    );
    let saved: Value = serde_json::from_slice(&std::fs::read(folder.path("classes/transforms.json")).unwrap()).unwrap();
    assert_eq!(saved["edge_types"]["u__pays__v"]["classes"], json!(["fraud", "honest"]));
    let of_classes = edge_labels(&folder, "classes");
    for (e, (class, _, split)) in of_classes.iter().enumerate() {
        assert_eq!((*class, split.is_some()), ([Some(0), Some(-1), Some(1)][e % 3], e % 3 != 1), "edge {e}");
    }
    // The same seed makes the same splits, and another seed makes others.
    folder.made("again", &[]);
    assert_eq!(edge_labels(&folder, "again"), of_classes);
    folder.made("other", &["--seed", "8"]);
    assert_ne!(edge_labels(&folder, "other"), of_classes);
    with(json!({"task_type": "regression", "label_col": "amount", "custom_split_filenames":
        {"train": "train.json", "test": "test.json"}}));
    // The edges 1 and 2, and all edges from u3 to v0: only one.
    folder.write("train.json", "[\"u1\", \"v0\"]\n[\"u2\",\"v0\"]\n");
    folder.write("test.json", "[\"u3\", \"v0\"]\n[\"u4\",\"v0\"]\n[\"u9\",\"v9\"]\n");
    assert!(folder.fails(&[]).contains("test.json: row 3: u9, v9: there is no such edge"));
    let (made, stderr) = folder.made("numbers", &["--on-bad-rows", "drop"]);
    let expected = json!({"targets": {"dim": 1, "kind": "regression"}, "split_sizes": [2, 0, 1]});
    assert_eq!(made["edge_types"][0]["labels"], expected);
    assert!(stderr.contains("1 of 2 test edges have no label: they are not evaluated"), "{stderr}");
    let of_numbers = edge_labels(&folder, "numbers");
    assert_eq!(of_numbers[1], (None, Some(vec![1.5]), Some(Split::Train)));
    assert_eq!(of_numbers[3], (None, Some(vec![3.5]), Some(Split::Test)));
    assert!(of_numbers[4].1.as_ref().unwrap()[0].is_nan() && of_numbers[4].2.is_none());
    assert_eq!(of_numbers[5], (None, Some(vec![5.5]), None));
}

#[test]
fn a_node_of_two_splits_is_refused() {
    let folder = Folder::of(&[("n.csv", "id,y\na,0\nb,1\nc,0\n"), ("e.csv", "s,d\na,b\nb,c\n")]);
    let split = json!({"train": "train.json", "valid": "valid.json"});
    let label = json!({"task_type": "classification", "label_col": "y", "custom_split_filenames": split});
    folder.with(&one_type(&json!({"labels": [label]}), &json!({})));
    folder.write("train.json", "\"a\"\n\"b\"\n\"a\"\n").write("valid.json", "\"b\"\n\"c\"\n");
    assert_has(folder.fails(&[]), &["valid.json: row 1: b: the list train has it as well: leave it in one list"]);
    let (made, _) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 1, 0]));
    assert_eq!(made["dropped_rows"][0]["rows"], 1);
}

/// Lines without quotes are ids as they are written, and Windows puts a mark before the first one.
#[test]
fn lists_name_ids_as_the_tables_write_them() {
    let nodes = "id,y\n1e3,0\n12345678901234567890,1\n7,0\nnull x,1\n";
    let folder = Folder::of(&[("n.csv", nodes), ("e.csv", "s,d\n7,1e3\n")]);
    let split = json!({"train": "train.json", "test": "test.json"});
    let label = json!({"task_type": "classification", "label_col": "y", "custom_split_filenames": split});
    folder.with(&one_type(&json!({"labels": [label]}), &json!({})));
    folder
        .write("train.json", "\u{feff}1e3\r\n12345678901234567890\r\n")
        .write("test.json", "[12345678901234567890]\n7\nnull x\n");
    assert_has(folder.fails(&[]), &["test.json: row 1: 12345678901234567890: the list train has it as well"]);
    let (made, _) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 0, 2]));
    folder.write("test.json", "7.0\n");
    assert_has(folder.fails(&[]), &["test.json: row 1: 7.0: there is no such node"]);
}

#[test]
fn lists_of_training_edges_have_all_edges() {
    let folder = Folder::of(&[("edges.csv", "s,t\na,x\nb,x\nb,y\n")]);
    let split = json!({"train": "train.json", "valid": "valid.json"});
    let label = json!({"task_type": "link_prediction", "custom_split_filenames": split});
    let conf = json!({"edges": [{"relation": ["u", "likes", "v"], "files": "edges.csv", "source_id_col": "s",
        "dest_id_col": "t", "labels": [label]}]});
    folder.write("graph.json", conf.to_string()).write("valid.json", "[\"b\", \"x\"]\n");
    folder.write("train.json", "[\"a\", \"x\"]\n[\"b\", \"y\"]\n");
    let (made, _) = folder.made("all", &[]);
    assert_eq!((&made["edge_types"][0]["num_edges"], &made["edge_types"][0]["held_out"]), (&json!(2), &json!([1, 0])));
    folder.write("train.json", "[\"a\", \"x\"]\n");
    let error = folder.fails(&[]);
    let why = "edges[0].labels[0].custom_split_filenames.train: 1 of 3 edges are in none of the files, such as the one from b to \
               y. All edges that are not held out are training edges";
    assert!(error.contains(why), "{error}");
    // A pair that is not an edge has no effect, so it is an error.
    folder.write("valid.json", "[\"b\", \"x\"]\n[\"a\", \"y\"]\n");
    folder.write("train.json", "[\"a\", \"x\"]\n[\"b\", \"y\"]\n");
    assert_has(folder.fails(&[]), &["valid.json: row 2: a, y: there is no such edge"]);
    let (made, _) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert_eq!(made["dropped_rows"][0]["rows"], 1);
}

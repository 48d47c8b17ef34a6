//! Configurations with each key of `gconstruct-v0.1`, each of which is accepted, or refused for a reason.

use crate::table_files::Folder;
use edgecut_tables::{TableError, TableGraph, TableOptions, Unsupported, read_tables};
use edgecut_testing::assert_has;
use serde_json::{Value, json};

/// Values at JSON pointers of a configuration, and what comes of it: the numbers of features per node or edge, of classes or
/// numbers to predict, and of the four edges that train, or the words of an error, which `--unsupported skip` may not have.
const CASES: &str = r#"
# The configuration and its tables.
/version "gconstruct-v0.1" => edges: 4
/version "gconstruct-runtime-v0.1" => refused: version: "gconstruct-runtime-v0.1" is not supported
/nodes [] => edges: 4
/edges [] => refused: edges: the list is empty
/nodes/0/node_type "" => refused: nodes[0].node_type: it is empty
/nodes/0/node_id_col "no" => refused: it has no column no
/nodes/0/files ["n.csv"] => edges: 4
/nodes/0/files "absent.csv" => refused: nodes[0].files: there is no file
/nodes/0/format {"name": "csv", "separator": ","} => edges: 4
/nodes/0/format {"name": "parquet"} => refused: n.csv
/nodes/0/format {"name": "hdf5"} => refused: hdf5 is not read. `python -m edgecut.convert CONF OUT` converts
/nodes/0/format {"name": "json"} => refused: json is not read. `python -m edgecut.convert CONF OUT` converts
/edges/0/relation ["n", "to"] => refused: expected a source type, a relation and a destination type
/edges/0/files "more/*.csv" => edges: 4
/edges/0/files ["more/e-1.csv"] => edges: 2
/edges/0/source_id_col null => refused: source_id_col and dest_id_col need each other
/edges/0/dest_id_col "w" => refused: there is no n with the id 1
# Features and their transforms.
/nodes/0/features [{"feature_col": "x"}] => features: 1
/nodes/0/features [{"feature_col": ["x", "z"], "feature_name": "xz"}] => features: 2
/nodes/0/features [{"feature_col": ["x", "z"]}] => refused: several columns need a feature_name
/nodes/0/features [{"feature_name": "x"}] => refused: nodes[0].features[0].feature_col: it is missing
/nodes/0/features [{"feature_col": "x", "feature_name": "train_mask"}] => unsupported: masks as features
/nodes/0/features [{"feature_col": "x", "out_dtype": "float16"}] => features: 1
/nodes/0/features [{"feature_col": "x", "out_dtype": "float64"}] => unsupported: out_dtype: float64
/nodes/0/features [{"feature_col": "x", "out_dtype": "int8"}] => unsupported: out_dtype: int8
/nodes/0/features [{"feature_col": "x", "feature_dim": [1]}] => features: 1
/nodes/0/features [{"feature_col": "x", "transform": {"name": "no-op"}}] => features: 1
/nodes/0/features [{"feature_col": "v", "transform": {"name": "no-op", "separator": ";"}}] => features: 2
/nodes/0/features [{"feature_col": "v", "transform": {"name": "no-op", "separator": ";", "truncate_dim": 1}}] => features: 1
/nodes/0/features [{"feature_col": "v", "separator": ";", "transform": {"name": "max_min_norm"}}] => features: 2
/nodes/0/features [{"feature_col": "v", "separator": ";", "transform": {"name": "to_categorical"}}]
    => refused: separator: it has no effect beside this transform: write it inside transform
/nodes/0/features [{"feature_col": "x", "transform": {"name": "max_min_norm", "max_bound": 4, "min_bound": 1}}]
    => features: 1
/nodes/0/features [{"feature_col": "x", "transform": {"name": "max_min_norm", "max_val": 4, "min_val": 1}}] => features: 1
/nodes/0/features [{"feature_col": "x", "transform": {"name": "standard", "sum": 30}}] => features: 1
/nodes/0/features [{"feature_col": "x", "transform": {"name": "rank_gauss", "epsilon": 1e-5}}] => features: 1
/nodes/0/features [{"feature_col": "c", "transform": {"name": "to_categorical"}}] => features: 3
/nodes/0/features [{"feature_col": "v", "transform": {"name": "to_categorical", "separator": ";"}}] => features: 8
/nodes/0/features [{"feature_col": "c", "transform": {"name": "to_categorical", "mapping": {"red": 1, "blue": 0}}}]
    => features: 2
/nodes/0/features [{"feature_col": "x", "transform": {"name": "bucket_numerical", "bucket_cnt": 4, "range": [0, 8]}}]
    => features: 4
/nodes/0/features [{"feature_col": "x", "transform": {"name": "bucket_numerical", "bucket_cnt": 4, "range": [0, 8], "slide_window_size": 2}}]
    => features: 4
/nodes/0/features [{"feature_col": "x", "transform": {"name": "bucket_numerical", "range": [0, 8]}}]
    => refused: bucket_cnt: it is missing
/nodes/0/features [{"feature_col": "c", "transform": {"name": "tokenize_hf", "bert_model": "bert"}}]
    => unsupported: tokenize_hf runs a
/nodes/0/features [{"feature_col": "c", "transform": {"name": "bert_hf", "bert_model": "bert"}}]
    => unsupported: bert_hf runs a
/nodes/0/features [{"feature_col": "x", "transform": {"name": "tabular"}}] => unsupported: the transform tabular
/nodes/0/features [{"feature_col": "x", "transform": {"name": "edge_dst_hard_negative"}}]
    => unsupported: the transform edge_dst_hard_negative
/nodes/0/features [{"feature_col": "x", "transform": {"name": "z-score"}}] => refused: z-score
/edges/0/features [{"feature_col": "w", "transform": {"name": "max_min_norm"}}] => edge features: 1
# Labels and splits.
/nodes/0/labels [{"task_type": "classification", "label_col": "y"}] => labels: 2
/nodes/0/labels [{"task_type": "regression", "label_col": "y"}] => labels: 1
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "split_pct": [0.5, 0.25, 0.25]}] => labels: 2
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "split_pct": [0.9, 0.2, 0.1]}]
    => refused: not more than 1 together
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "custom_split_filenames": {"train": "train.json", "test": "test.json"}}]
    => labels: 2
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "custom_split_filenames": {"train": "train.json", "test": "train.json"}}]
    => refused: the list train has it as well
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "label_stats_type": "frequency_cnt"}] => labels: 2
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "mask_field_names": ["a", "b", "c"]}] => labels: 2
/nodes/0/labels [{"task_type": "classification", "label_col": null}] => refused: label_col: it is missing
/nodes/0/labels [{"task_type": "reconstruct_node_feat"}] => unsupported: the task reconstruct_node_feat
/nodes/0/labels [{"task_type": "link_prediction"}] => refused: is not a task of these tables
/nodes/0/labels [{"task_type": "classification", "label_col": "y"}, {"task_type": "classification", "label_col": "c"}]
    => labels: 2
/edges/0/labels [{"task_type": "classification", "label_col": "w"}, {"task_type": "regression", "label_col": "w"}]
    => unsupported: more than one label of edges
# Each edge is held out at random.
/edges/0/labels [{"task_type": "link_prediction", "split_pct": [0.5, 0.25, 0.25]}] => edges: 3
/edges/0/labels [{"task_type": "link_prediction", "custom_split_filenames": {"test": "held.json"}}] => edges: 3
/edges/0/labels [{"task_type": "classification", "label_col": "w"}] => edges: 4
/edges/0/labels [{"task_type": "regression", "label_col": "w"}] => edges: 4
/edges/0/labels [{"task_type": "reconstruct_edge_feat"}] => unsupported: the task reconstruct_edge_feat
# Keys of other versions, and of GSProcessing.
/version "gsprocessing-v1.0" => refused: `python -m edgecut.convert CONF OUT` converts configurations of GSProcessing
/graph {} => refused: graph: it is a key of GSProcessing: write nodes and edges at the top
/nodes/0/data {} => refused: nodes[0].data: it is a key of GSProcessing: write files and format
/edges/0/source {} => refused: it is a key of GSProcessing: write source_id_col
/edges/0/relation {"type": "to"} => refused: GSProcessing's form; write the source type
/nodes/0/features [{"column": "x"}] => refused: write node_id_col, feature_col or label_col
/nodes/0/labels [{"task_type": "classification", "label_col": "y", "split_rate": {"train": 1}}] => refused: write split_pct
/is_homogeneous true => refused: is_homogeneous
/nodes/0/nodes_id_col "id" => refused: node_id_col
"#;

/// The configuration that each case changes.
fn base() -> Value {
    json!({"version": "gconstruct-v0.1",
        "nodes": [{"node_type": "n", "files": "n.csv", "node_id_col": "id"}],
        "edges": [{"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "s", "dest_id_col": "d"}]})
}

/// Sets the value at a JSON pointer, whose last part is a key.
fn set(conf: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    conf.pointer_mut(parent).unwrap()[key] = value;
}

fn read(folder: &Folder, conf: &Value, unsupported: Unsupported) -> Result<TableGraph, TableError> {
    folder.write("graph.json", conf.to_string());
    let options = TableOptions { unsupported, ..TableOptions::default() };
    read_tables(&folder.path("graph.json"), "graph", &options)
}

/// Returns the number that an outcome tells of a graph.
fn number_of(kind: &str, graph: &TableGraph) -> usize {
    let nodes = &graph.dataset.node_types[0];
    let edges = &graph.dataset.edge_types[0];
    match kind {
        "features" => nodes.features.as_ref().map_or(0, |features| features.dim()),
        "edge features" => edges.attributes.features.as_ref().map_or(0, |features| features.dim()),
        "labels" => nodes.targets.as_ref().map_or(nodes.num_classes, |targets| targets.dim),
        "edges" => edges.src.len(),
        other => panic!("{other}"),
    }
}

#[test]
fn each_key_of_gconstruct_is_accepted_or_refused_for_a_reason() {
    let folder = Folder::new();
    folder.write("n.csv", "id,x,z,c,y,v\na,1,2,red,0,1;2\nb,2,4,blue,1,3;4\nc,4,8,red,1,5;6\nd,8,16,green,0,7;8\n");
    folder.write("n.tsv", "id\tx\na\t1\nb\t2\nc\t3\nd\t4\n").write("e.csv", "s,d,w\na,b,1\nb,c,2\nc,d,3\nd,a,4\n");
    folder.write("more/e-0.csv", "s,d\na,b\nb,c\n").write("more/e-1.csv", "s,d\nc,d\nd,a\n");
    folder.write("train.json", "\"a\"\n\"b\"\n").write("test.json", "\"c\"\n").write("held.json", "[\"a\", \"b\"]\n");
    let mut wrong = Vec::new();
    for case in CASES.trim().replace("\n    => ", " => ").lines().filter(|line| !line.starts_with('#')) {
        let (change, outcome) = case.split_once(" => ").unwrap();
        let (pointer, value) = change.split_once(' ').unwrap();
        let mut conf = base();
        set(&mut conf, pointer, serde_json::from_str(value).unwrap());
        if let Err(why) = check(&folder, &conf, outcome) {
            wrong.push(format!("{case}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reads a configuration and compares what comes of it with the expected outcome.
fn check(folder: &Folder, conf: &Value, outcome: &str) -> Result<(), String> {
    let (kind, expected) = outcome.split_once(": ").unwrap();
    match (kind, read(folder, conf, Unsupported::Error)) {
        ("refused" | "unsupported", Err(error)) => {
            let why = error.to_string();
            // An error names its file.
            if !why.contains(expected) || !(why.contains(".json: ") || why.contains(".csv: ")) {
                return Err(why);
            }
        }
        ("refused" | "unsupported", Ok(_)) => return Err("it is accepted".to_owned()),
        (_, Err(error)) => return Err(error.to_string()),
        (_, Ok(graph)) => {
            let found = number_of(kind, &graph).to_string();
            if found != expected {
                return Err(format!("{found} for {expected}"));
            }
        }
    }
    if kind != "unsupported" {
        return Ok(());
    }
    match read(folder, conf, Unsupported::Skip) {
        Ok(graph) if graph.warnings.iter().any(|warning| warning.contains(expected)) => Ok(()),
        Ok(graph) => Err(format!("no warning but {:?}", graph.warnings)),
        Err(error) => Err(format!("not skipped: {error}")),
    }
}

#[test]
fn all_keys_that_are_refused_are_told_at_once() {
    let folder = Folder::of(&[("n.csv", "id,x,y\na,1,0\nb,2,1\n"), ("e.csv", "s,d\na,b\n")]);
    let mut conf = base();
    set(&mut conf, "/nodes/0/format", json!({"name": "hdf5"}));
    set(
        &mut conf,
        "/nodes/0/features",
        json!([{"feature_col": "x", "transform": {"name": "bert_hf"}}, {"feature_name": "x"}]),
    );
    set(&mut conf, "/edges/0/files", Value::Null);
    for unsupported in [Unsupported::Error, Unsupported::Skip] {
        let why = read(&folder, &conf, unsupported).expect_err("an error").to_string();
        let lines: Vec<&str> = why.lines().collect();
        assert!(lines[0].ends_with("4 keys cannot be used:"), "{why}");
        for (line, words) in lines[1..].iter().zip([
            "  nodes[0].features[1].feature_col: it is missing",
            "  nodes[0].format.name: hdf5 is not read",
            "  edges[0].files: it is missing",
            "  nodes[0].features[0].transform: the transform bert_hf runs a language model",
        ]) {
            assert!(line.starts_with(words), "{why}");
        }
    }
    let mut conf = base();
    set(
        &mut conf,
        "/nodes/0/features",
        json!([{"feature_col": "x", "feature_name": "train_mask"}, {"feature_col": "x", "transform": {"name": "tabular"}}]),
    );
    assert_has(
        read(&folder, &conf, Unsupported::Error).expect_err("an error").to_string(),
        &["2 keys cannot be used", "masks as features", "tabular"],
    );
}

#[test]
fn scalars_of_yaml_are_texts_where_texts_are_expected() {
    let folder = Folder::of(&[("n.csv", "no,y,1,007,on\na,1,2,red,4\nb,0,4,blue,5\n"), ("e.csv", "s,d\na,b\n")]);
    folder.write(
        "graph.yaml",
        "nodes:
  - node_type: n
    files: n.csv
    node_id_col: no
    features:
      - {feature_col: 1}
      - {feature_col: [1, on], feature_name: true}
      - {feature_col: 007, transform: {name: to_categorical}}
    labels:
      - {task_type: classification, label_col: y}
edges:
  - {relation: [n, to, n], files: e.csv, source_id_col: s, dest_id_col: d}
",
    );
    let options = TableOptions::default();
    let graph = read_tables(&folder.path("graph.yaml"), "g", &options).expect("a graph");
    let nodes = &graph.dataset.node_types[0];
    assert_eq!((nodes.num_nodes, nodes.num_classes), (2, 2));
    assert_eq!(nodes.features.as_ref().map(|features| features.dim()), Some(5));
}

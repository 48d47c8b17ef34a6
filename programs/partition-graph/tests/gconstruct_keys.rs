//! Configurations with each key of `gconstruct-v0.1`, each of which is accepted, or refused for a reason.

use crate::table_files::{Folder, with};
use edgecut_testing::assert_has;
use edgecut_tables::{TableError, TableGraph, TableOptions, Unsupported, read_tables};
use serde_json::{Value, json};

/// The end of a configuration.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// The graph has this many features per node.
    Features(usize),
    /// The graph has this many features per edge.
    EdgeFeatures(usize),
    /// Nodes have this many classes, or numbers to predict.
    Labels(usize),
    /// This many of the four edges train.
    TrainingEdges(usize),
    /// The configuration is an error with these words.
    Refused(&'static str),
    /// The configuration is an error with these words, but for `--unsupported skip`.
    Unsupported(&'static str),
}
use Outcome::{EdgeFeatures, Features, Labels, Refused, TrainingEdges, Unsupported as NotSupported};

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

/// Returns a transform or format without parameters.
fn named(name: &str) -> Value {
    json!({"name": name})
}

/// Returns a feature of nodes with a transform.
fn feature(column: &str, transform: Value) -> Value {
    json!([{"feature_col": column, "transform": transform}])
}

/// Returns a label of nodes with further keys.
fn label(keys: Value) -> Value {
    json!([with(json!({"task_type": "classification", "label_col": "y"}), &keys)])
}

fn read(folder: &Folder, conf: &Value, unsupported: Unsupported) -> Result<TableGraph, TableError> {
    folder.write("graph.json", conf.to_string());
    let options = TableOptions { unsupported, ..TableOptions::default() };
    read_tables(&folder.path("graph.json"), "graph", &options)
}

/// Returns the number that an outcome tells of a graph.
fn number_of(outcome: Outcome, graph: &TableGraph) -> usize {
    let nodes = &graph.dataset.node_types[0];
    let edges = &graph.dataset.edge_types[0];
    match outcome {
        Features(_) => nodes.features.as_ref().map_or(0, |features| features.dim()),
        EdgeFeatures(_) => edges.attributes.features.as_ref().map_or(0, |features| features.dim()),
        Labels(_) => nodes.targets.as_ref().map_or(nodes.num_classes, |targets| targets.dim),
        TrainingEdges(_) => edges.src.len(),
        Refused(_) | NotSupported(_) => 0,
    }
}

#[test]
fn each_key_of_gconstruct_is_accepted_or_refused_for_a_reason() {
    const NODES: &str = "/nodes/0/features";
    const EDGES: &str = "/edges/0/features";
    const LABELS: &str = "/nodes/0/labels";
    const HELD_OUT: &str = "/edges/0/labels";
    let folder = Folder::new();
    folder.write("n.csv", "id,x,z,c,y,v\na,1,2,red,0,1;2\nb,2,4,blue,1,3;4\nc,4,8,red,1,5;6\nd,8,16,green,0,7;8\n");
    folder.write("n.tsv", "id\tx\na\t1\nb\t2\nc\t3\nd\t4\n");
    folder.write("e.csv", "s,d,w\na,b,1\nb,c,2\nc,d,3\nd,a,4\n");
    folder.write("more/e-0.csv", "s,d\na,b\nb,c\n");
    folder.write("more/e-1.csv", "s,d\nc,d\nd,a\n");
    folder.write("train.json", "\"a\"\n\"b\"\n");
    folder.write("test.json", "\"c\"\n");
    folder.write("held.json", "[\"a\", \"b\"]\n");
    let cases: Vec<(&str, Value, Outcome)> = vec![
        // The configuration and its tables.
        ("/version", json!("gconstruct-v0.1"), TrainingEdges(4)),
        (
            "/version",
            json!("gconstruct-runtime-v0.1"),
            Refused("version: \"gconstruct-runtime-v0.1\" is not supported"),
        ),
        ("/nodes", json!([]), TrainingEdges(4)),
        ("/edges", json!([]), Refused("edges: the list is empty")),
        ("/nodes/0/node_type", json!(""), Refused("nodes[0].node_type: it is empty")),
        ("/nodes/0/node_id_col", json!("no"), Refused("it has no column no")),
        ("/nodes/0/files", json!(["n.csv"]), TrainingEdges(4)),
        ("/nodes/0/files", json!("absent.csv"), Refused("nodes[0].files: there is no file")),
        ("/nodes/0/format", json!({"name": "csv", "separator": ","}), TrainingEdges(4)),
        ("/nodes/0/format", named("parquet"), Refused("n.csv")),
        ("/nodes/0/format", named("hdf5"), Refused("hdf5 is not read. `python -m edgecut.convert CONF OUT` converts")),
        ("/nodes/0/format", named("json"), Refused("json is not read. `python -m edgecut.convert CONF OUT` converts")),
        ("/edges/0/relation", json!(["n", "to"]), Refused("expected a source type, a relation and a destination type")),
        ("/edges/0/files", json!("more/*.csv"), TrainingEdges(4)),
        ("/edges/0/files", json!(["more/e-1.csv"]), TrainingEdges(2)),
        ("/edges/0/source_id_col", Value::Null, Refused("source_id_col and dest_id_col need each other")),
        ("/edges/0/dest_id_col", json!("w"), Refused("there is no n with the id 1")),
        // Features and their transforms.
        (NODES, json!([{"feature_col": "x"}]), Features(1)),
        (NODES, json!([{"feature_col": ["x", "z"], "feature_name": "xz"}]), Features(2)),
        (NODES, json!([{"feature_col": ["x", "z"]}]), Refused("several columns need a feature_name")),
        (NODES, json!([{"feature_name": "x"}]), Refused("nodes[0].features[0].feature_col: it is missing")),
        (NODES, json!([{"feature_col": "x", "feature_name": "train_mask"}]), NotSupported("masks as features")),
        (NODES, json!([{"feature_col": "x", "out_dtype": "float16"}]), Features(1)),
        (NODES, json!([{"feature_col": "x", "out_dtype": "float64"}]), NotSupported("out_dtype: float64")),
        (NODES, json!([{"feature_col": "x", "out_dtype": "int8"}]), NotSupported("out_dtype: int8")),
        (NODES, json!([{"feature_col": "x", "feature_dim": [1]}]), Features(1)),
        (NODES, feature("x", named("no-op")), Features(1)),
        (NODES, json!([{"feature_col": "v", "transform": {"name": "no-op", "separator": ";"}}]), Features(2)),
        (NODES, feature("v", json!({"name": "no-op", "separator": ";", "truncate_dim": 1})), Features(1)),
        (NODES, json!([{"feature_col": "v", "separator": ";", "transform": named("max_min_norm")}]), Features(2)),
        (
            NODES,
            json!([{"feature_col": "v", "separator": ";", "transform": named("to_categorical")}]),
            Refused("separator: it has no effect beside this transform: write it inside transform"),
        ),
        (NODES, feature("x", json!({"name": "max_min_norm", "max_bound": 4, "min_bound": 1})), Features(1)),
        (NODES, feature("x", json!({"name": "max_min_norm", "max_val": 4, "min_val": 1})), Features(1)),
        (NODES, feature("x", json!({"name": "standard", "sum": 30})), Features(1)),
        (NODES, feature("x", json!({"name": "rank_gauss", "epsilon": 1e-5})), Features(1)),
        (NODES, feature("c", named("to_categorical")), Features(3)),
        (NODES, feature("v", json!({"name": "to_categorical", "separator": ";"})), Features(8)),
        (NODES, feature("c", json!({"name": "to_categorical", "mapping": {"red": 1, "blue": 0}})), Features(2)),
        (NODES, feature("x", json!({"name": "bucket_numerical", "bucket_cnt": 4, "range": [0, 8]})), Features(4)),
        (
            NODES,
            feature("x", json!({"name": "bucket_numerical", "bucket_cnt": 4, "range": [0, 8], "slide_window_size": 2})),
            Features(4),
        ),
        (
            NODES,
            feature("x", json!({"name": "bucket_numerical", "range": [0, 8]})),
            Refused("bucket_cnt: it is missing"),
        ),
        (NODES, feature("c", json!({"name": "tokenize_hf", "bert_model": "bert"})), NotSupported("tokenize_hf runs a")),
        (NODES, feature("c", json!({"name": "bert_hf", "bert_model": "bert"})), NotSupported("bert_hf runs a")),
        (NODES, feature("x", named("tabular")), NotSupported("the transform tabular")),
        (NODES, feature("x", named("edge_dst_hard_negative")), NotSupported("the transform edge_dst_hard_negative")),
        (NODES, feature("x", named("z-score")), Refused("z-score")),
        (EDGES, json!([{"feature_col": "w", "transform": {"name": "max_min_norm"}}]), EdgeFeatures(1)),
        // Labels and splits.
        (LABELS, label(json!({})), Labels(2)),
        (LABELS, label(json!({"task_type": "regression"})), Labels(1)),
        (LABELS, label(json!({"split_pct": [0.5, 0.25, 0.25]})), Labels(2)),
        (LABELS, label(json!({"split_pct": [0.9, 0.2, 0.1]})), Refused("not more than 1 together")),
        (LABELS, label(json!({"custom_split_filenames": {"train": "train.json", "test": "test.json"}})), Labels(2)),
        (
            LABELS,
            label(json!({"custom_split_filenames": {"train": "train.json", "test": "train.json"}})),
            Refused("the list train has it as well"),
        ),
        (LABELS, label(json!({"label_stats_type": "frequency_cnt"})), Labels(2)),
        (LABELS, label(json!({"mask_field_names": ["a", "b", "c"]})), Labels(2)),
        (LABELS, label(json!({"label_col": Value::Null})), Refused("label_col: it is missing")),
        (LABELS, json!([{"task_type": "reconstruct_node_feat"}]), NotSupported("the task reconstruct_node_feat")),
        (LABELS, json!([{"task_type": "link_prediction"}]), Refused("is not a task of these tables")),
        (
            LABELS,
            json!([{"task_type": "classification", "label_col": "y"}, {"task_type": "classification", "label_col": "c"}]),
            Labels(2),
        ),
        (
            HELD_OUT,
            json!([{"task_type": "classification", "label_col": "w"}, {"task_type": "regression", "label_col": "w"}]),
            NotSupported("more than one label of edges"),
        ),
        // Each edge is held out at random.
        (HELD_OUT, json!([{"task_type": "link_prediction", "split_pct": [0.5, 0.25, 0.25]}]), TrainingEdges(3)),
        (
            HELD_OUT,
            json!([{"task_type": "link_prediction", "custom_split_filenames": {"test": "held.json"}}]),
            TrainingEdges(3),
        ),
        (HELD_OUT, json!([{"task_type": "classification", "label_col": "w"}]), TrainingEdges(4)),
        (HELD_OUT, json!([{"task_type": "regression", "label_col": "w"}]), TrainingEdges(4)),
        (HELD_OUT, json!([{"task_type": "reconstruct_edge_feat"}]), NotSupported("the task reconstruct_edge_feat")),
        // Keys of other versions, and of GSProcessing.
        (
            "/version",
            json!("gsprocessing-v1.0"),
            Refused("`python -m edgecut.convert CONF OUT` converts configurations of GSProcessing"),
        ),
        ("/graph", json!({}), Refused("graph: it is a key of GSProcessing: write nodes and edges at the top")),
        ("/nodes/0/data", json!({}), Refused("nodes[0].data: it is a key of GSProcessing: write files and format")),
        ("/edges/0/source", json!({}), Refused("it is a key of GSProcessing: write source_id_col")),
        ("/edges/0/relation", json!({"type": "to"}), Refused("GSProcessing's form; write the source type")),
        (NODES, json!([{"column": "x"}]), Refused("write node_id_col, feature_col or label_col")),
        (LABELS, label(json!({"split_rate": {"train": 1}})), Refused("write split_pct")),
        ("/is_homogeneous", json!(true), Refused("is_homogeneous")),
        ("/nodes/0/nodes_id_col", json!("id"), Refused("node_id_col")),
    ];
    assert!(cases.len() >= 35);
    let mut wrong = Vec::new();
    for (pointer, value, outcome) in cases {
        let what = format!("{pointer}: {value}");
        let mut conf = base();
        set(&mut conf, pointer, value);
        if let Err(why) = check(&folder, &conf, outcome) {
            wrong.push(format!("{what}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reads a configuration and compares the end with the expected one.
fn check(folder: &Folder, conf: &Value, outcome: Outcome) -> Result<(), String> {
    match (outcome, read(folder, conf, Unsupported::Error)) {
        (Refused(words) | NotSupported(words), Err(error)) => {
            let why = error.to_string();
            // An error names its file.
            if !why.contains(words) || !(why.contains(".json: ") || why.contains(".csv: ")) {
                return Err(why);
            }
        }
        (Refused(_) | NotSupported(_), Ok(_)) => return Err("it is accepted".to_owned()),
        (_, Err(error)) => return Err(error.to_string()),
        (Features(expected) | EdgeFeatures(expected) | Labels(expected) | TrainingEdges(expected), Ok(graph)) => {
            let found = number_of(outcome, &graph);
            if found != expected {
                return Err(format!("{found} for {expected}"));
            }
        }
    }
    let NotSupported(words) = outcome else { return Ok(()) };
    match read(folder, conf, Unsupported::Skip) {
        Ok(graph) if graph.warnings.iter().any(|warning| warning.contains(words)) => Ok(()),
        Ok(graph) => Err(format!("no warning but {:?}", graph.warnings)),
        Err(error) => Err(format!("not skipped: {error}")),
    }
}

#[test]
fn all_keys_that_are_refused_are_told_at_once() {
    let folder = Folder::new();
    folder.write("n.csv", "id,x,y\na,1,0\nb,2,1\n");
    folder.write("e.csv", "s,d\na,b\n");
    let mut conf = base();
    set(&mut conf, "/nodes/0/format", named("hdf5"));
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
    assert_has(read(&folder, &conf, Unsupported::Error).expect_err("an error").to_string(), &["2 keys cannot be used", "masks as features", "tabular"]);
}

#[test]
fn scalars_of_yaml_are_texts_where_texts_are_expected() {
    let folder = Folder::new();
    folder.write("n.csv", "no,y,1,007,on\na,1,2,red,4\nb,0,4,blue,5\n");
    folder.write("e.csv", "s,d\na,b\n");
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

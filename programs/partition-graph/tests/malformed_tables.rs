//! Tables and configurations that cannot be read: each fails with the file, and the row or key.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::table_files;

use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, ListArray, StringArray, types::Float64Type};
use edgecut_testing::assert_has;
use parquet::basic::Compression;
use std::sync::Arc;
use table_files::Folder;

/// A configuration of `nodes.csv` and `edges.csv`.
const CONF: &str = r#"{"nodes": [{"node_type": "n", "node_id_col": "id", "files": "nodes.csv", "time_col": "t",
    "features": [{"feature_col": "x"}], "labels": [{"task_type": "classification", "label_col": "y"}]}],
    "edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "d",
    "weight_col": "w"}]}"#;
const NODES: &str = "id,x,y,t\na,1,0,5\nb,2,1,6\nc,3,0,7\n";
const EDGES: &str = "s,d,w\na,b,1\nb,c,2\n";

/// Writes a folder that can be read.
fn good() -> Folder {
    let folder = Folder::new();
    folder.write("graph.json", CONF).write("nodes.csv", NODES).write("edges.csv", EDGES);
    folder
}

/// A file that makes a folder malformed.
enum Change {
    /// Replaces the table of nodes by these bytes.
    Csv(&'static [u8]),
    /// Replaces the table of nodes by a Parquet file.
    Parquet(fn() -> Vec<(&'static str, ArrayRef)>),
    /// Cuts the Parquet file of nodes to half its size.
    Truncated,
}
use Change::{Csv, Parquet, Truncated};

fn nodes(x: ArrayRef) -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("id", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        ("x", x),
        ("y", Arc::new(Int64Array::from(vec![0, 1, 0]))),
        ("t", Arc::new(Int64Array::from(vec![5, 6, 7]))),
    ]
}

fn lists(rows: Vec<Option<Vec<Option<f64>>>>) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows))
}

/// Changes of texts, and their errors: `FILE: FROM -> TO`, or keys that are added to the feature.
const TEXTS: &str = r#"
nodes.csv: b,2 -> b,nan
    nodes.csv: row 2: column x: it is missing
nodes.csv: b,2 -> b,-inf
    nodes.csv: row 2: column x: -inf is infinite
nodes.csv: b,2 -> b,1e39
    row 2: column x: 1
nodes.csv: c,3 -> c,
    nodes.csv: row 3: column x: it is missing; nodes[0].features[0].impute replaces missing values: choose one of mean, median, most_frequent, constant and none (zeros)
nodes.csv: a,1 -> a,2020-01-31
    nodes.csv: row 1: column x: "2020-01-31" is not a number. The transform {name: date} reads dates and times
feature: "transform": {"name": "date"}
    nodes.csv: row 1: column x: 1 is a number whose unit is not known: set epoch to s, ms, us or ns, or set format
feature: "impute": "mean", "transform": {"name": "to_categorical"}
    nodes[0].features[0].impute: texts have no mean: choose one of most_frequent, constant and none
feature: "impute": "constant"
    nodes[0].features[0].impute: constant needs fill_value
feature: "indicator": true
    nodes[0].features[0].indicator: it needs impute
graph.json: "time_col": "t" -> "time_col": {"name": "t", "epoch": "s", "format": "%s"}
    nodes[0].time_col.epoch: numbers since 1970 have no format: give one of epoch and format
graph.json: "time_col": "t" -> "time_col": {"name": "t", "epoch": "h"}
    nodes[0].time_col.epoch: "h" is not a unit of numbers since 1970: choose s, ms, us or ns
feature: "transform": {"name": "log", "offset": -1}
    nodes.csv: row 1: feature x of column x: number 0 is -inf after the transform: log of 1 is not a finite
feature: "fit_on": "train", "transform": {"name": "log"}
    nodes[0].features[0].fit_on: nothing is fitted for log: leave it out
feature: "fit_on": "train", "impute": "constant", "fill_value": 0, "transform": {"name": "clip", "min": 0}
    nodes[0].features[0].fit_on: nothing is fitted for clip: leave it out
feature: "fit_on": "all", "transform": {"name": "max_min_norm", "max_val": 3, "min_val": 0}
    nodes[0].features[0].fit_on: nothing is fitted for max_min_norm: leave it out
graph.json: [{"feature_col": "x"}], "labels": [{"task_type" -> [{"feature_col": "x", "fit_on": "train", "transform": {"name": "z_score"}}], "labels": [{"split_pct": [0, 0.5, 0.5], "task_type"
    nodes[0].features[0], feature x: there are no training rows to fit z_score on: set fit_on to all
feature: "separator": "|", "transform": {"name": "to_categorical"}
    nodes[0].features[0].separator: it has no effect beside this transform: write it inside transform
feature: "length": 2, "transform": {"name": "no-op"}
    nodes[0].features[0].length: it has no effect beside this transform: write it inside transform
feature: "transform": {"name": "date", "cyclic": true}
    nodes[0].features[0].transform.cyclic: no output begins again: leave it out, or add hour
feature: "transform": {"name": "clip"}
    nodes[0].features[0].transform: clip needs min, max or both, or quantiles
graph.json: "weight_col" -> "labels": [{"task_type": "link_prediction", "split_by": "w"}], "weight_col"
    edges[0]: edges are held out by their time_col: set time_col to w
graph.json: "weight_col" -> "labels": [{"task_type": "link_prediction", "split_by_group": "w"}], "weight_col"
    edges[0].labels[0].split_by_group: edges are not held out by group
graph.json: "label_col": "y" -> "label_col": "y", "split_by": "t", "split_by_group": "x"
    nodes[0].labels[0].split_by_group: split_by is given already: choose one
graph.json: "weight_col": "w" -> "labels": [{"task_type": "link_prediction"}], "features": [{"feature_col": "s", "transform": {"name": "frequency"}}]
    edges[0].features[0]: frequency is fitted on rows of training, but edges are held out after
nodes.csv: a,1 -> a,NULL
    nodes.csv: row 1: column x: "NULL" is not a number; missing_values: ["NULL"] reads it as a missing value
nodes.csv: a,1 -> a, NULL
    nodes.csv: row 1: column x: " NULL" is not a number; missing_values: [" NULL"] reads it as a missing value
nodes.csv: a,1 -> a,"1,5"
    nodes.csv: row 1: column x: "1,5" is not a number. Write numbers with a point, for example with pandas: table = pandas.read_csv
nodes.csv: a,1 -> a,one
    nodes.csv: row 1: column x: "one" is not a number. The transform {name: to_categorical} reads texts
nodes.csv: b,2 -> ,2
    nodes.csv: row 2: column id: the id is missing
nodes.csv: c,3 -> a,3
    nodes.csv: row 3: column id: the id a of n is also in an earlier row
nodes.csv: 1,6 -> 1,
    nodes.csv: row 2: column t: it is missing
nodes.csv: 1,6 -> 1,6.5
    row 2: column t: 6.5 is not a whole number
nodes.csv: 3,0,7 -> 3,-4,7
    nodes.csv: row 3: -4 is not a class
nodes.csv: 3,0,7 -> 3,99999,7
    nodes.csv: n has the class 99999, but its labels have 3 different values
edges.csv: b,c -> z,c
    edges.csv: row 2: column s: there is no n with the id z
edges.csv: b,c -> B,c
    edges.csv: row 2: column s: there is no n with the id B, but one with the id "b": spaces, zeros at the start, and small and capital letters count
edges.csv: b,c -> b ,c
    edges.csv: row 2: column s: there is no n with the id b , but one with the id "b"
edges.csv: b,c -> 00b,c
    edges.csv: row 2: column s: there is no n with the id 00b, but one with the id "b"
edges.csv: a,b -> a,7
    edges.csv: row 1: column d: there is no n with the id 7
edges.csv: a,b -> a,
    edges.csv: row 1: column d: the id is missing
edges.csv: c,2 -> c,-2
    edges.csv: row 2: column w: -2 is negative
edges.csv: c,2 -> c,1e-50
    edges.csv: row 2: column w: 1e-50 is too small for 32 bits
nodes.csv: b,2,1,6 -> b,2,1
    incorrect number of fields for line 3, expected 4 got 3
nodes.csv: id,x -> id,X
    nodes.csv: it has no column x (did you mean X?). Its columns are id, X, y, t
nodes.csv: y,t -> y,x
    nodes.csv: two columns have the name x
graph.json: "time_col": "t" -> "time_col": "x", "time_col": "t"
    graph.json: the key "time_col" is given twice at line 1 column
graph.json: "weight_col" -> "labels": [{"task_type": "link_prediction", "label_col": "w"}], "weight_col"
    edges[0].labels[0].label_col: link prediction reads no labels: it is not supported
feature: "out_dtype": "float64"
    nodes[0].features[0].out_dtype: float64, as features are float32 or float16: it is not supported
graph.json: nodes.csv -> node.csv
    node.csv (did you mean nodes.csv?)
graph.json: nodes.csv -> nodes-*.csv
    nodes[0].files: there is no file
graph.json: nodes.csv -> graph.json
    graph.json: its format is not known
graph.json: "nodes.csv" -> "nodes.csv", "format": {"name": "parquet"}
    it is not a Parquet file, or it is truncated
graph.json: ["n", "to" -> ["n" "to"
    graph.json: it is not valid JSON
graph.json: time_col -> tyme_col
    graph.json: nodes[0].tyme_col: unknown key
graph.json: "t" -> [7]
    graph.json: nodes[0].time_col: expected a text, found a list
graph.json: "node_type": "n", "node_id_col" -> "node_id_col"
    graph.json: nodes[0].node_type: it is missing
graph.json: "s", "dest_id_col": "d", -> "s",
    edges[0]: source_id_col and dest_id_col need each other
graph.json: ["n", "to", "n"] -> ["n", "to"]
    edges[0].relation: expected a source type
graph.json: classification -> clustering
    nodes[0].labels[0].task_type: "clustering" is not a task
graph.json: classification", "label_col": "y" -> regression", "label_col": "id"
    nodes.csv: row 1: column id: "a" is not a number
graph.json: "weight_col": "w" -> "labels": [{"task_type": "regression"}]
    edges[0].labels[0].label_col: it is missing
feature: "transform": {"name": "standrad"}
    features[0].transform.name: "standrad" is not a transform (did you mean standard?). The transforms are no-op,
feature: "transform": {"name": "bert_hf", "bert_model": "b", "max_seq_length": 8}
    nodes[0].features[0].transform: the transform bert_hf runs a language model
graph.json: "nodes.csv" -> "nodes.h5", "format": {"name": "hdf5"}
    nodes[0].format.name: hdf5 is not read. `python -m edgecut.convert CONF OUT` converts
graph.json: {"nodes" -> {"version": "gsprocessing-v1.0", "nodes"
    version: "gsprocessing-v1.0" is not supported
graph.json: "label_col": "y" -> "label_col": "y", "split_pct": [0.8, 0.3, 0.1]
    split_pct: expected shares
graph.json: {"feature_col": "x"} -> {"feature_col": "x"}, {"feature_col": "y", "feature_name": "x"}
    nodes[0].features[0] and nodes[0].features[1] of n both have the name x; nodes[0].features[0] has the name of its column: give it another name by feature_name
graph.json: {"feature_col": "x"} -> {"feature_col": "x", "feature_name": "z"}, {"feature_col": "y", "feature_name": "z"}
    both have the name z; change nodes[0].features[1].feature_name
feature: "transform": {"name": "bucket_numerical", "range": [0, 1], "bucket_cnt": 4000000000}
    nodes[0].features[0].transform.bucket_cnt: 4000000000 is more than 10000
feature: "transform": {"name": "rank_gauss", "epsilon": 1e-300}
    nodes[0].features[0].transform.epsilon: expected a number from 0.000000000000001 to 1
feature: "transform": {"name": "standard", "sum": 1e-300}
    nodes.csv: row 1: feature x of column x: number 0 is inf after the transform: standard of 1 is not a finite
feature: "transform": {"name": "max_min_norm", "max_val": 1, "min_val": 1}
    has the range 1..=1, which max_min_norm cannot scale
graph.json: "label_col": "y" -> "label_col": "y", "custom_split_filenames": {"train": "edges.json"}
    edges.json: row 2: q: there is no such node
"#;

const FILES: &[(&str, Change, &str)] = &[
    (
        "two Parquet columns of a name",
        Parquet(|| {
            [nodes(Arc::new(Int64Array::from(vec![1, 2, 3]))), nodes(Arc::new(Int64Array::from(vec![4, 5, 6])))]
                .concat()
        }),
        "two columns have the name ",
    ),
    ("empty file", Csv(b""), "nodes.csv: it is empty"),
    ("no nodes", Csv(b"id,x,y,t\n"), "nodes.csv: the table nodes[0] has no rows"),
    (
        "not UTF-8",
        Csv(b"id,x,y,t\nM\xfcller,1,0,5\n"),
        ": convert the file to UTF-8, for example by `iconv -f WINDOWS-1252 -t UTF-8`",
    ),
    (
        "UTF-16",
        Csv(b"\xff\xfei\0d\0,\0x\0\n\0"),
        "nodes.csv: it is in UTF-16: convert it to UTF-8, for example by `iconv",
    ),
    (
        "semicolons",
        Csv(b"id;x;y;t\na;1;0;5\n"),
        "its first line has \";\" between names: set format to {name: csv, separator: \";\"}",
    ),
    (
        "tabs",
        Csv(b"id\tx\ty\tt\na\t1\t0\t5\n"),
        "its first line has \"\\t\" between names: set format to {name: csv, separator: \"\\t\"}",
    ),
    ("cut gzip", Csv(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 75, 76]), "nodes.csv: "),
    ("cut zstd", Csv(&[0x28, 0xb5, 0x2f, 0xfd, 4, 0]), "nodes.csv: "),
    ("Parquet as CSV", Csv(b"PAR1...."), "nodes.csv: it is a Parquet file, but its format is csv"),
    ("cut Parquet", Truncated, "nodes.parquet: it is not a Parquet file, or it is truncated"),
    (
        "ragged lists",
        Parquet(|| nodes(lists(vec![Some(vec![Some(1.0)]), Some(vec![Some(1.0), Some(2.0)]), None]))),
        "nodes.parquet: row 2: column x: it has 2 numbers, but earlier rows have 1",
    ),
    (
        "null in a list",
        Parquet(|| nodes(lists(vec![Some(vec![Some(1.0)]), Some(vec![None]), None]))),
        "nodes.parquet: row 2: column x: it is missing",
    ),
    (
        "empty lists",
        Parquet(|| nodes(lists(vec![Some(vec![]), Some(vec![]), None]))),
        "nodes.parquet: row 1: column x: it has no numbers",
    ),
    (
        "bytes as feature",
        Parquet(|| nodes(Arc::new(BinaryArray::from_vec(vec![b"a", b"b", b"c"])))),
        "nodes.parquet: column x: its type is Binary, which holds no numbers",
    ),
    (
        "floats as ids",
        Parquet(|| {
            let x: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.5, 3.0]));
            let mut columns = nodes(x.clone());
            columns[0].1 = x;
            columns
        }),
        "nodes.parquet: row 2: column id: its type is Float64, but ids are texts or whole numbers, and 2.5 is not a whole number. \
         Convert the column, for example with pandas: table[column] = table[column].astype(str)",
    ),
    (
        "label other than 0 and 1",
        Parquet(|| {
            let mut columns = nodes(Arc::new(Int64Array::from(vec![1, 2, 3])));
            columns[2].1 = lists([1.0, 3.0, 1.0].map(|first| Some(vec![Some(first), Some(0.0)])).to_vec());
            columns
        }),
        "nodes.parquet: row 2: column y: 3 is not 0 or 1",
    ),
    (
        "fewer labels",
        Parquet(|| {
            let mut columns = nodes(Arc::new(Int64Array::from(vec![1, 2, 3])));
            let two = || Some(vec![Some(1.0), Some(0.0)]);
            columns[2].1 = lists(vec![two(), two(), Some(vec![Some(1.0)])]);
            columns
        }),
        "nodes.parquet: row 3: column y: it has 1 numbers, but earlier rows have 2",
    ),
];

fn change(folder: &Folder, change: &Change) {
    if !matches!(change, Csv(_)) {
        folder.write("graph.json", CONF.replace("nodes.csv", "nodes.parquet"));
    }
    match change {
        Csv(bytes) => std::fs::write(folder.path("nodes.csv"), bytes).unwrap(),
        Parquet(columns) => folder.write_parquet("nodes.parquet", Compression::SNAPPY, columns()),
        Truncated => {
            let x: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
            folder.write_parquet("nodes.parquet", Compression::SNAPPY, nodes(x));
            let bytes = std::fs::read(folder.path("nodes.parquet")).unwrap();
            folder.write("nodes.parquet", &bytes[..bytes.len() / 2]);
        }
    }
}

/// Replaces a text in a file, as a line of [`TEXTS`] says.
fn replace(folder: &Folder, change: &str) {
    let (name, change) = change.split_once(": ").unwrap();
    let (name, from, to) = if name == "feature" {
        ("graph.json", r#""feature_col": "x""#, format!(r#""feature_col": "x", {change}"#))
    } else {
        let (from, to) = change.split_once(" -> ").unwrap();
        (name, from, to.to_owned())
    };
    let text = std::fs::read_to_string(folder.path(name)).unwrap();
    assert!(text.contains(from), "{from}");
    folder.write(name, text.replacen(from, &to, 1));
}

/// Describes the failure of a folder that does not have this error.
fn failure(folder: &Folder, what: &str, why: &str) -> Option<String> {
    folder.write("edges.json", "\"a\"\n\"q\"\n");
    let output = folder.run("failed", &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let is_clean = output.status.code() == Some(1) && !folder.path("failed").exists() && !stderr.contains("panicked");
    let is_expected = is_clean && stderr.contains(why) && stderr.starts_with("error: ");
    (!is_expected).then(|| format!("{what}: {:?} {stderr}, expected {why}", output.status.code()))
}

#[test]
fn every_malformed_table_has_its_error() {
    good().made("out", &[]);
    let mut failures = Vec::new();
    let lines: Vec<&str> = TEXTS.trim().lines().collect();
    let (cases, rest) = lines.as_chunks::<2>();
    assert!(rest.is_empty(), "{rest:?}");
    for [what, why] in cases {
        let folder = good();
        replace(&folder, what);
        failures.extend(failure(&folder, what, why.trim()));
    }
    for (name, what, why) in FILES {
        let folder = good();
        change(&folder, what);
        failures.extend(failure(&folder, name, why));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn folders_without_tables_and_with_other_files_are_refused() {
    let folder = good();
    folder.write("graph.json", CONF.replace("nodes.csv", "tables"));
    std::fs::create_dir_all(folder.path("tables/year=2020")).unwrap();
    assert_has(folder.fails(&[]), &["tables: the folder contains no tables"]);
    std::fs::create_dir_all(folder.path("tables/old")).unwrap();
    assert_has(folder.fails(&[]), &["tables: it contains the folder old: name the files by a pattern"]);
    std::fs::remove_dir_all(folder.path("tables/old")).unwrap();
    folder.write("tables/notes.md", "");
    assert_has(folder.fails(&[]), &["tables: notes.md is not a table"]);
}

#[test]
fn flags_of_tables_need_a_configuration() {
    let folder = good();
    let usage = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_partition-graph"));
        let output = command.args(["--dataset", "g", "--num-partitions", "2"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for flag in [["--on-bad-rows", "drop"], ["--unsupported", "skip"], ["--transforms", "x.json"]] {
        assert!(usage(&flag).contains("--conf <FILE>"), "{}", usage(&flag));
    }
    let conf = folder.path("graph.json");
    let conf = ["--conf", conf.to_str().unwrap()];
    assert!(usage(&[&conf[..], &["--dataset-dir", "x"]].concat()).contains("cannot be used with"));
    assert!(usage(&[&conf[..], &["--on-bad-rows", "keep"]].concat()).contains("expected error or drop"));
}

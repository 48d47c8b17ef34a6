//! Graphs from tables: the same parts as from arrays, and the ids of the tables.

use crate::table_files::{Folder, arrays, contents, rows_of};
use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, StringArray};
use edgecut_graph::{DiskPartId, Meta, NodeTypeId, Part, write_npy};
use edgecut_testing::succeeded;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;

const NUM_PAPERS: usize = 40;
const NUM_AUTHORS: usize = 23;

/// Returns numbers with many digits.
pub(crate) fn feature(at: usize) -> f32 {
    (at as f32 * 0.731).sin() * 10.0_f32.powi(at as i32 % 9 - 4)
}

fn paper(n: usize) -> String {
    format!("paper/{:x}", n * 7919 % 1009)
}

fn author(n: usize) -> i64 {
    (n as i64 * 37 - 300) * 1_000_000_007
}

/// Returns the ends of the edges from authors to papers.
fn writes() -> Vec<(usize, usize)> {
    (0..90).map(|e| (e * 5 % NUM_AUTHORS, e * 11 % NUM_PAPERS)).collect()
}

/// Writes the graph as a folder of arrays, `arrays/`.
fn write_arrays(folder: &Folder) {
    let papers = folder.path("arrays/nodes/paper");
    let authors = folder.path("arrays/nodes/author");
    let edges = folder.path("arrays/edges/author__writes__paper");
    [&papers, &authors, &edges].iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
    let x: Vec<f32> = (0..NUM_PAPERS * 3).map(feature).collect();
    write_npy(&papers.join("x.npy"), &[NUM_PAPERS, 3], &x).unwrap();
    let y: Vec<i64> = (0..NUM_PAPERS as i64).map(|n| if n % 8 == 7 { -1 } else { n % 3 }).collect();
    write_npy(&papers.join("y.npy"), &[NUM_PAPERS], &y).unwrap();
    let times: Vec<i64> = (0..NUM_PAPERS as i64).map(|n| 1990 + n * 13 % 30).collect();
    write_npy(&papers.join("node_time.npy"), &[NUM_PAPERS], &times).unwrap();
    for (rest, name) in ["train_idx.npy", "val_idx.npy", "test_idx.npy"].iter().enumerate() {
        let ids: Vec<i64> = (0..NUM_PAPERS).filter(|n| n % 8 == rest).map(|n| n as i64).collect();
        write_npy(&papers.join(name), &[ids.len()], &ids).unwrap();
    }
    write_npy(&authors.join("num_nodes.npy"), &[1], &[NUM_AUTHORS as i64]).unwrap();
    let ends = writes();
    let index: Vec<i64> = ends.iter().map(|e| e.0 as i64).chain(ends.iter().map(|e| e.1 as i64)).collect();
    write_npy(&edges.join("edge_index.npy"), &[2, ends.len()], &index).unwrap();
    let attr: Vec<f32> = (0..ends.len() * 2).map(|n| feature(n + 7)).collect();
    write_npy(&edges.join("edge_attr.npy"), &[ends.len(), 2], &attr).unwrap();
    let weights: Vec<f32> = (0..ends.len()).map(|n| feature(n).abs()).collect();
    write_npy(&edges.join("edge_weight.npy"), &[ends.len()], &weights).unwrap();
    let times: Vec<i64> = (0..ends.len() as i64).map(|n| 2000 + n).collect();
    write_npy(&edges.join("edge_time.npy"), &[ends.len()], &times).unwrap();
}

/// Returns the configuration of the graph. `files` are those of papers, authors and edges.
fn conf(files: [Value; 3], features: [Value; 2]) -> String {
    let [papers, authors, writes] = files;
    let [of_papers, of_edges] = features;
    let label = json!({"label_col": "class", "task_type": "classification", "custom_split_filenames":
        {"train": "train.json", "valid": ["valid.json"], "test": "test.parquet", "column": "paper"}});
    json!({"version": "gconstruct-v0.1",
        "nodes": [
            {"node_type": "paper", "node_id_col": "id", "files": papers, "time_col": "year", "features": of_papers,
             "labels": [label]},
            {"node_type": "author", "node_id_col": "number", "files": authors}],
        "edges": [{"relation": ["author", "writes", "paper"], "files": writes, "source_id_col": "by",
             "dest_id_col": "paper", "time_col": "at", "weight_col": "strength", "features": of_edges}]})
    .to_string()
}

/// Writes the files of the splits, which all configurations share.
pub(crate) fn write_splits(folder: &Folder) {
    let ids = |rest: usize| (0..NUM_PAPERS).filter(move |n| n % 8 == rest).map(paper);
    folder.write("train.json", ids(0).map(|id| format!("\"{id}\"\n")).collect::<String>());
    // GraphStorm's documentation shows texts without quotes.
    folder.write("valid.json", ids(1).map(|id| format!("{id}\n")).collect::<String>());
    let test: ArrayRef = Arc::new(StringArray::from_iter_values(ids(2)));
    folder.write_parquet("test.parquet", Compression::UNCOMPRESSED, vec![("paper", test)]);
}

fn write_csv(folder: &Folder) {
    let mut papers = [String::new(), String::new()];
    for (part, text) in papers.iter_mut().enumerate() {
        text.push_str("class;extra;id;year;a;b;c\n");
        for n in part * 25..(part * 15 + 25) {
            let class = if n % 8 == 7 { String::new() } else { (n % 3).to_string() };
            let [a, b, c] = [0, 1, 2].map(|column| feature(n * 3 + column));
            writeln!(text, "{class};\"a;\nb\";{};{};{a};{b};{c}", paper(n), 1990 + n * 13 % 30).unwrap();
        }
    }
    folder.write_gzip("csv/papers-0.csv.gz", &papers[0]);
    folder.write_zstd("csv/papers-1.csv.zst", &papers[1]);
    folder.write("csv/authors.csv", (0..NUM_AUTHORS).fold("number\n".to_owned(), |t, n| format!("{t}{}\n", author(n))));
    let mut edges = "by,paper,at,strength,vector\n".to_owned();
    for (e, (from, to)) in writes().into_iter().enumerate() {
        let [first, second] = [e * 2 + 7, e * 2 + 8].map(feature);
        let strength = feature(e).abs();
        writeln!(edges, "{},{},{},{strength},{first}|{second}", author(from), paper(to), 2000 + e).unwrap();
    }
    folder.write("csv/writes.csv", edges);
    let text = conf(
        [json!("csv/papers-*"), json!(["csv/authors.csv"]), json!("csv/writes.csv")],
        [
            json!([{"feature_col": ["a", "b"], "feature_name": "ab"}, {"feature_col": "c"}]),
            json!([{"feature_col": "vector", "transform": {"name": "no-op", "separator": "|"}}]),
        ],
    );
    let with_separator = text.replacen(
        "\"files\":\"csv/papers-*\"",
        "\"files\":\"csv/papers-*\",\"format\":{\"name\":\"csv\",\"separator\":\";\"}",
        1,
    );
    assert_ne!(text, with_separator);
    folder.write("csv.json", with_separator);
}

pub(crate) fn write_parquet(folder: &Folder) {
    for (name, range, compression) in [
        ("parquet/papers/part-00000.parquet", 0..11, Compression::SNAPPY),
        ("parquet/papers/part-00001.parquet", 11..NUM_PAPERS, Compression::GZIP(GzipLevel::default())),
    ] {
        let ids: DictionaryArray<Int32Type> =
            range.clone().map(paper).collect::<Vec<_>>().iter().map(|s| s.as_str()).collect();
        let mut lists = ListBuilder::new(Float32Builder::new());
        range.clone().for_each(|n| lists.append_value([0, 1].map(|column| Some(feature(n * 3 + column)))));
        let classes: Float64Array =
            range.clone().map(|n| if n % 8 == 7 { f64::NAN } else { (n % 3) as f64 }).collect::<Vec<_>>().into();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("ab", Arc::new(lists.finish())),
            ("id", Arc::new(ids)),
            ("class", Arc::new(classes)),
            ("year", Arc::new(Int32Array::from_iter_values(range.clone().map(|n| 1990 + n as i32 * 13 % 30)))),
            ("c", Arc::new(Float32Array::from_iter_values(range.map(|n| feature(n * 3 + 2))))),
        ];
        folder.write_parquet(name, compression, columns);
    }
    // The marks of Spark.
    folder.write("parquet/papers/_SUCCESS", "").write("parquet/papers/.part-00000.parquet.crc", "crc");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..NUM_AUTHORS).map(author)));
    folder.write_parquet("parquet/authors.parquet", Compression::ZSTD(ZstdLevel::default()), vec![("number", numbers)]);
    let ends = writes();
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for e in 0..ends.len() {
        vectors.values().append_slice(&[feature(e * 2 + 7), feature(e * 2 + 8)]);
        vectors.append(true);
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        // Ids of a node type may be texts in one table and numbers in another.
        ("by", Arc::new(StringArray::from_iter_values(ends.iter().map(|e| author(e.0).to_string())))),
        ("paper", Arc::new(StringArray::from_iter_values(ends.iter().map(|e| paper(e.1))))),
        ("at", Arc::new(Int64Array::from_iter_values(2000..2000 + ends.len() as i64))),
        ("strength", Arc::new(Float32Array::from_iter_values((0..ends.len()).map(|e| feature(e).abs())))),
        ("vector", Arc::new(vectors.finish())),
    ];
    folder.write_parquet("parquet/writes.parquet", Compression::SNAPPY, columns);
    let text = conf(
        [json!("parquet/papers"), json!("parquet/authors.parquet"), json!(["parquet/writes.parquet"])],
        [json!([{"feature_col": "ab"}, {"feature_col": "c"}]), json!([{"feature_col": "vector"}])],
    );
    folder.write("parquet.json", text);
}

#[test]
fn arrays_csv_and_parquet_make_the_same_parts() {
    let folder = Folder::new();
    write_arrays(&folder);
    write_splits(&folder);
    write_csv(&folder);
    write_parquet(&folder);
    let method = ["--method", "metis", "--num-partitions", "3"];
    let mut program = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    program.args(["--dataset", "graph", "--dataset-dir"]).arg(folder.path("arrays")).args(method);
    succeeded(program.arg("--output-dir").arg(folder.path("from-arrays")).output().unwrap());
    let expected = arrays(&folder.path("from-arrays"));
    assert!(expected.contains_key("part_2/edges/author__writes__paper/weights.npy"));
    for format in ["csv", "parquet"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
        command.args(["--dataset", "graph", "--conf"]).arg(folder.path(&format!("{format}.json"))).args(method);
        let output = command.arg("--output-dir").arg(folder.path(&format!("from-{format}"))).output().unwrap();
        assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
        let found = arrays(&folder.path(&format!("from-{format}")));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{format}");
        for (name, bytes) in &expected {
            assert!(found[name] == *bytes, "{format}: {name}");
        }
    }
    // Digests do not depend on the format. Only tables have ids.
    let meta = |format: &str| Meta::read(&folder.path(&format!("from-{format}"))).unwrap();
    let contents_of = |meta: &Meta| -> Vec<Option<String>> {
        let of_nodes = meta.node_types.iter().map(|t| t.digests.content.clone());
        of_nodes.chain(meta.edge_types.iter().map(|e| e.digests.content.clone())).collect()
    };
    let ids_of =
        |meta: &Meta| -> Vec<Option<String>> { meta.node_types.iter().map(|t| t.digests.ids.clone()).collect() };
    let [of_arrays, of_csv, of_parquet] = ["arrays", "csv", "parquet"].map(meta);
    assert!(contents_of(&of_arrays).iter().all(Option::is_some));
    assert_eq!(contents_of(&of_csv), contents_of(&of_arrays));
    assert_eq!(contents_of(&of_parquet), contents_of(&of_arrays));
    assert_eq!(ids_of(&of_csv), ids_of(&of_parquet));
    assert!(ids_of(&of_csv).iter().all(Option::is_some) && ids_of(&of_arrays).iter().all(Option::is_none));
    // The id maps and the transforms do not depend on the format either.
    let others = |format: &str| {
        let files = contents(&folder.path(&format!("from-{format}"))).into_iter();
        let is_other = |name: &str| name.ends_with(".parquet");
        files.filter(|(name, _)| is_other(name)).collect::<Vec<_>>()
    };
    assert_eq!(others("csv").len(), 6);
    assert!(others("csv") == others("parquet"));
}

#[test]
fn id_maps_have_the_ids_of_the_tables() {
    let folder = Folder::new();
    write_splits(&folder);
    write_parquet(&folder);
    std::fs::rename(folder.path("parquet.json"), folder.path("graph.json")).unwrap();
    let (made, _) = folder.made("out", &[]);
    assert_eq!(made["node_types"][0]["has_id_map"], true);
    let mut seen = 0;
    for part in 0..2 {
        let opened = Part::open(&folder.path("out"), DiskPartId(part), true).unwrap();
        for (t, name) in ["author", "paper"].into_iter().enumerate() {
            let path = folder.path(&format!("out/part_{part}/nodes/{name}/id_map.parquet"));
            let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
            let node_type = NodeTypeId(t as u16);
            let originals = &opened.nodes(node_type).original_ids;
            assert_eq!(reader.metadata().file_metadata().num_rows() as usize, originals.len());
            for (at, row) in reader.get_row_iter(None).unwrap().enumerate() {
                let row = row.unwrap();
                let original = originals[at] as usize;
                match name {
                    "author" => assert_eq!(row.get_long(0).unwrap(), author(original)),
                    _ => assert_eq!(*row.get_string(0).unwrap(), paper(original)),
                }
                assert_eq!(row.get_long(1).unwrap() as usize, original);
                assert_eq!(row.get_long(2).unwrap() as u32, opened.owned(node_type).start + at as u32);
                seen += 1;
            }
        }
    }
    assert_eq!(seen, NUM_PAPERS + NUM_AUTHORS);
    // A map that was changed or added is found.
    let verify = || {
        let output = Command::new(env!("CARGO_BIN_EXE_partition-graph")).arg("verify").arg(folder.path("out")).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    let map = folder.path("out/part_1/nodes/paper/id_map.parquet");
    let bytes = std::fs::read(&map).unwrap();
    std::fs::write(&map, &bytes[1..]).unwrap();
    assert!(verify().contains("id_map.parquet: it has"), "{}", verify());
    std::fs::remove_file(&map).unwrap();
    assert!(verify().contains("id_map.parquet"), "{}", verify());
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let folder = Folder::new();
    write_splits(&folder);
    write_csv(&folder);
    let outputs = ["1", "2", "5"].map(|threads| {
        let mut command = folder.command("csv.json", threads, &["--seed", "3"]);
        succeeded(command.env("RAYON_NUM_THREADS", threads).output().unwrap());
        contents(&folder.path(threads))
    });
    assert!(outputs[0] == outputs[1] && outputs[0] == outputs[2]);
}

/// GraphStorm's `examples/network_traffic_prediction/config.json`, unchanged apart from white space.
const AIRPORTS: &str = r#"{"version": "gconstruct-v0.1", "nodes": [{"node_type": "airport",
"format": {"name": "parquet"}, "files": ["./airport.parquet"], "node_id_col": "iata_code", "features": [
{"feature_col": "latitude_deg", "feature_name": "latitude", "transform": {"name": "max_min_norm", "max_val": 90.0, "min_val": -90.0}},
{"feature_col": "longitude_deg", "feature_name": "longitude", "transform": {"name": "max_min_norm", "max_val": 180.0, "min_val": -180.0}},
{"feature_col": "inventory_amounts", "feature_name": "inventory_amounts", "transform": {"name": "max_min_norm", "max_val": 1000.0, "min_val": 0.0}}],
"labels": [{"label_col": "inventory_amounts", "task_type": "regression", "split_pct": [0.8, 0.1, 0.1]}]}],
"edges": [{"relation": ["airport", "demand", "airport"], "format": {"name": "parquet"}, "files": ["./demand_edge.parquet"],
"source_id_col": "src_code", "dest_id_col": "dst_code", "features": [
{"feature_col": "demands", "feature_name": "demands", "transform": {"name": "max_min_norm", "max_val": 10.0, "min_val": 0.0}}]},
{"relation": ["airport", "traffic", "airport"], "format": {"name": "parquet"}, "files": ["traffic_edge.parquet"],
"source_id_col": "src_code", "dest_id_col": "dst_code", "features": [
{"feature_col": "capacity", "feature_name": "capacity", "transform": {"name": "max_min_norm", "max_val": 10.0, "min_val": 0.0}},
{"feature_col": "traffics", "feature_name": "traffics", "transform": {"name": "max_min_norm", "max_val": 10.0, "min_val": 0.0}}]}]}"#;

#[test]
fn a_configuration_of_graphstorm_is_accepted_unchanged() {
    let folder = Folder::new();
    folder.write("graph.json", AIRPORTS);
    let codes: ArrayRef = Arc::new(StringArray::from(vec!["JFK", "ZRH", "NRT"]));
    let floats = |values: Vec<f64>| -> ArrayRef { Arc::new(Float64Array::from(values)) };
    let columns = vec![
        ("iata_code", codes.clone()),
        ("latitude_deg", floats(vec![45.0, -45.0, 0.0])),
        ("longitude_deg", floats(vec![-180.0, 0.0, 90.0])),
        ("inventory_amounts", floats(vec![250.0, 500.0, 2000.0])),
    ];
    folder.write_parquet("airport.parquet", Compression::SNAPPY, columns);
    let to: ArrayRef = Arc::new(StringArray::from(vec!["ZRH", "NRT", "JFK"]));
    let edges = |names: &[&'static str]| {
        let mut columns = vec![("src_code", codes.clone()), ("dst_code", to.clone())];
        columns.extend(names.iter().map(|&name| (name, floats(vec![1.0, 5.0, 11.0]))));
        columns
    };
    folder.write_parquet("demand_edge.parquet", Compression::SNAPPY, edges(&["demands"]));
    folder.write_parquet("traffic_edge.parquet", Compression::SNAPPY, edges(&["capacity", "traffics"]));
    let (made, _) = folder.made("out", &[]);
    assert_eq!(made["edge_types"][1]["feature_dim"], 2);
    assert_eq!(made["node_types"][0]["targets"], json!({"dim": 1, "kind": "regression"}));
    // Four fifths of three nodes, rounded down.
    assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 0, 0]));
    assert_eq!(rows_of::<f32>(&folder, "out", "airport", "targets.npy"), [[250.0], [500.0], [2000.0]]);
    let found = rows_of::<f32>(&folder, "out", "airport", "features.npy");
    assert_eq!(found, [[0.75, 0.0, 0.25], [0.25, 0.5, 0.5], [0.5, 0.75, 1.0]]);
}

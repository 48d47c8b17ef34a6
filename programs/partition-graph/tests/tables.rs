//! Graphs from tables: the same parts as from arrays, transforms, ids and rows that are left out.

use crate::corruption::edit_meta;
use crate::table_files;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, StringArray};
use edgecut_graph::{DiskPartId, EdgeTypeId, Meta, NodeTypeId, Part, Split, map_npy, write_npy};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use table_files::{Folder, arrays, contents};

const NUM_PAPERS: usize = 40;
const NUM_AUTHORS: usize = 23;

/// Returns numbers with many digits.
fn feature(at: usize) -> f32 {
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
fn write_splits(folder: &Folder) {
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

fn write_parquet(folder: &Folder) {
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
    folder.write("parquet/papers/_SUCCESS", "");
    folder.write("parquet/papers/.part-00000.parquet.crc", "crc");
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
    let output = program.arg("--output-dir").arg(folder.path("from-arrays")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        contents(&folder.path(threads))
    });
    assert!(outputs[0] == outputs[1] && outputs[0] == outputs[2]);
}

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
    folder.write("graph.json", conf.to_string());
    folder.write("train.json", "\"a\"\n\"b\"\n\"f\"\n");
}

/// Writes tables of which two belong to a node type, and two to a relation.
fn write_several_tables(folder: &Folder) {
    folder.write("ids.csv", "id\n3\n1\n2\n");
    folder.write("more.csv", "x,y,t\n1,4,7\n2,5,8\n3,6,9\n");
    folder.write("edges.csv", "s,t\n3,1\n1,2\n");
    folder.write("weights.csv", "w\n0.5\n1.5\n");
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
fn features_of_part(folder: &Folder, out: &str, part: u32, more: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command
        .arg("features")
        .arg("--dataset-root-dir")
        .arg(folder.path(out))
        .arg("--conf")
        .arg(folder.path("graph.json"));
    command.args(more).env("NODE_RANK", part.to_string()).output().unwrap()
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
    let output = folder.run("deferred", &["--defer-features"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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

/// Returns the features of all nodes of the first type, in the order of the original ids.
fn features(folder: &Folder, out: &str) -> Vec<Vec<f32>> {
    let mut rows = std::collections::BTreeMap::new();
    for part in 0..2 {
        let dir = folder.path(&format!("{out}/part_{part}/nodes/item"));
        let (_, ids) = map_npy::<u32>(&dir.join("original_ids.npy")).unwrap();
        let (shape, values) = map_npy::<f32>(&dir.join("features.npy")).unwrap();
        rows.extend(ids.iter().copied().zip(values.chunks(shape[1]).map(<[f32]>::to_vec)));
    }
    rows.into_values().collect()
}

const TRANSFORMED: &str = r#"
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
    folder.write("graph.json", TRANSFORMED);
    folder.write("with.csv", "a,b\nx,y\ny,z\nz,w\n");
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
    let error = folder.fails(&["--transforms", transforms]);
    assert!(error.contains("part (standard)") && error.contains("those of transforms.json are"), "{error}");
}

#[test]
fn all_files_of_a_column_have_vectors_of_one_length() {
    let folder = Folder::new();
    let conf = json!({
        "nodes": [{"node_type": "item", "node_id_col": "id", "files": "items-*.csv",
            "features": [{"feature_col": "v", "transform": {"name": "no-op", "separator": " "}}],
            "labels": [{"task_type": "classification", "label_col": "kind"}]}],
        "edges": [{"relation": ["item", "to", "item"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
    folder.write("graph.json", conf.to_string());
    folder.write("edges.csv", "s,t\na,c\nc,d\n");
    // The first file has no rows, and the first row of the last one has another length.
    folder.write("items-0.csv", "id,v,kind\n");
    folder.write("items-1.csv", "id,v,kind\na,1 2 3,cat\n");
    folder.write("items-2.csv", "id,v,kind\nb,1 2,dog\nc,4 5 6,dog\nd,7 8 9,-1\n");
    let error = folder.fails(&[]);
    assert!(error.contains("items-2.csv: row 1: column v: it has 2 numbers, but earlier rows have 3"), "{error}");
    let (made, _) = folder.made("whole", &["--on-bad-rows", "drop"]);
    assert_eq!(features(&folder, "whole"), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    // A text of -1 is a missing label, as the number is.
    assert_eq!(made["node_types"][0]["num_classes"], 2);
    let output = folder.run("deferred", &["--on-bad-rows", "drop", "--defer-features"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A run that was killed has left a file.
    folder.write("deferred/part_0/nodes/item/features.partial", "half of it");
    for part in 0..2 {
        let output = features_of_part(&folder, "deferred", part, &["--on-bad-rows", "drop"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(arrays(&folder.path("whole")) == arrays(&folder.path("deferred")));
    assert!(!folder.path("deferred/part_0/nodes/item/features.partial").exists());
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
    assert_eq!(rows_of(&folder, "out", "airport", "targets.npy", 1), [[250.0], [500.0], [2000.0]]);
    let found: Vec<Vec<f32>> = {
        let mut rows = std::collections::BTreeMap::new();
        for part in 0..2 {
            let dir = folder.path(&format!("out/part_{part}/nodes/airport"));
            let (_, ids) = map_npy::<u32>(&dir.join("original_ids.npy")).unwrap();
            let (_, values) = map_npy::<f32>(&dir.join("features.npy")).unwrap();
            rows.extend(ids.iter().copied().zip(values.chunks(3).map(<[f32]>::to_vec)));
        }
        rows.into_values().collect()
    };
    assert_eq!(found, [[0.75, 0.0, 0.25], [0.25, 0.5, 0.5], [0.5, 0.75, 1.0]]);
}

/// Returns the rows of an array of nodes of two parts, in the order of the dataset.
fn rows_of(folder: &Folder, out: &str, node_type: &str, file: &str, dim: usize) -> Vec<Vec<f32>> {
    let mut rows = std::collections::BTreeMap::new();
    for part in 0..2 {
        let dir = folder.path(&format!("{out}/part_{part}/nodes/{node_type}"));
        let (_, ids) = map_npy::<u32>(&dir.join("original_ids.npy")).unwrap();
        let (_, values) = map_npy::<f32>(&dir.join(file)).unwrap();
        rows.extend(ids.iter().copied().zip(values.chunks(dim).map(<[f32]>::to_vec)));
    }
    rows.into_values().collect()
}

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
        let rows = rows_of(&folder, &format!("{name}-csv"), "item", "targets.npy", dim);
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
fn labels_of_two_kinds_are_errors() {
    let folder = Folder::new();
    folder.write("edges.csv", "s,t\n1,2\n2,3\n");
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
        let error = folder.fails(&[]);
        assert!(error.contains("items-1.parquet: its labels are") && error.contains("in earlier rows"), "{error}");
    }
    folder.write_parquet("items-1.parquet", Compression::SNAPPY, vec![("id", ids(4..7)), ("y", classes.clone())]);
    conf(json!([{"task_type": "regression", "label_col": "y"}, class]));
    assert!(folder.fails(&[]).contains("nodes[0].labels[1].label_col: nodes[0].labels[0] has the column y already"));
}

#[test]
fn several_labels_of_a_node_type_keep_their_classes_and_splits() {
    let folder = Folder::new();
    folder.write("edges.csv", "s,t\na,b\nb,c\nc,d\nd,e\n");
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
    folder.write("graph.json", conf.to_string());
    assert!(folder.fails(&[]).contains("nodes[0].labels[0] has the column churn already"));
    conf["nodes"][0]["labels"] = json!([{"task_type": "classification", "label_col": ["clicks/day", "churn"]}]);
    folder.write("graph.json", conf.to_string());
    assert!(folder.fails(&[]).contains("label_col: the column \"clicks/day\" cannot be a folder name"));
}

#[test]
fn bad_rows_are_dropped_and_counted() {
    let folder = Folder::new();
    write_bad_rows(&folder);
    let error = folder.fails(&[]);
    assert!(error.contains("nodes.csv: row 4: column id: the id a of n is that of an earlier row"), "{error}");
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
        ("a weight that is negative or not a finite number", 1),
        ("no id", 1),
        ("the id of an earlier row", 1),
        ("a feature that is not a finite number", 2),
        ("an id in a split file that does not exist", 1),
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

/// The classes of kind are some of the classes of churn, so that a mistake in their order would not be an error.
#[test]
fn saved_classes_of_several_labels_are_found_by_name() {
    let folder = Folder::new();
    folder.write("nodes.csv", "id,churn,kind\n1,a,b\n2,b,c\n3,c,b\n");
    folder.write("edges.csv", "s,t\n1,2\n");
    let write = |labels: Value| {
        let label = json!({"task_type": "classification", "label_col": labels, "split_pct": [1, 0, 0]});
        let conf = json!({
            "nodes": [{"node_type": "n", "node_id_col": "id", "files": "nodes.csv", "labels": [label]}],
            "edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
        folder.write("graph.json", conf.to_string());
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
    let error = folder.fails(&with_saved);
    assert!(error.contains("no classes of the label id, but those of churn, kind"), "{error}");
}

#[test]
fn a_row_that_is_bad_in_several_labels_counts_once() {
    let folder = Folder::new();
    folder.write("nodes.csv", "id,a,b\n1,0.5,1\n2,x,y\n3,2.5,z\n4,3.5,4\n");
    folder.write("edges.csv", "s,t\n1,4\n");
    let labels = json!([{"task_type": "regression", "label_col": ["a", "b"], "split_pct": [1, 0, 0]}]);
    let conf = json!({
        "nodes": [{"node_type": "n", "node_id_col": "id", "files": "nodes.csv", "labels": labels}],
        "edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
    folder.write("graph.json", conf.to_string());
    let (made, _) = folder.made("out", &["--on-bad-rows", "drop", "--num-partitions", "1"]);
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
    let error = folder.fails(&[]);
    assert!(error.contains(why), "{error}");
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
    let folder = Folder::new();
    folder.write("nodes.csv", "id,y\na,0\nb,1\nc,0\n");
    folder.write("edges.csv", "s,t\na,b\nb,c\n");
    let split = json!({"train": "train.json", "valid": "valid.json"});
    let label = json!({"task_type": "classification", "label_col": "y", "custom_split_filenames": split});
    let conf = json!({
        "nodes": [{"node_type": "n", "node_id_col": "id", "files": "nodes.csv", "labels": [label]}],
        "edges": [{"relation": ["n", "to", "n"], "files": "edges.csv", "source_id_col": "s", "dest_id_col": "t"}]});
    folder.write("graph.json", conf.to_string());
    folder.write("train.json", "\"a\"\n\"b\"\n\"a\"\n");
    folder.write("valid.json", "\"b\"\n\"c\"\n");
    let error = folder.fails(&[]);
    assert!(error.contains("valid.json: row 1: b: the list train has it as well: leave it in one list"), "{error}");
    let (made, _) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert_eq!(made["node_types"][0]["split_sizes"], json!([2, 1, 0]));
    assert_eq!(made["dropped_rows"][0]["rows"], 1);
}

#[test]
fn lists_of_training_edges_have_all_edges() {
    let folder = Folder::new();
    folder.write("edges.csv", "s,t\na,x\nb,x\nb,y\n");
    let split = json!({"train": "train.json", "valid": "valid.json"});
    let label = json!({"task_type": "link_prediction", "custom_split_filenames": split});
    let conf = json!({"edges": [{"relation": ["u", "likes", "v"], "files": "edges.csv", "source_id_col": "s",
        "dest_id_col": "t", "labels": [label]}]});
    folder.write("graph.json", conf.to_string());
    folder.write("valid.json", "[\"b\", \"x\"]\n");
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
    let error = folder.fails(&[]);
    assert!(error.contains("valid.json: row 2: a, y: there is no such edge"), "{error}");
    let (made, _) = folder.made("dropped", &["--on-bad-rows", "drop"]);
    assert_eq!(made["dropped_rows"][0]["rows"], 1);
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
    let error = folder.fails(&[]);
    assert!(
        error.contains("more.csv: the table nodes[1] has 2 rows, but an earlier table of the same type has 3"),
        "{error}"
    );
}

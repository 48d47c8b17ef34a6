//! Predictions and embeddings of nodes, from real processes: the same for any partitioning and number of processes, equal
//! to an evaluation with all neighbors, and complete or absent.

use crate::programs;

use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{DiskPartId, HoldOut, NodeTypeId, Part, map_npy, write_npy};
use edgecut_partition::{PartitionOptions, partition_loaded_with};
use edgecut_tables::{TableOptions, Transforms, read_tables};
use edgecut_testing::python_has;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor, RowAccessor};
use programs::{
    TRAIN, assert_close, error_of, fake_parts, json_of, link_parts, parts, predict, predicted, program, run, stderr,
    succeeded, trained, typed_parts, unplace,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

fn numbers(out: &Path) -> (Vec<usize>, Vec<f32>) {
    let (shape, values) = map_npy::<f32>(&out.join("predictions.npy")).expect("an array");
    (shape, values.to_vec())
}

#[test]
fn predictions_do_not_depend_on_the_partitioning() {
    let two = fake_parts(2);
    let others = [fake_parts(1), fake_parts(3)];
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    let out = folder.path().join("out");
    for kind in [
        &["--model", "sage"][..],
        &[
            "--model",
            "sage",
            "--residual",
            "--layer-norm",
            "--num-neighbors",
            "5,3,2",
            "--eval-num-neighbors",
            "-1,-1,-1",
        ],
        &["--model", "gcn"],
        &["--model", "gat", "--heads", "2"],
        &["--model", "gatv2", "--heads", "2", "--layer-norm"],
        &["--model", "sage", "--encoder-decoder", "--residual", "--layer-norm"],
        &["--model", "rgcn"],
        &["--model", "sage", "--node-embeddings", "node=6"],
        &["--model", "sage", "--batch-norm", "--readout", "jumping-knowledge", "--ema", "0.5"],
        &[
            "--model",
            "gcn",
            "--batch-norm",
            "--residual",
            "--readout",
            "jumping-knowledge-max",
            "--num-neighbors",
            "5,3,2",
            "--eval-num-neighbors",
            "-1,-1,-1",
        ],
        &["--model", "gatv2", "--encoder-decoder", "--batch-norm", "--readout", "jumping-knowledge-max"],
    ] {
        let result = trained("node", &two.path, &model, kind);
        let ours = predicted(&two.path, &model, &out, &["--output", "logit", "--nproc-per-node", "2"]);
        let (shape, expected) = numbers(&out);
        assert_eq!(shape, [1000, 10], "{kind:?}");
        // The evaluation after training has read all neighbors too.
        for score in ["valid_acc", "test_acc"] {
            let difference = ours[score].as_f64().expect("a score") - result[score].as_f64().expect("a score");
            assert!(difference.abs() < 0.01, "{kind:?}: {ours} after {result}");
        }
        // Batches of few nodes, fewer and more processes than parts, and processes that share parts unevenly.
        for (parts, flags) in [
            (&others[0], &["--memory-bytes", "100KB"][..]),
            (&others[1], &["--nproc-per-node", "3"]),
            (&two, &["--nproc-per-node", "1", "--memory-bytes", "1"]),
            (&two, &["--nproc-per-node", "3"]),
            (&two, &["--nproc-per-node", "4"]),
        ] {
            predicted(&parts.path, &model, &out, &[flags, &["--output", "logit"]].concat());
            assert_close(&numbers(&out).1, &expected, &format!("{kind:?} {flags:?}"));
        }
        // Sampling all neighbors gives the same rows.
        let hops = if kind.contains(&"5,3,2") { "-1,-1,-1" } else { "-1,-1" };
        predicted(&two.path, &model, &out, &["--output", "logit", "--nproc-per-node", "2", "--num-neighbors", hops]);
        assert_close(&numbers(&out).1, &expected, &format!("{kind:?}, sampled"));
    }
}

#[test]
fn files_agree_with_each_other_and_with_the_reported_accuracy() {
    let parts = fake_parts(2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    trained("node", &parts.path, &model, &[]);
    let out = |name: &str| folder.path().join(name);
    let two = ["--nproc-per-node", "2"];
    let flags = |more: &[&str]| [&two[..], more].concat().iter().map(ToString::to_string).collect::<Vec<String>>();
    let run = |name: &str, more: &[&str]| -> Value {
        let flags = flags(more);
        predicted(&parts.path, &model, &out(name), &flags.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let result = run("class", &[]);
    let (shape, classes) = map_npy::<i64>(&out("class").join("predictions.npy")).expect("classes");
    assert_eq!(shape, [1000]);
    // The accuracy of the file is the reported one.
    let mut right = 0;
    let mut tests = BTreeMap::new();
    for id in 0..2 {
        let part = Part::open(&parts.path, DiskPartId(id), true).expect("a part");
        let nodes = part.nodes(NodeTypeId(0));
        let labels = nodes.labels.as_ref().expect("labels");
        for &row in nodes.splits.test.iter() {
            let id = nodes.original_ids[row as usize];
            right += u32::from(classes[id as usize] == labels[row as usize]);
            tests.insert(id, labels[row as usize]);
        }
    }
    assert_eq!(result["test_acc"].as_f64(), Some(f64::from(right) / tests.len() as f64));
    assert_eq!(result["nodes"], 1000);

    // Probabilities add up to 1, and the greatest belongs to the class.
    run("probability", &["--output", "probability"]);
    let (_, shares) = numbers(&out("probability"));
    for (row, &class) in shares.chunks_exact(10).zip(classes.iter()) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(row.iter().all(|share| *share <= row[class as usize]), "{row:?} for {class}");
    }

    // CSV files of both processes have all nodes once, with the classes of the array.
    run("csv", &["--format", "csv"]);
    run("gathered", &["--format", "csv", "--gather"]);
    let rows_of = |path: PathBuf| -> Vec<(usize, i64)> {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("node_id,class"));
        lines
            .map(|line| line.split_once(',').expect("two columns"))
            .map(|(id, class)| (id.parse().expect("an id"), class.parse().expect("a class")))
            .collect()
    };
    let mut rows = rows_of(out("csv").join("predictions-00000-of-00002.csv"));
    rows.extend(rows_of(out("csv").join("predictions-00001-of-00002.csv")));
    rows.sort_unstable();
    let expected: Vec<(usize, i64)> = classes.iter().copied().enumerate().collect();
    assert_eq!(rows, expected);
    let mut gathered = rows_of(out("gathered").join("predictions.csv"));
    gathered.sort_unstable();
    assert_eq!(gathered, expected);

    // Some nodes: a split, and a list in any order with an id given twice.
    run("test", &["--nodes", "test"]);
    let (_, ids) = map_npy::<i64>(&out("test").join("node_ids.npy")).expect("ids");
    assert_eq!(ids.iter().map(|&id| id as u32).collect::<Vec<_>>(), tests.keys().copied().collect::<Vec<_>>());
    let (_, of_test) = map_npy::<i64>(&out("test").join("predictions.npy")).expect("classes");
    assert!(ids.iter().zip(of_test.iter()).all(|(&id, class)| classes[id as usize] == *class));
    let list = folder.path().join("list.npy");
    write_npy(&list, &[4], &[900_i64, 3, 17, 900]).expect("a list");
    run("list", &["--nodes", list.to_str().expect("UTF-8")]);
    let (_, ids) = map_npy::<i64>(&out("list").join("node_ids.npy")).expect("ids");
    let (_, of_list) = map_npy::<i64>(&out("list").join("predictions.npy")).expect("classes");
    assert_eq!(ids[..], [3, 17, 900]);
    assert_eq!(of_list[..], [classes[3], classes[17], classes[900]]);
    // No temporary files are left.
    for entry in std::fs::read_dir(out("list")).expect("the folder") {
        let name = entry.expect("an entry").file_name();
        assert!(["predictions.npy", "node_ids.npy"].contains(&name.to_str().expect("UTF-8")), "{name:?}");
    }
}

#[test]
fn embeddings_of_typed_graphs_and_of_models_for_links_are_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    let out = folder.path().join("out");
    let typed = [typed_parts(2), typed_parts(3)];
    for kind in [&["--model", "sage", "--layer-norm"][..], &["--model", "rgcn"], &["--model", "gat", "--heads", "2"]] {
        trained("node", &typed[0].path, &model, kind);
        let mut rows = Vec::new();
        for (parts, processes) in [(&typed[0], "2"), (&typed[1], "3"), (&typed[1], "2"), (&typed[1], "1")] {
            let flags = ["--nproc-per-node", processes, "--output"];
            predicted(&parts.path, &model, &out, &[&flags[..], &["logit"]].concat());
            let logits = numbers(&out);
            // A type that the model does not classify has embeddings of every layer.
            for layer in ["0", "1", "2"] {
                let more = ["embedding", "--node-type", "v2", "--layer", layer];
                predicted(&parts.path, &model, &out, &[&flags[..], &more].concat());
                let (shape, values) = numbers(&out);
                assert_eq!(shape, [300, 16]);
                rows.push((layer, values));
            }
            rows.push(("logits", logits.1));
        }
        for (name, values) in &rows[4..] {
            let (_, expected) = rows.iter().find(|(first, _)| first == name).expect("the first");
            assert_close(values, expected, &format!("{kind:?} {name}"));
        }
    }
    let links = link_parts(2);
    trained("link", &links.path, &model, &[]);
    predicted(&links.path, &model, &out, &["--output", "embedding", "--nproc-per-node", "2"]);
    let (shape, expected) = numbers(&out);
    assert_eq!(shape, [400, 16]);
    predicted(&link_parts(1).path, &model, &out, &["--output", "embedding"]);
    assert_close(&numbers(&out).1, &expected, "links");
    let error = error_of(&predict(&links.path, &model, &out, &["--overwrite"]));
    assert!(error.contains("use --output embedding"), "{error}");
}

#[test]
fn wrong_requests_are_refused_with_one_error() {
    let fake_graph = fake_parts(2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    trained("node", &fake_graph.path, &model, &[]);
    let out = folder.path().join("out");
    let list = |name: &str, ids: &[i64]| {
        let path = folder.path().join(name);
        write_npy(&path, &[ids.len()], ids).expect("a list");
        path.to_str().expect("UTF-8").to_owned()
    };
    let beyond = list("beyond.npy", &[4, 1000]);
    let negative = list("negative.npy", &[-4]);
    let absent = folder.path().join("absent").to_str().expect("UTF-8").to_owned();
    for (flags, status, parts) in [
        (vec!["--layer", "1"], 2, &["--layer", "--output embedding"][..]),
        (vec!["--output", "embedding", "--num-neighbors", "5,3"], 2, &["--num-neighbors"]),
        (vec!["--gather"], 2, &["--gather"]),
        (vec!["--output", "embedding", "--layer", "2"], 1, &["--layer", "from 1 to 1"]),
        (vec!["--num-neighbors", "5"], 1, &["--num-neighbors", "2 layers"]),
        (vec!["--node-type", "author"], 1, &["--node-type", "author"]),
        (vec!["--nodes", &beyond], 1, &["beyond.npy", "1 of 2 ids do not exist: 1000 (row 2)"]),
        (vec!["--nodes", &negative], 1, &["negative.npy", "-4"]),
        (vec!["--nodes", "tests"], 1, &["--nodes", "tests"]),
        (vec!["--scratch-dir", &absent], 1, &["--scratch-dir", "absent"]),
    ] {
        let output = predict(&fake_graph.path, &model, &out, &flags);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(status), "{flags:?}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{flags:?}: {error}");
        let is_empty = std::fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none());
        assert!(is_empty, "{flags:?} left files");
    }
    // A graph with other features.
    let other = parts(2, 1);
    let error = error_of(&predict(&other.path, &model, &out, &[]));
    assert!(error.contains("the model was trained for another graph"), "{error}");
    // Predictions of an earlier run are kept.
    predicted(&fake_graph.path, &model, &out, &[]);
    let error = error_of(&predict(&fake_graph.path, &model, &out, &[]));
    assert!(error.contains("holds predictions of an earlier run") && error.contains("--overwrite"), "{error}");
}

#[test]
fn predictions_of_an_earlier_run_stay_if_their_replacement_fails() {
    let [fake_graph, other] = [fake_parts(1), parts(2, 1)];
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    trained("node", &fake_graph.path, &model, &[]);
    let out = folder.path().join("out");
    predicted(&fake_graph.path, &model, &out, &["--format", "csv"]);
    let names = || {
        let entries = std::fs::read_dir(&out).expect("the outputs");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let old = names();
    let csv = out.join("predictions-00000-of-00001.csv");
    let content = std::fs::read(&csv).expect("predictions");
    // The job cannot be joined: another program has the port of rank 0.
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let absent = ["--num-nodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", &port];
    let error = error_of(&predict(&fake_graph.path, &model, &out, &[&absent[..], &["--overwrite"]].concat()));
    assert!(error.contains(&port), "{error}");
    assert_eq!(names(), old);
    // The model does not fit the graph.
    let error = error_of(&predict(&other.path, &model, &out, &["--overwrite"]));
    assert!(error.contains("the model was trained for another graph"), "{error}");
    assert_eq!(names(), old);
    assert_eq!(std::fs::read(&csv).expect("predictions"), content);
    // Other names than those of the earlier run.
    predicted(&fake_graph.path, &model, &out, &["--overwrite"]);
    assert_eq!(names(), ["predictions.npy"]);
}

#[test]
fn parquet_files_have_the_rows_of_the_array() {
    let parts = fake_parts(2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    trained("node", &parts.path, &model, &[]);
    let out = folder.path().join("out");
    let flags = ["--nproc-per-node", "2", "--output", "probability"];
    predicted(&parts.path, &model, &out, &flags);
    let (_, expected) = numbers(&out);
    let read = |path: PathBuf, rows: &mut BTreeMap<i64, Vec<f32>>| {
        let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            let list = row.get_list(1).expect("a list");
            let values = (0..list.len()).map(|at| list.get_float(at).expect("a number")).collect();
            assert!(rows.insert(row.get_long(0).expect("an id"), values).is_none(), "each id once");
        }
    };
    for gather in [false, true] {
        let more: &[&str] = if gather { &["--format", "parquet", "--gather"] } else { &["--format", "parquet"] };
        predicted(&parts.path, &model, &out, &[&flags[..], more].concat());
        let mut rows = BTreeMap::new();
        if gather {
            read(out.join("predictions.parquet"), &mut rows);
        } else {
            read(out.join("predictions-00000-of-00002.parquet"), &mut rows);
            read(out.join("predictions-00001-of-00002.parquet"), &mut rows);
        }
        assert!(rows.keys().copied().eq(0..1000), "{} rows", rows.len());
        assert_eq!(rows.into_values().flatten().collect::<Vec<f32>>(), expected);
    }
    // Files of the user stay, whatever they are called.
    let own = out.join("predictions_of_last_year.csv");
    std::fs::write(&own, "node_id\n").expect("write a file");
    predicted(&parts.path, &model, &out, &["--format", "parquet"]);
    assert!(own.exists() && !out.join("predictions.parquet").exists());
    let file = std::fs::File::open(out.join("predictions-00000-of-00001.parquet")).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 1000);
}

/// The number of users in the tables of [`write_tables`].
pub(crate) const NUM_USERS: usize = 60;

/// The id of a user in the tables.
pub(crate) fn user(row: usize) -> String {
    format!("user \"{row}\", known")
}

/// Returns a field of a CSV file. Numbers have no quotes.
fn quoted(text: &str) -> String {
    if text.parse::<i64>().is_ok() { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// Writes tables of users without features, of items with features and classes, and of links between users and items.
/// `rows` has the order of the users in their table, and `colors` the categories of items.
fn write_tables(dir: &Path, rows: &[usize], colors: [&str; 3]) {
    write_tables_of(dir, rows, user, colors);
}

/// Writes the tables of [`write_tables`] for users with other ids.
pub(crate) fn write_tables_of(dir: &Path, rows: &[usize], user: fn(usize) -> String, colors: [&str; 3]) {
    let num_items = NUM_USERS / 2;
    let users: String = rows.iter().map(|&row| quoted(&user(row)) + "\n").collect();
    let item = |n: usize| format!("{},{},{},{}\n", n * 10, colors[n % 3], n % 7, ["low", "high"][n % 3 / 2]);
    let items: String = (0..num_items).map(item).collect();
    let pair = |n: usize, step: usize| format!("{},{}\n", quoted(&user(n)), (n * step + n) % num_items * 10);
    // The order of the users does not change the order of the links.
    let known: BTreeSet<usize> = rows.iter().copied().collect();
    let links: String = known.into_iter().flat_map(|n| [pair(n, 1), pair(n, 2), pair(n, 5)]).collect();
    std::fs::write(dir.join("users.csv"), format!("name\n{users}")).expect("write the users");
    std::fs::write(dir.join("items.csv"), format!("id,color,x,price\n{items}")).expect("write the items");
    std::fs::write(dir.join("links.csv"), format!("user,item\n{links}")).expect("write the links");
    let conf = serde_json::json!({
        "nodes": [
            {"node_type": "user", "node_id_col": "name", "files": "users.csv"},
            {"node_type": "item", "node_id_col": "id", "files": "items.csv",
                "features": [{"feature_col": "x"}, {"feature_col": "color", "transform": {"name": "to_categorical"}}],
                "labels": [{"task_type": "classification", "label_col": "price", "split_pct": [0.6, 0.2, 0.2]}]}],
        "edges": [
            {"relation": ["user", "buys", "item"], "files": "links.csv", "source_id_col": "user", "dest_id_col": "item"},
            {"relation": ["item", "of", "user"], "files": "links.csv", "source_id_col": "item", "dest_id_col": "user"}]});
    std::fs::write(dir.join("graph.json"), conf.to_string()).expect("write the configuration");
}

/// Partitions tables of [`write_tables`], with the transforms of other parts if there are any. Some purchases are held out.
pub(crate) fn partition_tables(dir: &Path, num_parts: u32, transforms_of: Option<&Path>, parts: &Path) {
    partition_tables_with(dir, num_parts, transforms_of, Some(HoldOut::random(0.2, 0.1, 0)), parts);
}

/// Partitions tables as [`partition_tables`] does, and holds out purchases by another rule.
pub(crate) fn partition_tables_with(
    dir: &Path,
    num_parts: u32,
    transforms_of: Option<&Path>,
    hold_out: Option<HoldOut>,
    parts: &Path,
) {
    let transforms = transforms_of.map(|other| Transforms::read(other).expect("transforms"));
    let options = TableOptions { transforms, ..TableOptions::default() };
    let mut read = read_tables(&dir.join("graph.json"), "shop", &options).expect("a graph");
    let buys = read.dataset.edge_type_ids().into_iter().find(|e| read.dataset.edge_types[e.index()].relation == "buys");
    if let Some(hold_out) = hold_out {
        read.dataset.hold_out_edges(&[buys.expect("purchases")], &hold_out).expect("held-out edges");
    }
    let json = read.transforms.to_json();
    let extra = ExtraFiles { nodes: &read.id_maps, transforms: Some(&json), ..ExtraFiles::default() };
    partition_loaded_with(read.dataset, None, &PartitionOptions::new(num_parts), parts, &(), extra).expect("parts");
}

/// A row of a table of predictions: the columns of row numbers and ranks, the texts (ids of the tables and names of
/// classes), and the values.
pub(crate) type Row = (Vec<i64>, Vec<String>, Vec<f32>);

/// The columns of row numbers and ranks.
const NUMBERS: [&str; 4] = ["node_id", "src_id", "rank", "dst_id"];
/// The columns of ids of the tables and names of classes.
const TEXTS: [&str; 4] = ["id", "src", "dst", "class_name"];

/// Reads the tables that all processes have written, sorted by their numbers.
pub(crate) fn read_rows(out: &Path, stem: &str, format: &str, processes: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for rank in 0..processes {
        let path = out.join(format!("{stem}-{rank:05}-of-{processes:05}.{format}"));
        if format == "csv" {
            rows.extend(csv_rows(&path));
        } else {
            rows.extend(parquet_rows(&path));
        }
    }
    rows.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    rows
}

fn csv_rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (header, lines) = text.split_once('\n').expect("a header");
    let names: Vec<&str> = header.split(',').collect();
    lines.lines().map(|line| csv_row(&names, line)).collect()
}

/// Reads a line of a table with columns `names`.
fn csv_row(names: &[&str], line: &str) -> Row {
    let fields = fields(line);
    assert_eq!(fields.len(), names.len(), "{line}");
    let mut row = Row::default();
    for (name, field) in names.iter().zip(fields) {
        if NUMBERS.contains(name) {
            row.0.push(field.parse().expect("a number"));
        } else if TEXTS.contains(name) {
            row.1.push(field);
        } else {
            row.2.push(field.parse().expect("a value"));
        }
    }
    row
}

/// Splits a line of a CSV file.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut().expect("a field");
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}

fn parquet_rows(path: &Path) -> Vec<Row> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    reader.get_row_iter(None).expect("rows").map(|row| parquet_row(&row.expect("a row"))).collect()
}

fn parquet_row(row: &parquet::record::Row) -> Row {
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    let mut values = Vec::new();
    for (name, field) in row.get_column_iter() {
        match field {
            Field::Long(number) if TEXTS.contains(&name.as_str()) => texts.push(number.to_string()),
            Field::Long(number) if NUMBERS.contains(&name.as_str()) => numbers.push(*number),
            Field::Long(class) => values.push(*class as f32),
            Field::Str(text) => texts.push(text.clone()),
            Field::Float(value) => values.push(*value),
            Field::ListInternal(list) => {
                values.extend((0..list.len()).map(|at| list.get_float(at).expect("a number")));
            }
            other => panic!("{name} is {other:?}"),
        }
    }
    (numbers, texts, values)
}

/// Each program output has the same rows in every format, for 1, 2, N and N + 1 processes on N = 3 parts.
#[test]
fn every_output_of_tables_has_the_same_rows_in_every_layout_and_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write_tables(folder.path(), &(0..NUM_USERS).collect::<Vec<_>>(), ["red", "green", "blue"]);
    partition_tables(folder.path(), 3, None, &path("parts"));
    let parts = path("parts");
    let [items, links] = ["items", "links"].map(path);
    trained("node", &parts, &items, &[]);
    trained("link", &parts, &links, &["--eval-negatives", "5"]);
    let pairs: Vec<i64> = (0..20).chain((0..20).map(|n| n * 7 % 30)).collect();
    write_npy(&path("pairs.npy"), &[2, 20], &pairs).expect("pairs");
    let pairs = path("pairs.npy").to_str().expect("UTF-8").to_owned();
    let out = path("out");
    // The texts of a row, by its numbers.
    let of_item: fn(&[i64]) -> Vec<String> = |row| vec![item(row[0])];
    let of_user: fn(&[i64]) -> Vec<String> = |row| vec![user(row[0] as usize)];
    let of_ends: fn(&[i64]) -> Vec<String> = |row| vec![user(row[0] as usize), item(row[row.len() - 1])];
    let of_buys = ["--edge-type", "buys", "--output"];
    for (model, stem, flags, texts) in [
        (&items, "predictions", vec!["--output", "logit"], of_item),
        (&links, "predictions", vec!["--output", "embedding", "--node-type", "user"], of_user),
        (&links, "scores", [&of_buys[..], &["score", "--row-numbers", "--pairs", &pairs]].concat(), of_ends),
        (&links, "top_k", [&of_buys[..], &["top-k", "--sources", "all", "--top-k", "3"]].concat(), of_ends),
    ] {
        let mut expected: Option<Vec<Row>> = None;
        for processes in [1, 2, 3, 4] {
            for format in ["csv", "parquet"] {
                let what = format!("{flags:?} {processes} {format}");
                let number = processes.to_string();
                let layout = ["--nproc-per-node", &number, "--format", format];
                predicted(&parts, model, &out, &[&layout[..], &flags].concat());
                let rows = read_rows(&out, stem, format, processes);
                for (at, (numbers, found, _)) in rows.iter().enumerate() {
                    assert_eq!(*found, texts(numbers), "{what}");
                    assert!(stem != "predictions" || numbers[..] == [at as i64], "{what}");
                }
                let expected = expected.get_or_insert_with(|| rows.clone());
                assert_eq!(rows.len(), expected.len(), "{what}");
                // Equal scores within rounding may change places.
                let compared = if stem == "top_k" { 2 } else { usize::MAX };
                for ((numbers, _, values), (of_expected, _, expected)) in rows.iter().zip(expected.iter()) {
                    assert!(numbers.iter().zip(of_expected).take(compared).all(|(a, b)| a == b), "{what}");
                    assert_close(values, expected, &what);
                }
            }
            let number = processes.to_string();
            predicted(&parts, model, &out, &[&["--nproc-per-node", &number][..], &flags].concat());
            let array = if stem == "predictions" { "predictions.npy" } else { "scores.npy" };
            let (_, values) = map_npy::<f32>(&out.join(array)).expect("an array");
            let expected: Vec<f32> = expected.iter().flatten().flat_map(|(.., values)| values.clone()).collect();
            assert_close(&values, &expected, &format!("{flags:?} {processes} npy"));
        }
    }
    // One file of all rows.
    let flags = ["--nproc-per-node", "2", "--output", "embedding", "--node-type", "user", "--gather", "--format"];
    for format in ["csv", "parquet"] {
        predicted(&parts, &links, &out, &[&flags[..], &[format]].concat());
        let file = out.join(format!("predictions.{format}"));
        let rows = if format == "csv" { csv_rows(&file) } else { parquet_rows(&file) };
        assert_eq!(rows.len(), NUM_USERS);
        assert!(rows.iter().all(|(numbers, texts, _)| texts[..] == [user(numbers[0] as usize)]), "{format}");
    }
}

/// Returns the id of an item in the tables.
fn item(row: i64) -> String {
    (row * 10).to_string()
}

/// Files of ids of the tables name the same nodes as files of row numbers, in every format and layout. Unknown ids are one
/// error.
#[test]
fn ids_of_the_tables_name_nodes_sources_and_pairs_in_every_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write_tables(folder.path(), &(0..NUM_USERS).collect::<Vec<_>>(), ["red", "green", "blue"]);
    partition_tables(folder.path(), 3, None, &path("parts"));
    let [items, links] = ["items", "links"].map(path);
    trained("node", &path("parts"), &items, &[]);
    trained("link", &path("parts"), &links, &["--eval-negatives", "5"]);
    let users = [17, 3, 59, 0];
    let bought = [29, 0, 7, 11];
    let mut ids = String::new();
    let mut pairs = String::new();
    let mut scored = "score,src,dst\n".to_owned();
    for (&row, &bought) in users.iter().zip(&bought) {
        let name = quoted(&user(row));
        ids += &format!("{name}\n");
        pairs += &format!("{name},{}\n", item(bought));
        scored += &format!("1,{name},{}\n", item(bought));
    }
    std::fs::write(path("bare.csv"), &ids).expect("ids without a header");
    std::fs::write(path("named.csv"), format!("person\n{ids}")).expect("ids with a header");
    std::fs::write(path("pairs.csv"), pairs).expect("pairs without a header");
    std::fs::write(path("scored.csv"), scored).expect("pairs with another column");
    write_npy(&path("items.npy"), &[4], &bought.map(|row| row * 10)).expect("ids of items");
    let numbers: Vec<i64> = users.iter().map(|&row| row as i64).collect();
    write_npy(&path("users_rows.npy"), &[4], &numbers).expect("rows of users");
    write_npy(&path("items_rows.npy"), &[4], &bought).expect("rows of items");
    write_npy(&path("pairs_rows.npy"), &[2, 4], &[&numbers[..], &bought].concat()).expect("rows of pairs");
    // Tables that this program has written, which name the same users.
    let embedding = ["--output", "embedding", "--node-type", "user"];
    let written = ["--row-numbers", "--nodes", &text(&path("users_rows.npy")), "--gather", "--format", "parquet"];
    predicted(&path("parts"), &links, &path("table"), &[&embedding[..], &written].concat());
    let table = text(&path("table/predictions.parquet"));
    let score = ["--output", "score", "--edge-type", "buys", "--pairs"];
    let top = ["--output", "top-k", "--top-k", "30", "--edge-type", "buys", "--sources"];
    let named = [&embedding[..], &["--nodes"]].concat();
    let of_items = ["--output", "class", "--nodes"];
    for (model, flags, stem, by_number, by_id) in [
        (
            &links,
            &named[..],
            "predictions",
            "users_rows.npy",
            vec![text(&path("bare.csv")), text(&path("named.csv")), table.clone()],
        ),
        (&items, &of_items[..], "predictions", "items_rows.npy", vec![text(&path("items.npy"))]),
        (&links, &score[..], "scores", "pairs_rows.npy", vec![text(&path("pairs.csv")), text(&path("scored.csv"))]),
        (&links, &top[..], "top_k", "users_rows.npy", vec![text(&path("named.csv")), table.clone()]),
    ] {
        let rows_of = |ids: &str, row_numbers: &[&str], processes: usize| {
            let number = processes.to_string();
            let layout = ["--nproc-per-node", &number, "--format", "csv"];
            let flags = [flags, &[ids], row_numbers, &layout].concat();
            predicted(&path("parts"), model, &path("out"), &flags);
            let mut rows = read_rows(&path("out"), stem, "csv", processes);
            // Equal scores within rounding may change places.
            rows.sort_by(|a, b| (&a.1, a.0[0]).cmp(&(&b.1, b.0[0])));
            rows
        };
        let expected = rows_of(&text(&path(by_number)), &["--row-numbers"], 2);
        assert_eq!(expected.len(), if stem == "top_k" { 4 * 30 } else { 4 });
        for processes in [1, 2, 3, 4] {
            for ids in &by_id {
                let what = format!("{flags:?} {ids}, {processes} processes");
                let found = rows_of(ids, &[], processes);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!((found.0[0], &found.1), (expected.0[0], &expected.1), "{what}");
                    assert_close(&found.2, &expected.2, &what);
                }
                assert_eq!(found.len(), expected.len(), "{what}");
            }
        }
    }
    // Each class has its name.
    predicted(&path("parts"), &items, &path("out"), &["--output", "class", "--format", "parquet", "--gather"]);
    for (numbers, texts, class) in parquet_rows(&path("out").join("predictions.parquet")) {
        let names = ["high", "low"];
        assert_eq!(texts, [item(numbers[0]), names[class[0] as usize].to_owned()]);
    }

    // Seeds of batches.
    let mut batches = Vec::new();
    for (name, seeds) in [("by_row", &["users_rows.npy", "--row-numbers"][..]), ("by_id", &["named.csv"])] {
        let mut command = programs::train("sample", &path("parts"));
        command.args(["--seed-type", "user", "--nproc-per-node", "2", "--out"]).arg(path(name));
        command.arg("--seeds").arg(path(seeds[0])).args(&seeds[1..]);
        let output = run(&mut command);
        assert!(output.status.success(), "{}", stderr(&output));
        batches.push(std::fs::read(path(name).join("batch_00000.npz")).expect("a batch"));
    }
    assert!(batches[0] == batches[1]);

    let unknown: String = (0..7).map(|row| format!("nobody {row}\n")).collect();
    std::fs::write(path("unknown.csv"), format!("person\n{ids}{unknown}")).expect("unknown ids");
    std::fs::write(path("half.csv"), format!("{},5\n", quoted(&user(1)))).expect("half a pair");
    std::fs::write(path("header.csv"), "person\n").expect("a header alone");
    write_npy(&path("beyond.npy"), &[2], &[3_i64, 60]).expect("rows");
    for processes in ["1", "2", "4"] {
        for (flags, words) in [
            (
                [&named[..], &[&text(&path("unknown.csv"))]].concat(),
                &["--nodes", "7 of 11 ids do not exist", "type user: nobody 0 (row 5), nobody 1 (row 6)", "and 2 more"]
                    [..],
            ),
            ([&top[..], &[&text(&path("unknown.csv"))]].concat(), &["--sources", "7 of 11 ids"]),
            (
                [&score[..], &[&text(&path("half.csv"))]].concat(),
                &["--pairs", "1 of 1 destinations", "type item: 5 (row 1)"],
            ),
            ([&named[..], &[&text(&path("header.csv"))]].concat(), &["no ids but a header"]),
            ([&named[..], &[&text(&path("users_rows.npy"))]].concat(), &["4 of 4 ids", "add --row-numbers"]),
            (
                [&named[..], &[&text(&path("beyond.npy")), "--row-numbers"]].concat(),
                &["60 (row 2)", "There are 60 nodes"],
            ),
            ([&embedding[..], &["--row-numbers"]].concat(), &["--row-numbers has no effect"]),
        ] {
            let flags = [&flags[..], &["--nproc-per-node", processes]].concat();
            let error = error_of(&predict(&path("parts"), &links, &path("none"), &flags));
            assert!(words.iter().all(|word| error.contains(word)), "{flags:?}: {error}");
        }
    }
}

/// Returns the text of a path.
fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// Node 0 gathers the ids of all parts, and its copy of another node's part may be any file.
#[test]
fn gathered_ids_of_another_partitioning_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write_tables(folder.path(), &(0..NUM_USERS).collect::<Vec<_>>(), ["red", "green", "blue"]);
    partition_tables(folder.path(), 2, None, &path("parts"));
    partition_tables(folder.path(), 2, None, &path("first"));
    trained("link", &path("parts"), &path("links"), &["--eval-negatives", "5"]);
    // The ids of another part, and numbers in place of texts.
    for other in [id_map(0, "user"), id_map(1, "item")] {
        std::fs::copy(path("parts").join(&other), path("first").join(id_map(1, "user"))).expect("copy");
        let port = edgecut_testing::free_port().to_string();
        let start = |rank: &str, parts: &str| {
            let mut command = program();
            command.args(["predict", "--output", "embedding", "--node-type", "user", "--format", "csv", "--gather"]);
            command.args(["--num-nodes", "2", "--node-rank", rank, "--master-port", &port]);
            command.arg("--dataset-root-dir").arg(path(parts)).arg("--load-model").arg(path("links"));
            command.arg("--out").arg(path(&format!("out-{rank}")));
            command.spawn().expect("start train")
        };
        let [first, second] = [start("0", "first"), start("1", "parts")].map(programs::end);
        let error = error_of(&first);
        for word in ["--gather", "part_1/nodes/user/id_map.parquet", "META.json says"] {
            assert!(error.contains(word), "{error}");
        }
        assert!(!second.status.success());
        assert!(!path("out-0").join("predictions.csv").exists(), "no partial file");
    }
}

/// Returns the path of the ids of a node type in the folder of the parts.
fn id_map(part: u32, node_type: &str) -> String {
    format!("part_{part}/nodes/{node_type}/id_map.parquet")
}

#[test]
fn a_model_is_refused_for_other_data_than_that_of_its_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let rows: Vec<usize> = (0..NUM_USERS).collect();
    let colors = ["red", "green", "blue"];
    write_tables(folder.path(), &rows, colors);
    partition_tables(folder.path(), 2, None, &path("parts"));
    let [items, links] = ["items", "links"].map(path);
    trained("node", &path("parts"), &items, &[]);
    trained("link", &path("parts"), &links, &["--eval-negatives", "5"]);
    let evaluate = |task: &str, parts: &str, model: &Path, flags: &[&str]| {
        let mut command = program();
        command.args([task, "--num-neighbors", "5,3"]).args(flags);
        command.arg("--dataset-root-dir").arg(path(parts)).arg("--load-model").arg(model);
        run(&mut command)
    };
    let predict_items = ["--output", "logit"];
    let predict_users = ["--output", "embedding", "--node-type", "user"];

    // Other users. Items have features, which belong to no user.
    write_tables(folder.path(), &(100..100 + NUM_USERS).collect::<Vec<_>>(), colors);
    partition_tables(folder.path(), 3, Some(&path("parts")), &path("others"));
    for output in [
        evaluate("link", "others", &links, &["--eval-negatives", "5"]),
        predict(&path("others"), &links, &path("out"), &predict_users),
        predict(&path("others"), &items, &path("out"), &predict_items),
    ] {
        let error = error_of(&output);
        assert!(error.contains("no node of type user has the id of a saved row"), "{error}");
        assert!(error.contains("--new-embeddings mean"), "{error}");
    }
    // A training that starts from the model keeps the initial values of these embeddings.
    let start = |parts: &str| {
        let mut command = program();
        command.args(["link", "--num-neighbors", "5,3", "--hidden-channels", "16", "--num-epochs", "1"]);
        command.args(["--eval-negatives", "5"]).arg("--init-from").arg(&links);
        command.arg("--dataset-root-dir").arg(path(parts));
        succeeded(run(&mut command))
    };
    let output = start("others");
    assert!(stderr(&output).contains("the nodes of type user are not those of the file"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("the data is not like"), "{}", stderr(&output));

    // As many categories, but others. Only the transforms of the training give their columns the same meaning.
    write_tables(folder.path(), &rows, ["red", "green", "yellow"]);
    partition_tables(folder.path(), 2, None, &path("yellow"));
    for output in [
        evaluate("node", "yellow", &items, &[]),
        predict(&path("yellow"), &items, &path("out"), &predict_items),
        predict(&path("yellow"), &links, &path("out"), &predict_users),
    ] {
        let error = error_of(&output);
        assert!(error.contains("the features of node type item have other transforms"), "{error}");
        assert!(error.contains("--transforms"), "{error}");
    }
    let line = "the data is not like that of the model: the features of node type item have other transforms";
    assert!(stderr(&start("yellow")).contains(line));
    partition_tables(folder.path(), 1, Some(&path("parts")), &path("same"));
    let output = succeeded(evaluate("node", "same", &items, &[]));
    assert!(!stderr(&output).contains("note: "), "{}", stderr(&output));

    // The settings of the model are those of the file.
    for (task, model, flags, what) in [
        ("node", &items, ["--model", "gat"], "--model gat: the model"),
        ("node", &items, ["--hidden-channels", "8"], "--hidden-channels 8: the model"),
        ("link", &links, ["--decoder", "distmult"], "--decoder distmult: the model"),
    ] {
        let output = evaluate(task, "parts", model, &flags);
        let error = error_of(&output);
        assert!(output.status.code() == Some(2) && error.contains(what), "{error}");
    }
    succeeded(evaluate("node", "parts", &items, &["--model", "sage", "--hidden-channels", "16"]));
}

#[test]
fn a_killed_run_leaves_no_partial_file() {
    let parts = fake_parts(2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    trained("node", &parts.path, &model, &[]);
    let whole = folder.path().join("whole");
    let start = Instant::now();
    predicted(&parts.path, &model, &whole, &["--nproc-per-node", "2", "--format", "csv", "--output", "probability"]);
    let mut needed = start.elapsed();
    let names = ["predictions-00000-of-00002.csv", "predictions-00001-of-00002.csv"];
    let complete = names.map(|name| std::fs::read(whole.join(name)).expect("a file"));
    let mut num_killed = 0;
    const RUNS: u32 = 16;
    for run in 0..RUNS {
        let out = folder.path().join(format!("out-{run}"));
        let mut command = Command::new(TRAIN);
        command.args(["predict", "--nproc-per-node", "2", "--format", "csv", "--output", "probability"]);
        command.arg("--dataset-root-dir").arg(&parts.path).arg("--load-model").arg(&model).arg("--out").arg(&out);
        unplace(&mut command);
        let start = Instant::now();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start train");
        // The moments cover the whole run. Its end, where files are written, is as likely as its start.
        std::thread::sleep(needed * (run + 1) / RUNS);
        match child.try_wait().expect("wait for a child") {
            None => num_killed += 1,
            // Runs take less time than the first one if the caches were cold or the machine was busier.
            Some(_) => needed = start.elapsed(),
        }
        let _ = child.kill();
        let _ = child.wait();
        for (name, complete) in names.iter().zip(&complete) {
            if let Ok(found) = std::fs::read(out.join(name)) {
                assert!(found == *complete, "run {run}: {name} has {} of {} bytes", found.len(), complete.len());
            }
        }
    }
    assert!(num_killed > 0, "none of {RUNS} runs was killed");
}

#[test]
fn layer_wise_evaluation_is_that_of_all_neighbors() {
    let two = fake_parts(2);
    let typed = typed_parts(2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    for (parts, kind, metric) in [
        (&two, &["--model", "gcn"][..], "accuracy"),
        (&two, &["--model", "sage", "--encoder-decoder"], "macro-f1"),
        (&typed, &["--model", "gat", "--heads", "2"], "accuracy"),
    ] {
        trained("node", &parts.path, &model, kind);
        let evaluated = |processes: &str, flags: &[&str]| -> Value {
            let mut command = program();
            command.args([
                "node",
                "--num-neighbors",
                "5,3",
                "--json",
                "--nproc-per-node",
                processes,
                "--metric",
                metric,
            ]);
            command.arg("--dataset-root-dir").arg(&parts.path).arg("--load-model").arg(&model).args(flags);
            json_of(run(&mut command))
        };
        let expected = evaluated("2", &["--eval-num-neighbors", "-1,-1"]);
        for processes in ["1", "2", "3"] {
            let found = evaluated(processes, &["--eval", "layer-wise"]);
            for score in ["valid_acc", "test_acc", "valid_metric", "test_metric"] {
                let difference = found[score].as_f64().expect("a score") - expected[score].as_f64().expect("a score");
                // Rounding may change a prediction.
                assert!(difference.abs() < 0.01, "{kind:?} {processes}: {found} for {expected}");
            }
        }
    }
    // Training selects its best epoch by it, and the model is evaluated from all neighbors later.
    let mut command = programs::node(&two.path);
    command.args(["--eval", "layer-wise", "--nproc-per-node", "2", "--num-epochs", "3", "--json"]);
    let trained = succeeded(run(command.arg("--save-model").arg(&model)));
    let trained: Value = serde_json::from_slice(&trained.stdout).expect("a result");
    let mut command = programs::train("node", &two.path);
    command.args(["--json", "--nproc-per-node", "1", "--load-model"]).arg(&model);
    let output = succeeded(run(&mut command));
    let evaluated: Value = serde_json::from_slice(&output.stdout).expect("a result");
    let difference = evaluated["test_acc"].as_f64().expect("a score") - trained["test_acc"].as_f64().expect("a score");
    assert!(difference.abs() < 0.01, "{evaluated} after {trained}");
    assert!(!stderr(&output).contains("since the graph is small"), "{}", stderr(&output));
    let output = run(programs::train("node", &two.path).args(["--eval", "layer-wise", "--eval-num-neighbors", "5,3"]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--eval layer-wise reads all neighbors"), "{}", stderr(&output));
}

/// A model predicts for a graph that it was not trained on, if the schema is the same.
#[test]
fn a_model_predicts_for_another_graph_of_the_same_schema() {
    let trained_on = fake_parts(2);
    let options = FakeOptions { avg_num_nodes: 321, seed: 9, ..FakeOptions::default() };
    let other = programs::written_by(&fake(&options).expect("a fake graph"), 2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    let out = folder.path().join("out");
    trained("node", &trained_on.path, &model, &[]);
    let result = predicted(&other.path, &model, &out, &["--nproc-per-node", "2"]);
    let (shape, _) = map_npy::<i64>(&out.join("predictions.npy")).expect("classes");
    assert_eq!((shape, result["nodes"].as_u64()), (vec![321], Some(321)));
}

/// The file is what OGB's `MAG240MEvaluator.save_test_submission` writes.
#[test]
fn a_submission_has_the_classes_in_the_order_of_the_file() {
    const NUM_NODES: usize = 60_000;
    const NUM_SUBMITTED: i64 = 58_726;
    let options = FakeOptions { avg_num_nodes: NUM_NODES, avg_degree: 3.0, num_channels: 4, ..FakeOptions::default() };
    let parts = programs::fake_parts_of(&options, 2);
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.safetensors");
    let out = folder.path().join("out");
    let fast = ["--num-epochs", "1", "--batch-size", "4096", "--eval-num-neighbors", "5,3"];
    trained("node", &parts.path, &model, &fast);
    let list = folder.path().join("list.npy");
    let descending: Vec<i64> = (0..NUM_SUBMITTED).rev().collect();
    write_npy(&list, &[descending.len()], &descending).expect("a list");
    let list = list.to_str().expect("UTF-8");
    let flags = ["--nproc-per-node", "2", "--ogb-submission", "mag240m-test-challenge", "--nodes"];
    predicted(&parts.path, &model, &out, &[&flags[..], &[list]].concat());
    let (_, classes) = map_npy::<i64>(&out.join("predictions.npy")).expect("classes");
    assert!(classes.windows(2).any(|pair| pair[0] != pair[1]), "several classes");
    let alone = ["--overwrite", "--ogb-submission", "mag240m-test-challenge", "--nodes", "test"];
    let error = error_of(&predict(&parts.path, &model, &out, &alone));
    assert!(error.contains("--ogb-submission") && error.contains("58726 nodes, but --nodes test has"), "{error}");
    for (more, why) in [(&["all"][..], "add --nodes test"), (&["test", "--output", "logit"], "contains classes")] {
        let output = predict(&parts.path, &model, &out, &[&flags[..], more].concat());
        let error = error_of(&output);
        assert!(output.status.code() == Some(2) && error.contains(why), "{error}");
    }
    // NumPy reads the archive, and OGB's checks of it hold.
    predicted(&parts.path, &model, &out, &[&flags[..], &[list]].concat());
    let script = "import numpy, sys\n\
                  y = numpy.load(sys.argv[1] + '/y_pred_mag240m_test-challenge.npz')['y_pred']\n\
                  p = numpy.load(sys.argv[1] + '/predictions.npy')\n\
                  assert y.dtype == numpy.short and y.shape == (58726,), (y.dtype, y.shape)\n\
                  assert (y == p[::-1]).all()";
    if !python_has(Command::new("python3"), "numpy", "a_submission_has_the_classes_in_the_order_of_the_file") {
        return;
    }
    succeeded(Command::new("python3").args(["-c", script]).arg(&out).output().expect("start Python"));
}

#[test]
fn a_model_predicts_from_the_times_and_weights_of_its_evaluation() {
    let options = FakeOptions { avg_num_nodes: 400, edge_attributes: true, ..FakeOptions::default() };
    let graph = fake(&options).expect("a fake graph");
    let [two, one, three] = [2, 1, 3].map(|num_parts| programs::written_by(&graph, num_parts));
    let folder = tempfile::tempdir().expect("a folder");
    let [model, out] = ["model.safetensors", "out"].map(|name| folder.path().join(name));
    for flags in [&["--time-attr", "edge_time"][..], &["--time-attr", "node_time"], &["--weighted"]] {
        let result = trained("node", &two.path, &model, flags);
        let ours = predicted(&two.path, &model, &out, &["--output", "logit"]);
        let expected = numbers(&out).1;
        // The evaluation has read all neighbors that the flags allow, and so does the prediction.
        assert_eq!([&ours["valid_acc"], &ours["test_acc"]], [&result["valid_acc"], &result["test_acc"]], "{flags:?}");
        for (parts, more) in [(&one, &[][..]), (&three, &["--nproc-per-node", "2"]), (&three, &["--batch-size", "7"])] {
            predicted(&parts.path, &model, &out, &[&["--output", "logit"], more].concat());
            assert_close(&numbers(&out).1, &expected, &format!("{flags:?} {more:?}"));
        }
        // Evaluations take the flags from the file too.
        let load = ["--load-model", model.to_str().expect("a path"), "--json"];
        let output = succeeded(run(programs::node(&three.path).args(load).args(["--nproc-per-node", "3"])));
        let evaluated: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!(evaluated["test_acc"], result["test_acc"], "{flags:?}: {}", stderr(&output));
    }
    trained("node", &two.path, &model, &["--time-attr", "edge_time"]);
    let logits = |flags: &[&str]| {
        predicted(&two.path, &model, &out, &[&["--output", "logit"], flags].concat());
        numbers(&out).1
    };
    let own_times = logits(&[]);
    let all_times = logits(&["--time-attr", "none"]);
    assert_ne!(own_times, all_times);
    // After the last edge, all edges are known.
    assert_close(&logits(&["--seed-time", "9000000000000000000"]), &all_times, "the end of time");
    assert_ne!(logits(&["--seed-time", "-1"]), own_times);
    for (flags, why) in [
        (&["--time-attr", "none", "--seed-time", "3"][..], "--seed-time has no effect: no times are compared"),
        (&["--time-attr", "none", "--batch-size", "3"], "--batch-size has no effect: all neighbors are read"),
        (&["--time-attr", "yesterday"], "expected edge_time or node_time"),
    ] {
        let output = predict(&two.path, &model, &folder.path().join("none"), flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(stderr(&output).contains(why), "{flags:?}: {}", stderr(&output));
    }
}

#[test]
fn models_of_edge_features_do_not_depend_on_the_partitioning() {
    let options = FakeOptions { avg_num_nodes: 400, edge_attributes: true, ..FakeOptions::default() };
    let graph = fake(&options).expect("a fake graph");
    let [two, one, three] = [2, 1, 3].map(|num_parts| programs::written_by(&graph, num_parts));
    let folder = tempfile::tempdir().expect("a folder");
    let [model, out] = ["model.safetensors", "out"].map(|name| folder.path().join(name));
    for flags in [&["--model", "gine"][..], &["--model", "transformer", "--encoder-decoder"], &["--model", "gatv2"]] {
        let result = trained("node", &two.path, &model, flags);
        let ours = predicted(&two.path, &model, &out, &["--output", "logit", "--nproc-per-node", "2"]);
        let expected = numbers(&out).1;
        // Layer-wise inference and the evaluation of batches read all neighbors and the features of all edges.
        for score in ["valid_acc", "test_acc"] {
            let difference = ours[score].as_f64().expect("a score") - result[score].as_f64().expect("a score");
            assert!(difference.abs() < 0.02, "{flags:?}: {ours} after {result}");
        }
        for (parts, more) in [
            (&one, &["--memory-bytes", "100KB"][..]),
            (&three, &["--nproc-per-node", "2"]),
            (&three, &["--nproc-per-node", "4", "--num-neighbors", "-1,-1"]),
        ] {
            predicted(&parts.path, &model, &out, &[&["--output", "logit"], more].concat());
            assert_close(&numbers(&out).1, &expected, &format!("{flags:?} {more:?}"));
        }
        let blind = programs::fake_parts(1);
        let error = error_of(&predict(&blind.path, &model, &folder.path().join("none"), &[]));
        assert!(error.contains("the model was trained for another graph"), "{error}");
    }
    let output = run(programs::node(&one.path).args(["--model", "gine", "--no-edge-features"]));
    assert!(error_of(&output).contains("gine"), "{}", stderr(&output));
    let output = run(programs::node(&one.path).args(["--model", "sage"]));
    assert!(stderr(&output).contains("note: edges have features"), "{}", stderr(&output));
}

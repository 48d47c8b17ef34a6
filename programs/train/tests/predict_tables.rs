//! Predictions from parts of tables: rows with the ids and classes of the tables in every layout and format, nodes named
//! by these ids, and models of other tables.

use crate::programs;
use crate::programs::*;

use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::{Dataset, HoldOut, map_npy, write_npy};
use edgecut_partition::{Inputs, PartitionOptions, partition_loaded};
use edgecut_tables::{TableOptions, Transforms, read_tables};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

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

/// Returns a folder with tables, and with their partition in the folder `parts`.
fn tables(num_parts: u32) -> Folder {
    let folder = Folder::new();
    write_tables(folder.path(), &(0..NUM_USERS).collect::<Vec<_>>(), ["red", "green", "blue"]);
    partition_tables(folder.path(), num_parts, None, &folder.join("parts"));
    folder
}

/// Partitions tables as [`partition_tables`] does, and holds out purchases by another rule.
pub(crate) fn partition_tables_with(
    dir: &Path,
    num_parts: u32,
    transforms_of: Option<&Path>,
    hold_out: Option<HoldOut>,
    parts: &Path,
) {
    let hold_out_purchases = |graph: &mut Dataset| {
        let Some(hold_out) = hold_out else { return };
        let buys = graph.edge_type_ids().into_iter().find(|e| graph.edge_types[e.index()].relation == "buys");
        graph.hold_out_edges(&[buys.expect("purchases")], &hold_out).expect("held-out edges");
    };
    partition_tables_as(dir, "shop", transforms_of, hold_out_purchases, num_parts, parts);
}

/// Partitions the graph that `graph.json` describes, after a change.
pub(crate) fn partition_tables_as(
    dir: &Path,
    name: &str,
    transforms_of: Option<&Path>,
    change: impl FnOnce(&mut Dataset),
    num_parts: u32,
    parts: &Path,
) {
    let transforms = transforms_of.map(|other| Transforms::read(other).expect("transforms"));
    let options = TableOptions { transforms, ..TableOptions::default() };
    let mut read = read_tables(&dir.join("graph.json"), name, &options).expect("a graph");
    change(&mut read.dataset);
    let json = read.transforms.to_json();
    let extra = ExtraFiles { nodes: &read.id_maps, transforms: Some(&json), ..ExtraFiles::default() };
    let inputs = Inputs { extra, ..Inputs::default() };
    partition_loaded(read.dataset, inputs, &PartitionOptions::new(num_parts), parts, &()).expect("parts");
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

/// Each program output has the same rows for 1, 2, N and N + 1 processes on N = 3 parts. Processes write their rows in each format
/// in the same way, so that each format of tables has two numbers of processes.
#[test]
fn every_output_of_tables_has_the_same_rows_in_every_layout_and_format() {
    let folder = tables(3);
    let parts = folder.join("parts");
    let [items, links] = ["items", "links"].map(|name| folder.join(name));
    trained("node", &parts, &items, &[]);
    trained("link", &parts, &links, &["--eval-negatives", "5"]);
    let pairs: Vec<i64> = (0..20).chain((0..20).map(|n| n * 7 % 30)).collect();
    write_npy(&folder.join("pairs.npy"), &[2, 20], &pairs).expect("pairs");
    let pairs = folder.text("pairs.npy");
    let out = folder.join("out");
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
        for (processes, format) in [(1, "csv"), (2, "parquet"), (3, "csv"), (4, "parquet"), (4, "npy")] {
            let what = format!("{flags:?} {processes} {format}");
            let number = processes.to_string();
            let layout = ["--nproc-per-node", &number, "--format", format];
            predicted(&parts, model, &out, &[&layout[..], &flags].concat());
            if format == "npy" {
                let array = if stem == "predictions" { "predictions.npy" } else { "scores.npy" };
                let (_, values) = map_npy::<f32>(&out.join(array)).expect("an array");
                let expected: Vec<f32> = expected.iter().flatten().flat_map(|(.., values)| values.clone()).collect();
                assert_close(&values, &expected, &what);
                continue;
            }
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
    }
    // One file of all rows.
    let flags = ["--nproc-per-node", "2", "--output", "embedding", "--node-type", "user", "--gather", "--format"];
    for format in ["csv", "parquet"] {
        predicted(&parts, &links, &out, &[&flags[..], &[format]].concat());
        let file = out.join(format!("predictions.{format}"));
        let rows = if format == "csv" { csv_rows(&file) } else { parquet_rows(&file) };
        assert_eq!(rows.len(), NUM_USERS);
        assert!(rows.iter().all(|(numbers, texts, _)| texts[..] == [user(numbers[0] as usize)]), "{format}");
        // The model file alone also knows the ids of its learned embeddings.
        let mut command = program();
        command.args(["predict", "--output", "table", "--overwrite", "--format", format, "--load-model"]).arg(&links);
        succeeded(run(command.arg("--out").arg(&out)));
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
    let folder = tables(3);
    let [items, links] = ["items", "links"].map(|name| folder.join(name));
    trained("node", &folder.join("parts"), &items, &[]);
    trained("link", &folder.join("parts"), &links, &["--eval-negatives", "5"]);
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
    std::fs::write(folder.join("bare.csv"), &ids).expect("ids without a header");
    std::fs::write(folder.join("named.csv"), format!("id\n{ids}")).expect("ids with a header");
    std::fs::write(folder.join("pairs.csv"), pairs).expect("pairs without a header");
    std::fs::write(folder.join("scored.csv"), scored).expect("pairs with another column");
    write_npy(&folder.join("items.npy"), &[4], &bought.map(|row| row * 10)).expect("ids of items");
    let numbers: Vec<i64> = users.iter().map(|&row| row as i64).collect();
    write_npy(&folder.join("users_rows.npy"), &[4], &numbers).expect("rows of users");
    write_npy(&folder.join("items_rows.npy"), &[4], &bought).expect("rows of items");
    write_npy(&folder.join("pairs_rows.npy"), &[2, 4], &[&numbers[..], &bought].concat()).expect("rows of pairs");
    // Tables that this program has written, which name the same users.
    let embedding = ["--output", "embedding", "--node-type", "user"];
    let written = ["--row-numbers", "--nodes", &folder.text("users_rows.npy"), "--gather", "--format", "parquet"];
    predicted(&folder.join("parts"), &links, &folder.join("table"), &[&embedding[..], &written].concat());
    let table = folder.text("table/predictions.parquet");
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
            vec![folder.text("bare.csv"), folder.text("named.csv"), table.clone()],
        ),
        (&items, &of_items[..], "predictions", "items_rows.npy", vec![folder.text("items.npy")]),
        (&links, &score[..], "scores", "pairs_rows.npy", vec![folder.text("pairs.csv"), folder.text("scored.csv")]),
        (&links, &top[..], "top_k", "users_rows.npy", vec![folder.text("named.csv"), table.clone()]),
    ] {
        let rows_of = |ids: &str, row_numbers: &[&str], processes: usize| {
            let number = processes.to_string();
            let layout = ["--nproc-per-node", &number, "--format", "csv"];
            let flags = [flags, &[ids], row_numbers, &layout].concat();
            predicted(&folder.join("parts"), model, &folder.join("out"), &flags);
            let mut rows = read_rows(&folder.join("out"), stem, "csv", processes);
            // Equal scores within rounding may change places.
            rows.sort_by(|a, b| (&a.1, a.0[0]).cmp(&(&b.1, b.0[0])));
            rows
        };
        let expected = rows_of(&folder.text(by_number), &["--row-numbers"], 2);
        assert_eq!(expected.len(), if stem == "top_k" { 4 * 30 } else { 4 });
        // All processes read the whole file, so that one of the files is read by all numbers of processes.
        let first = [1, 4].map(|processes| (processes, &by_id[0]));
        for (processes, ids) in first.into_iter().chain(by_id.iter().map(|ids| (3, ids))) {
            let what = format!("{flags:?} {ids}, {processes} processes");
            let found = rows_of(ids, &[], processes);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!((found.0[0], &found.1), (expected.0[0], &expected.1), "{what}");
                assert_close(&found.2, &expected.2, &what);
            }
            assert_eq!(found.len(), expected.len(), "{what}");
        }
    }
    // Each class has its name.
    predicted(
        &folder.join("parts"),
        &items,
        &folder.join("out"),
        &["--output", "class", "--format", "parquet", "--gather"],
    );
    for (numbers, texts, class) in parquet_rows(&folder.join("out").join("predictions.parquet")) {
        let names = ["high", "low"];
        assert_eq!(texts, [item(numbers[0]), names[class[0] as usize].to_owned()]);
    }

    // Seeds of batches.
    let mut batches = Vec::new();
    for (name, seeds) in [("by_row", &["users_rows.npy", "--row-numbers"][..]), ("by_id", &["named.csv"])] {
        let mut command = programs::train("sample", &folder.join("parts"));
        command.args(["--seed-type", "user", "--nproc-per-node", "2", "--out"]).arg(folder.join(name));
        command.arg("--seeds").arg(folder.join(seeds[0])).args(&seeds[1..]);
        succeeded(run(&mut command));
        batches.push(std::fs::read(folder.join(name).join("batch_00000.npz")).expect("a batch"));
    }
    assert!(batches[0] == batches[1]);

    let unknown: String = (0..7).map(|row| format!("nobody {row}\n")).collect();
    std::fs::write(folder.join("unknown.csv"), format!("id\n{ids}{unknown}")).expect("unknown ids");
    std::fs::write(folder.join("half.csv"), format!("{},5\n", quoted(&user(1)))).expect("half a pair");
    std::fs::write(folder.join("header.csv"), "id\n").expect("a header alone");
    std::fs::write(folder.join("wrong.csv"), format!("person\n{ids}")).expect("ids after a wrong id");
    std::fs::write(folder.join("swapped.csv"), format!("dst,buyer\n{},{}\n", item(5), quoted(&user(1))))
        .expect("a pair");
    write_npy(&folder.join("beyond.npy"), &[2], &[3_i64, 60]).expect("rows");
    for (flags, words) in [
        (
            [&named[..], &[&folder.text("unknown.csv")]].concat(),
            &["--nodes", "7 of 11 ids do not exist", "type user: nobody 0 (row 5), nobody 1 (row 6)", "and 2 more"][..],
        ),
        ([&top[..], &[&folder.text("unknown.csv")]].concat(), &["--sources", "7 of 11 ids"]),
        (
            [&score[..], &[&folder.text("half.csv")]].concat(),
            &["--pairs", "1 of 1 destinations", "type item: 5 (row 1)"],
        ),
        (
            [&named[..], &[&folder.text("wrong.csv")]].concat(),
            &["1 of 5 ids do not exist", "person (row 1). If row 1 is a header, write it as id"],
        ),
        ([&named[..], &[&folder.text("users_rows.npy")]].concat(), &["4 of 4 ids", "add --row-numbers"]),
        ([&named[..], &[&folder.text("beyond.npy"), "--row-numbers"]].concat(), &["60 (row 2)", "There are 60 nodes"]),
        ([&embedding[..], &["--row-numbers"]].concat(), &["--row-numbers has no effect"]),
    ] {
        let flags = [&flags[..], &["--nproc-per-node", "4"]].concat();
        assert_error(&predict(&folder.join("parts"), &links, &folder.join("none"), &flags), words);
    }
    // Files that are refused when they are read.
    for (flags, file, words) in [
        (&named, "header.csv", "it has no ids"),
        (&score.to_vec(), "swapped.csv", "its columns are dst, buyer: expected the columns src and dst"),
    ] {
        let file = folder.text(file);
        let flags = [&flags[..], &[&file]].concat();
        assert_error(&predict(&folder.join("parts"), &links, &folder.join("none"), &flags), &[words]);
    }
}

/// Node 0 gathers the ids of all parts, and its copy of another node's part may be any file.
#[test]
fn gathered_ids_of_another_partitioning_are_refused() {
    let folder = tables(2);
    partition_tables(folder.path(), 2, None, &folder.join("first"));
    trained("link", &folder.join("parts"), &folder.join("links"), &["--eval-negatives", "5"]);
    // The ids of another part, and numbers in place of texts.
    for other in [id_map(0, "user"), id_map(1, "item")] {
        std::fs::copy(folder.join("parts").join(&other), folder.join("first").join(id_map(1, "user"))).expect("copy");
        let port = edgecut_testing::free_port().to_string();
        let start = |rank: &str, parts: &str| {
            let mut command = program();
            command.args(["predict", "--output", "embedding", "--node-type", "user", "--format", "csv", "--gather"]);
            command.args(["--num-nodes", "2", "--node-rank", rank, "--master-port", &port]);
            command.arg("--dataset-root-dir").arg(folder.join(parts)).arg("--load-model").arg(folder.join("links"));
            command.arg("--out").arg(folder.join(format!("out-{rank}")));
            Process::start(&mut command)
        };
        let [first, second] = [start("0", "first"), start("1", "parts")].map(programs::end);
        assert_error(&first, &["--gather", "part_1/nodes/user/id_map.parquet", "META.json says"]);
        assert!(!second.status.success());
        assert!(!folder.join("out-0").join("predictions.csv").exists(), "no partial file");
    }
}

/// A submission has the order of the file, whose ids are ids of the table.
#[test]
fn a_submission_of_tables_has_the_classes_of_the_listed_ids() {
    const NUM_NODES: usize = 60_000;
    const NUM_SUBMITTED: usize = 58_726;
    let folder = Folder::new();
    // The ids are a permutation of the rows.
    let id = |row: usize| row * 7 % NUM_NODES;
    let label = |row: usize| match row % 100 {
        0 => row / 100 % 2,
        _ => 9,
    };
    let node = |row: usize| match label(row) {
        9 => format!("{},{},\n", id(row), row % 2),
        label => format!("{},{},{label}\n", id(row), row % 2),
    };
    std::fs::write(folder.join("nodes.csv"), format!("id,x,y\n{}", (0..NUM_NODES).map(node).collect::<String>()))
        .expect("write");
    std::fs::write(folder.join("edges.csv"), "src,dst\n0,7\n7,14\n").expect("write");
    let conf = serde_json::json!({
        "nodes": [{"node_type": "paper", "node_id_col": "id", "files": "nodes.csv", "features": [{"feature_col": "x"}],
            "labels": [{"task_type": "classification", "label_col": "y", "split_pct": [0.8, 0.1, 0.1]}]}],
        "edges": [{"relation": ["paper", "cites", "paper"], "files": "edges.csv", "source_id_col": "src",
            "dest_id_col": "dst"}]});
    std::fs::write(folder.join("graph.json"), conf.to_string()).expect("write");
    partition_tables_with(folder.path(), 2, None, None, &folder.join("parts"));
    trained("node", &folder.join("parts"), &folder.join("model"), &["--num-epochs", "1"]);
    let listed: Vec<usize> = (0..NUM_SUBMITTED).map(|at| at * 11 % NUM_NODES).collect();
    let lines: String = listed.iter().map(|id| format!("{id}\n")).collect();
    std::fs::write(folder.join("list.csv"), format!("id\n{lines}")).expect("write");
    let list = folder.join("list.csv");
    let list = list.to_str().expect("UTF-8");
    let flags = ["--ogb-submission", "mag240m-test-challenge", "--format", "csv", "--gather", "--nodes", list];
    predicted(&folder.join("parts"), &folder.join("model"), &folder.join("out"), &flags);
    if !edgecut_testing::python_has(Command::new("python3"), "numpy", "a_submission_of_tables") {
        return;
    }
    let script = "import csv, numpy, sys\n\
                  y = numpy.load(sys.argv[1] + '/out/y_pred_mag240m_test-challenge.npz')['y_pred']\n\
                  rows = list(csv.DictReader(open(sys.argv[1] + '/out/predictions.csv')))\n\
                  classes = {row['id']: int(row['class']) for row in rows}\n\
                  ids = open(sys.argv[1] + '/list.csv').read().split()[1:]\n\
                  assert len(set(classes.values())) == 2\n\
                  assert (y == [classes[one] for one in ids]).all()";
    succeeded(Command::new("python3").args(["-c", script]).arg(folder.path()).output().expect("start Python"));
}

/// Returns the path of the ids of a node type in the folder of the parts.
fn id_map(part: u32, node_type: &str) -> String {
    format!("part_{part}/nodes/{node_type}/id_map.parquet")
}

/// Trains a model that starts from a saved one, and returns standard error.
fn started_from(model: &Path, parts: &Path) -> String {
    let mut command = program();
    command.args(["node", "--num-neighbors", "5,3", "--hidden-channels", "16", "--num-epochs", "1"]);
    command.arg("--init-from").arg(model).arg("--dataset-root-dir").arg(parts);
    stderr(&succeeded(run(&mut command)))
}

#[test]
fn a_model_is_refused_for_other_data_than_that_of_its_training() {
    let folder = Folder::new();
    let rows: Vec<usize> = (0..NUM_USERS).collect();
    let colors = ["red", "green", "blue"];
    write_tables(folder.path(), &rows, colors);
    partition_tables(folder.path(), 2, None, &folder.join("parts"));
    let [items, links] = ["items", "links"].map(|name| folder.join(name));
    trained("node", &folder.join("parts"), &items, &[]);
    trained("link", &folder.join("parts"), &links, &["--eval-negatives", "5"]);
    let evaluate = |task: &str, parts: &str, model: &Path, flags: &[&str]| {
        let words = format!("{task} --num-neighbors 5,3 --load-model {} {}", text(model), flags.join(" "));
        run_on(&folder.join(parts), &words)
    };
    let predict_items = ["--output", "logit"];
    let predict_users = ["--output", "embedding", "--node-type", "user"];

    // Other users. Items have features, which belong to no user.
    write_tables(folder.path(), &(100..100 + NUM_USERS).collect::<Vec<_>>(), colors);
    partition_tables(folder.path(), 3, Some(&folder.join("parts")), &folder.join("others"));
    for output in [
        evaluate("link", "others", &links, &["--eval-negatives", "5"]),
        predict(&folder.join("others"), &links, &folder.join("out"), &predict_users),
        predict(&folder.join("others"), &items, &folder.join("out"), &predict_items),
    ] {
        assert_error(&output, &["no node of type user has the id of a saved row", "--new-embeddings mean"]);
    }
    // A training that starts from the model keeps the initial values of these embeddings.
    let start = |parts: &str| {
        let words = "link --num-neighbors 5,3 --hidden-channels 16 --num-epochs 1 --eval-negatives 5 --init-from";
        succeeded(run_on(&folder.join(parts), &format!("{words} {}", text(&links))))
    };
    let output = start("others");
    assert!(stderr(&output).contains("the nodes of type user are not those of the file"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("the data is not like"), "{}", stderr(&output));

    // As many categories, but others. Only the transforms of the training give their columns the same meaning.
    write_tables(folder.path(), &rows, ["red", "green", "yellow"]);
    partition_tables(folder.path(), 2, None, &folder.join("yellow"));
    for output in [
        evaluate("node", "yellow", &items, &[]),
        predict(&folder.join("yellow"), &items, &folder.join("out"), &predict_items),
        predict(&folder.join("yellow"), &links, &folder.join("out"), &predict_users),
    ] {
        assert_error(&output, &["the features of node type item have other transforms", "--transforms"]);
    }
    let line = "the data is not like that of the model: the features of node type item have other transforms";
    assert!(stderr(&start("yellow")).contains(line));
    partition_tables(folder.path(), 1, Some(&folder.join("parts")), &folder.join("same"));
    let output = succeeded(evaluate("node", "same", &items, &[]));
    let printed = stderr(&output);
    let notes: Vec<&str> = printed.lines().filter(|line| line.contains("note: ")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("the nodes of type item have other ") && notes[0].contains("features"), "{notes:?}");

    // As many classes, but others.
    let classes = "the classes of node type item are not those of its training";
    assert!(!started_from(&items, &folder.join("same")).contains("the classes of"));
    let table = std::fs::read_to_string(folder.join("items.csv")).expect("the items");
    let table = table.replace("yellow", "blue").replace("high", "middle");
    std::fs::write(folder.join("items.csv"), table).expect("write the items");
    partition_tables(folder.path(), 2, None, &folder.join("classes"));
    assert_error(&evaluate("node", "classes", &items, &[]), &[classes]);
    let output = started_from(&items, &folder.join("classes"));
    assert!(output.contains(&format!("{classes}, so that outputs that are taken over stand for other")), "{output}");

    // The file gives the settings of the model.
    for (task, model, flags, what) in [
        ("node", &items, ["--model", "gat"], "--model gat: the model"),
        ("node", &items, ["--hidden-channels", "8"], "--hidden-channels 8: the model"),
        ("link", &links, ["--decoder", "distmult"], "--decoder distmult: the model"),
    ] {
        assert_fails(&evaluate(task, "parts", model, &flags), 2, &[what]);
    }
    succeeded(evaluate("node", "parts", &items, &["--model", "sage", "--hidden-channels", "16"]));
}

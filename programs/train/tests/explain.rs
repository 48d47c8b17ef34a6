//! Explanations of predictions, from real processes: planted causes are found, contributions add up to the score, and the
//! file does not depend on parts or processes.

use crate::edges::payment_parts;
use crate::predict_tables::partition_tables_as;
use crate::programs::*;

use edgecut_graph::{Dataset, write_npy};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const NUM_USERS: usize = 400;
const NUM_SHOPS: usize = 60;

/// A row of a file, by the names of its columns.
type Row = BTreeMap<String, String>;

/// Returns true for the shops whose visitors are bad.
fn is_risky(shop: usize) -> bool {
    shop.is_multiple_of(10)
}

/// Returns the shops that a user has visited. Odd users have visited one risky shop.
fn visited(user: usize) -> Vec<usize> {
    let mut shops: Vec<usize> =
        (1..5).map(|n| (user * 7 + n * 13) % NUM_SHOPS).filter(|&shop| !is_risky(shop)).collect();
    if user % 2 == 1 {
        shops.push(user / 2 % (NUM_SHOPS / 10) * 10);
    }
    shops
}

/// Writes tables of users, shops and visits, and their partition. A user is bad if and only if one of the shops is risky.
fn visit_parts(dir: &Path, num_parts: u32) {
    let users: String =
        (0..NUM_USERS).map(|n| format!("user {n},{},{}\n", n * 37 % 11, ["good", "bad"][n % 2])).collect();
    let shops: String = (0..NUM_SHOPS)
        .map(|n| {
            let color = ["red", "green, dark", "blue"][n % 3];
            format!("{},{},{},\"{color}\"\n", 1000 + n, n * 17 % 7, u8::from(is_risky(n)))
        })
        .collect();
    let visits: String = (0..NUM_USERS)
        .flat_map(|user| visited(user).into_iter().map(move |shop| format!("{},user {user}\n", 1000 + shop)))
        .collect();
    write_text(dir, "users.csv", format!("name,age,label\n{users}"));
    write_text(dir, "shops.csv", format!("id,size,risk,color\n{shops}"));
    write_text(dir, "visits.csv", format!("shop,user\n{visits}"));
    let conf = serde_json::json!({
        "nodes": [
            {"node_type": "user", "node_id_col": "name", "files": "users.csv",
                "features": [{"feature_col": "age", "transform": {"name": "standard"}}],
                "labels": [{"task_type": "classification", "label_col": "label", "split_pct": [0.6, 0.1, 0.3]}]},
            {"node_type": "shop", "node_id_col": "id", "files": "shops.csv", "features": [
                {"feature_col": "size", "transform": {"name": "standard"}}, {"feature_col": "risk"},
                {"feature_col": "color", "transform": {"name": "to_categorical"}}]}],
        "edges": [{"relation": ["shop", "visited_by", "user"], "files": "visits.csv", "source_id_col": "shop",
            "dest_id_col": "user"}]});
    write_text(dir, "graph.json", conf.to_string());
    let parts = dir.join(format!("{num_parts}-parts"));
    partition_tables_as(dir, "visits", None, Dataset::add_reverse_edges, num_parts, &parts);
}

fn write_text(dir: &Path, name: &str, text: String) {
    std::fs::write(dir.join(name), text).expect("write a file");
}

/// Reads `explanations.csv`.
fn rows_of(out: &Path) -> Vec<Row> {
    let path = out.join("explanations.csv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (header, lines) = text.split_once('\n').expect("a header");
    let names: Vec<&str> = header.split(',').collect();
    let mut rows = Vec::new();
    for line in lines.lines() {
        // Within fields, only colors have commas.
        let line = line.replace("\"color=green, dark\"", "color=green; dark");
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), names.len(), "{line}");
        rows.push(names.iter().zip(fields).map(|(name, field)| ((*name).to_owned(), field.to_owned())).collect());
    }
    rows
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

#[test]
fn the_planted_neighbors_and_features_of_nodes_are_found() {
    let folder = Folder::new();
    for num_parts in [1, 2, 3] {
        visit_parts(folder.path(), num_parts);
    }
    let flags = ["--num-neighbors", "-1,-1", "--num-epochs", "20", "--lr", "0.02", "--patience", "100"];
    let found = trained("node", &folder.join("2-parts"), &folder.join("model"), &flags);
    assert!(found["test_acc"].as_f64().expect("an accuracy") > 0.95, "{found}");
    let flags = ["--explain", "--nodes", "test", "--format", "csv", "--explain-top", "3"];
    let result = predicted(
        &folder.join("2-parts"),
        &folder.join("model"),
        &folder.join("out"),
        &[&flags[..], &["--nproc-per-node", "2"]].concat(),
    );
    let rows = rows_of(&folder.join("out"));
    assert_eq!(result["rows"].as_u64(), Some(rows.len() as u64));
    assert_eq!(result["explained"].as_u64(), Some(120));
    assert!(result["largest_gap"].as_f64().expect("a gap") < 0.02, "{result}");
    let mut num_bad = 0;
    let mut num_found = 0;
    for row in &rows {
        let user = number(row, "node_id") as usize;
        assert_eq!(row["id"], format!("user {user}"));
        assert!(number(row, "rank") <= 3.0 && row["input_dst_id"] == "-1" && row["input_dst"].is_empty(), "{row:?}");
        let shop = number(row, "input_id") as usize;
        match row["type"].as_str() {
            "shop" => assert_eq!(row["input"], (1000 + shop).to_string()),
            other => assert_eq!((other, row["input"].as_str()), ("user", format!("user {shop}").as_str())),
        }
        if row["class_name"] != "bad" || number(row, "rank") > 1.0 {
            continue;
        }
        match (row["kind"].as_str(), row["feature"].as_str()) {
            ("node", "") => {
                num_bad += 1;
                num_found += usize::from(row["type"] == "shop" && is_risky(shop) && visited(user).contains(&shop));
                assert_eq!(row["value"], "NaN");
            }
            ("node-feature", feature) => {
                num_found += usize::from(feature == "risk" && is_risky(shop) && row["value"] == "1");
                assert!(number(row, "contribution") > 0.0 || feature != "risk", "{row:?}");
            }
            _ => panic!("{row:?}"),
        }
    }
    assert!(num_bad > 40, "{num_bad} bad users");
    assert!(num_found as f64 > 0.95 * 2.0 * num_bad as f64, "{num_found} of {num_bad} risky shops and risks");
    let features: std::collections::BTreeSet<&str> = rows.iter().map(|row| row["feature"].as_str()).collect();
    assert!(features.contains("color=green; dark") && features.contains("risk"), "{features:?}");

    // The file has the same bytes for other parts and other numbers of processes.
    let few: String = (0..16).map(|n| format!("user {}\n", n * 23)).collect();
    write_text(folder.path(), "few.csv", format!("id\n{few}"));
    let few = folder.text("few.csv");
    let explain = ["--explain", "--nodes", &few, "--explain-top", "3"];
    let mut expected = None;
    for (parts, processes) in [("1-parts", "1"), ("3-parts", "3"), ("2-parts", "3"), ("2-parts", "1")] {
        let flags = [&explain[..], &["--format", "csv", "--nproc-per-node", processes]].concat();
        let result = predicted(&folder.join(parts), &folder.join("model"), &folder.join("out"), &flags);
        assert_eq!(result["explained"].as_u64(), Some(16), "{parts}, {processes} processes");
        let found = std::fs::read(folder.join("out").join("explanations.csv")).expect("the file");
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{parts}, {processes} processes");
    }
    let rows = rows_of(&folder.join("out"));

    // Parquet has the same rows.
    let flags = [&explain[..], &["--format", "parquet", "--nproc-per-node", "2"]].concat();
    predicted(&folder.join("2-parts"), &folder.join("model"), &folder.join("out"), &flags);
    let file = std::fs::File::open(folder.join("out").join("explanations.parquet")).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let columns: Vec<String> =
        reader.metadata().file_metadata().schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
    let names: Vec<&str> = "node_id,output,rank,id,class_name,kind,type,input_id,input,input_dst_id,input_dst,feature,\
        score,baseline,value,contribution"
        .split(',')
        .collect();
    assert_eq!(columns, names);
    assert_eq!(reader.get_row_iter(None).expect("rows").count(), rows.len());
    assert!(!folder.join("out").join("explanations.csv").exists(), "files of an earlier run are replaced");

    // An explanation of another class, with sampled neighbors.
    let flags = [&explain[..], &["--format", "csv", "--explain-output", "1", "--num-neighbors", "2,2"]].concat();
    predicted(&folder.join("2-parts"), &folder.join("model"), &folder.join("out"), &flags);
    assert!(rows_of(&folder.join("out")).iter().all(|row| row["output"] == "1" && row["class_name"] == "good"));
}

/// Returns the logits of all nodes or edges, by the ids of the rows.
fn scores(rows: &[Row]) -> Vec<f32> {
    let mut scores = BTreeMap::new();
    for row in rows {
        scores.insert(number(row, "node_id") as u64, number(row, "score") as f32);
    }
    scores.into_values().collect()
}

#[test]
fn contributions_add_up_to_the_scores_of_predictions() {
    let parts = fake_parts(2);
    let typed = typed_parts(2);
    let Scratch { folder, model, out } = scratch();
    // Nodes of both parts. An explanation with 200 steps is 200 evaluations and gradients.
    let ids: Vec<i64> = (0..24).map(|at| at * 12).collect();
    write_npy(&folder.join("nodes.npy"), &[ids.len()], &ids).expect("a list");
    let list = folder.text("nodes.npy");
    let of_parts = [
        (&parts, &["--model", "sage"][..]),
        (&parts, &["--model", "gcn"]),
        (&parts, &["--model", "gatv2", "--heads", "2", "--layer-norm"]),
        (&parts, &["--model", "transformer", "--heads", "2", "--encoder-decoder", "--residual"]),
        (&parts, &["--model", "sage", "--node-embeddings", "node=6"]),
        (&parts, &["--model", "sage", "--node-embeddings", "node=6:add"]),
        (&typed, &["--model", "rgcn"]),
    ];
    for (parts, kind) in of_parts {
        trained("node", &parts.path, &model, &[kind, &["--num-epochs", "2"]].concat());
        let flags = ["--nodes", &list, "--format", "csv", "--nproc-per-node", "2"];
        let explain = [&flags[..], &["--explain", "--explain-top", "8", "--explain-steps", "200"]].concat();
        let result = predicted(&parts.path, &model, &out, &explain);
        assert_eq!(result["explained"].as_u64(), Some(ids.len() as u64), "{kind:?}");
        assert!(result["largest_gap"].as_f64().expect("a gap") < 0.02, "{kind:?}: {result}");
        let rows = rows_of(&out);
        let flags = ["--nodes", &list, "--format", "csv", "--output", "logit", "--gather"];
        predicted(&parts.path, &model, &out, &flags);
        let text = std::fs::read_to_string(out.join("predictions.csv")).expect("logits");
        let greatest =
            |line: &str| line.split(',').skip(1).map(|x| x.parse::<f32>().expect("a logit")).fold(f32::MIN, f32::max);
        let expected: Vec<f32> = text.lines().skip(1).map(greatest).collect();
        assert_close(&scores(&rows), &expected, &format!("{kind:?}"));
        let has_embeddings = rows.iter().any(|row| row["feature"] == "embedding");
        assert_eq!(has_embeddings, kind.contains(&"rgcn") || kind.contains(&"--node-embeddings"), "{kind:?}");
    }
}

#[test]
fn the_planted_features_of_edges_are_found() {
    let Scratch { folder, model, out } = scratch();
    let label = serde_json::json!({"task_type": "classification", "label_col": "kind", "split_pct": [0.6, 0.36, 0.04]});
    let parts = [1, 3].map(|num_parts| {
        let dir = folder.join(format!("{num_parts}"));
        std::fs::create_dir(&dir).expect("create a folder");
        payment_parts(&dir, num_parts, &label);
        dir.join("parts")
    });
    let flags = ["--num-epochs", "20", "--model", "gatv2", "--heads", "2"];
    let found = trained("edge", &parts[1], &model, &flags);
    assert!(found["test_acc"].as_f64().expect("an accuracy") > 0.9, "{found}");
    let explain = ["--explain", "--edges", "test", "--num-neighbors", "-1,-1", "--format", "csv", "--explain-top", "2"];
    let mut files = Vec::new();
    for (parts, processes) in parts.iter().zip(["1", "2"]) {
        let result = predicted(parts, &model, &out, &[&explain[..], &["--nproc-per-node", processes]].concat());
        assert!(result["largest_gap"].as_f64().expect("a gap") < 0.05, "{result}");
        assert_eq!(result["explained"].as_u64(), Some(48));
        files.push(std::fs::read(out.join("explanations.csv")).expect("the file"));
    }
    assert!(files[0] == files[1], "the file depends on parts or processes");
    let mut num_edges = 0;
    let mut num_found = 0;
    for row in rows_of(&out) {
        assert_eq!(
            (row["src"].as_str(), row["dst"].parse().ok()),
            (format!("user {}", row["src_id"]).as_str(), Some(100.0 + number(&row, "dst_id")),)
        );
        if row["kind"] != "edge-feature" || row["rank"] != "1" {
            continue;
        }
        num_edges += 1;
        let is_target = row["input"] == row["src"] && row["input_dst"] == row["dst"];
        num_found += usize::from(is_target && row["feature"] == "amount" && row["type"] == "user__pays__shop");
    }
    // A feature that has no share in a score has no row.
    assert!((46..=48).contains(&num_edges), "{num_edges}");
    assert!(num_found > 40, "{num_found} of {num_edges}");
}

#[test]
fn impossible_explanations_are_refused() {
    let parts = fake_parts(1);
    let Scratch { folder: _folder, model, out } = scratch();
    trained("node", &parts.path, &model, &["--num-epochs", "1", "--nproc-per-node", "1"]);
    for (flags, expected) in [
        (&["--explain"][..], "--explain writes a table: add --format csv or parquet"),
        (&["--explain", "--format", "csv", "--output", "logit"], "leave out --output"),
        (&["--explain-top", "3"], "--explain-top applies to --explain"),
        (&["--explain", "--format", "csv", "--gather"], "--gather applies to"),
        (&["--explain", "--format", "csv", "--edges", "all"], "the model is for nodes: leave out --edges"),
        (&["--explain", "--format", "csv", "--explain-output", "10"], "there is no output 10: the model has 10"),
        (&["--explain", "--format", "csv", "--num-neighbors", "3"], "the model has 2 layers"),
    ] {
        assert_error(&predict(&parts.path, &model, &out, flags), &[expected]);
        let written = std::fs::read_dir(&out).map(|entries| entries.count()).unwrap_or(0);
        assert_eq!(written, 0, "{flags:?}");
    }
    // Few points are inexact, and a note says so.
    let flags =
        ["--explain", "--format", "csv", "--explain-steps", "1", "--explain-top", "1", "--num-neighbors", "3,3"];
    let output = succeeded(predict(&parts.path, &model, &out, &flags));
    assert!(stderr(&output).contains("raise --explain-steps"), "{}", stderr(&output));
    let _: Value = predicted(&parts.path, &model, &out, &[&flags[..], &["--batch-size", "100"]].concat());
}

//! Tests of `train edge`, and of what `train predict` writes for edges, with real processes.

use crate::predict_tables::partition_tables_as;
use crate::programs::*;

use edgecut_graph::Dataset;
use edgecut_testing::{assert_has, free_port};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::path::Path;
use std::process::Output;

const NUM_USERS: usize = 80;
const NUM_SHOPS: usize = 30;
const NUM_PAYMENTS: usize = 1200;

fn user(n: usize) -> String {
    format!("user {n}")
}

/// Returns the ends and the amount of a payment. Large payments are frauds.
fn payment(n: usize) -> (usize, usize, f64) {
    (n * 7 % NUM_USERS, n * 11 % NUM_SHOPS, (n * 37 % 101) as f64 / 100.0)
}

fn kind(amount: f64) -> &'static str {
    if amount > 0.7 { "fraud" } else { "honest" }
}

/// Writes tables of users, shops and payments, and their partition. `label` is the label of the payments.
pub(crate) fn payment_parts(dir: &Path, num_parts: u32, label: &serde_json::Value) {
    let users: String = (0..NUM_USERS).map(|n| format!("{},{}\n", user(n), n % 5)).collect();
    let shops: String = (0..NUM_SHOPS).map(|n| format!("{},{}\n", 100 + n, n % 3)).collect();
    let row = |n: usize| {
        let (from, to, amount) = payment(n);
        format!("{},{},{amount},{},{n}\n", user(from), 100 + to, kind(amount))
    };
    let payments: String = (0..NUM_PAYMENTS).map(row).collect();
    std::fs::write(dir.join("users.csv"), format!("name,x\n{users}")).expect("write the users");
    std::fs::write(dir.join("shops.csv"), format!("id,x\n{shops}")).expect("write the shops");
    std::fs::write(dir.join("payments.csv"), format!("user,shop,amount,kind,at\n{payments}"))
        .expect("write the payments");
    let nodes = |node_type: &str, id: &str, files: &str| {
        serde_json::json!({"node_type": node_type, "node_id_col": id, "files": files,
            "features": [{"feature_col": "x"}]})
    };
    let conf = serde_json::json!({
        "nodes": [nodes("user", "name", "users.csv"), nodes("shop", "id", "shops.csv")],
        "edges": [{"relation": ["user", "pays", "shop"], "files": "payments.csv", "source_id_col": "user",
            "dest_id_col": "shop", "features": [{"feature_col": "amount"}], "labels": [label]}]});
    std::fs::write(dir.join("graph.json"), conf.to_string()).expect("write the configuration");
    partition_tables_as(dir, "payments", None, Dataset::add_reverse_edges, num_parts, &dir.join("parts"));
}

/// Returns a folder with the tables, whose payments have a label, and with their partition in the folder `parts`.
fn payments(num_parts: u32, task: &str, label: &str) -> Folder {
    let folder = Folder::new();
    let split = if task == "classification" { [0.6, 0.2, 0.2] } else { [0.8, 0.1, 0.1] };
    let label = serde_json::json!({"task_type": task, "label_col": label, "split_pct": split});
    payment_parts(folder.path(), num_parts, &label);
    folder
}

/// Reads the lines of the CSV files that processes have written, without their equal headers.
fn csv_lines(out: &Path, processes: usize) -> (String, Vec<Vec<String>>) {
    let mut rows = Vec::new();
    let mut headers = Vec::new();
    for rank in 0..processes {
        let path = out.join(format!("predictions-{rank:05}-of-{processes:05}.csv"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (header, lines) = text.split_once('\n').expect("a header");
        headers.push(header.to_owned());
        rows.extend(lines.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<String>>()));
    }
    assert!(headers.iter().all(|header| *header == headers[0]));
    (headers.remove(0), rows)
}

#[test]
fn classes_of_payments_are_learned_and_written_with_ids_and_names() {
    let folder = payments(2, "classification", "kind");
    let found =
        trained("edge", &folder.join("parts"), &folder.join("model"), &["--num-epochs", "8", "--metric", "roc-auc"]);
    assert!(found["test_metric"].as_f64().expect("both classes") > 0.9, "{found}");
    // The saved model has the same scores.
    let load = format!("--load-model {} --nproc-per-node 2 --json --metric roc-auc", folder.text("model"));
    let evaluated = json_of(run(train("edge", &folder.join("parts")).args(load.split(' '))));
    let difference = number_of(&evaluated, "test_metric") - number_of(&found, "test_metric");
    assert!(difference.abs() < 0.05, "{evaluated}, {found}");

    // Weights of classes by their names, in ascending order.
    let mut results = Vec::new();
    for weights in ["fraud=5", "5,1"] {
        let metrics = folder.join(weights);
        let flags = ["--num-epochs", "1", "--class-weights", weights, "--metrics", metrics.to_str().expect("UTF-8")];
        let result = trained("edge", &folder.join("parts"), &folder.join("weighted"), &flags);
        let lines = std::fs::read_to_string(&metrics).expect("metrics");
        let epoch = metrics_lines(&metrics).into_iter().find(|line| line["event"] == "epoch").expect("an epoch");
        results.push((number_of(&result, "test_acc"), number_of(&epoch, "loss")));
        assert!(lines.contains(r#""classes":["fraud","honest"]"#), "{lines}");
    }
    assert_eq!(results[0], results[1]);
    let flags = ["--class-weights", "frauds=5", "--nproc-per-node", "2"];
    let error = error_of(&run(train("edge", &folder.join("parts")).args(flags)));
    assert!(error.contains("there is no class frauds (did you mean fraud?)"), "{error}");

    let flags = ["--edges", "test", "--num-neighbors", "5,3", "--nproc-per-node", "2", "--format", "csv"];
    let result = predicted(&folder.join("parts"), &folder.join("model"), &folder.join("out"), &flags);
    let (header, rows) = csv_lines(&folder.join("out"), 2);
    assert_eq!(header, "src_id,dst_id,src,dst,class_name,class");
    assert_eq!((result["edges"].as_u64(), rows.len()), (Some(240), 240));
    let mut num_correct = 0;
    for row in &rows {
        let from: usize = row[0].parse().expect("a number");
        let to: usize = row[1].parse().expect("a number");
        assert_eq!((row[2].as_str(), row[3].as_str()), (user(from).as_str(), (100 + to).to_string().as_str()));
        assert_eq!(row[4], ["fraud", "honest"][row[5].parse::<usize>().expect("a class")]);
        // A user can pay at a shop several times, but mostly with one kind.
        let kinds = (0..NUM_PAYMENTS).map(payment).filter(|(a, b, _)| (*a, *b) == (from, to)).map(|(_, _, x)| kind(x));
        num_correct += usize::from(kinds.into_iter().any(|kind| kind == row[4]));
    }
    assert!(num_correct > 220, "{num_correct}");

    // All edges, as probabilities in Parquet.
    let flags = ["--edges", "all", "--num-neighbors", "-1,-1", "--format", "parquet", "--output", "probability"];
    let result = predicted(&folder.join("parts"), &folder.join("model"), &folder.join("all"), &flags);
    assert_eq!(result["edges"].as_u64(), Some(NUM_PAYMENTS as u64));
    let file = std::fs::File::open(folder.join("all").join("predictions-00000-of-00001.parquet")).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), NUM_PAYMENTS);
    assert_eq!(rows[0].get_string(2).expect("an id"), &user(rows[0].get_long(0).expect("a number") as usize));
    let names: Vec<&String> = rows[0].get_column_iter().map(|(name, _)| name).collect();
    assert_eq!(names[4..], ["probability_fraud", "probability_honest"]);
    let sum = [4, 5].map(|column| rows[0].get_float(column).expect("a probability")).iter().sum::<f32>();
    assert!((sum - 1.0).abs() < 1e-5);
}

#[test]
fn either_of_two_classes_is_the_positive_one() {
    let folder = payments(2, "classification", "kind");
    let parts = folder.join("parts");
    let [metrics, report] = ["metrics.jsonl", "report.html"].map(|name| folder.join(name));
    // The log loss, which selects the epoch, is the same for both classes.
    let flags = ["--num-epochs", "2", "--metric", "log-loss,average-precision,roc-auc"];
    let files = ["--metrics", metrics.to_str().expect("UTF-8"), "--report", report.to_str().expect("UTF-8")];
    let of_fraud = [&flags[..], &["--positive-class", "fraud"], &files].concat();
    let fraud = trained("edge", &parts, &folder.join("fraud"), &of_fraud);
    let honest = trained("edge", &parts, &folder.join("honest"), &flags);
    let score = |found: &serde_json::Value, name: &str| found["test_metrics"][name].as_f64().expect("a score");
    assert!((score(&fraud, "roc-auc") - score(&honest, "roc-auc")).abs() < 1e-6, "{fraud} {honest}");
    let precisions = [&fraud, &honest].map(|found| score(found, "average-precision"));
    assert!((precisions[0] - precisions[1]).abs() > 1e-3, "{precisions:?}");
    assert_eq!((fraud["decision"]["positive_class"].as_u64(), honest["decision"].is_null()), (Some(0), true));
    assert_has(std::fs::read_to_string(&metrics).expect("metrics"), &["\"curves\":[{\"class\":0,"]);
    let page = std::fs::read_to_string(&report).expect("a report");
    for text in ["ROC curve of fraud", "Precision-recall curve of fraud", "Test average precision of fraud"] {
        assert!(page.contains(text), "{text}");
    }

    // The class of the model counts, unless the flag names another one.
    let evaluated = |flags: &[&str]| {
        let load = ["--load-model", &folder.text("fraud"), "--metric", "average-precision,roc-auc"];
        let output = succeeded(run(train("edge", &parts).args(load).args(flags)));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = evaluated(&["--threshold", "best-f1"]);
    assert!(text.contains("test average-precision of fraud ") && text.contains("test roc-auc of fraud "), "{text}");
    let threshold = text.split_once("threshold ").expect("a threshold").1;
    assert!(threshold.contains(" of fraud, temperature"), "{text}");
    let text = evaluated(&["--positive-class", "honest"]);
    let precision = text.split_once("test average-precision of honest ").and_then(|(_, rest)| rest.split_once(" %"));
    let precision: f64 = precision.expect("the score").0.parse().expect("a number");
    // One process hides other edges from a batch than two.
    let [of_fraud, of_honest] = precisions.map(|expected| (precision / 100.0 - expected).abs());
    assert!(of_honest < 0.05 && of_honest < of_fraud, "{text}: {precisions:?}");
    let flags = ["--edges", "test", "--num-neighbors", "5,3", "--format", "csv", "--output", "probability"];
    predicted(&parts, &folder.join("fraud"), &folder.join("out"), &flags);
    assert_eq!(csv_lines(&folder.join("out"), 1).0, "src_id,dst_id,src,dst,probability_fraud,probability_honest");
    let error = error_of(&run(train("edge", &parts).args(["--positive-class", "frauds", "--nproc-per-node", "2"])));
    let why = "--positive-class frauds: there is no such class (did you mean fraud?): the classes are fraud, honest";
    assert!(error.contains(why), "{error}");
}

/// Predicts the classes of payments on two nodes with folders of their own.
fn predicted_by_nodes(folder: &Folder, parts: [&Path; 2]) -> [Output; 2] {
    let port = free_port().to_string();
    let ranks = [0, 1].map(|rank| {
        let mut command = program();
        command.args("predict --edges test --num-neighbors 5,3 --format csv --output probability".split(' '));
        command.arg("--dataset-root-dir").arg(parts[rank]).arg("--load-model").arg(folder.join("model"));
        command.arg("--out").arg(folder.join(format!("out-{rank}")));
        command.args(["--num-nodes", "2", "--node-rank", &rank.to_string(), "--master-port", &port]);
        Process::start(&mut command)
    });
    ranks.map(end)
}

#[test]
fn only_the_node_of_rank_0_needs_the_names_of_classes() {
    let folder = payments(2, "classification", "kind");
    let [first, second] = ["parts", "second"].map(|name| folder.join(name));
    std::fs::create_dir(&second).expect("a folder");
    for name in ["META.json", "part_0", "part_1"] {
        std::os::unix::fs::symlink(first.join(name), second.join(name)).expect("a link");
    }
    let port = free_port().to_string();
    let mut ranks = Vec::new();
    for (rank, parts) in [("0", &first), ("1", &second)] {
        let mut command = train("edge", parts);
        command.args(["--num-epochs", "1", "--hidden-channels", "8", "--positive-class", "fraud", "--num-nodes", "2"]);
        ranks.push(Process::start(command.args(["--node-rank", rank, "--master-port", &port])));
    }
    for rank in ranks {
        succeeded(end(rank));
    }
    trained("edge", &first, &folder.join("model"), &["--num-epochs", "1"]);
    // Node 0 has no names.
    let [first_node, second_node] = predicted_by_nodes(&folder, [&second, &first]);
    let why = "second/transforms.json: the file with the names of classes and features is missing";
    assert_error(&first_node, &[why]);
    assert!(!second_node.status.success());
    for output in predicted_by_nodes(&folder, [&first, &second]) {
        succeeded(output);
    }
    for rank in 0..2 {
        let table = folder.join(format!("out-{rank}")).join(format!("predictions-0000{rank}-of-00002.csv"));
        let text = std::fs::read_to_string(table).expect("a table");
        assert_eq!(text.lines().next(), Some("src_id,dst_id,src,dst,probability_fraud,probability_honest"));
    }
}

#[test]
fn amounts_of_payments_are_predicted_as_numbers() {
    let folder = payments(3, "regression", "amount");
    let flags = ["--metric", "rmse", "--num-epochs", "16", "--edge-type", "pays"];
    let found = trained("edge", &folder.join("parts"), &folder.join("model"), &flags);
    assert!(found["test_metric"].as_f64().expect("a score") < 0.2, "{found}");
    let flags = ["--edges", "valid", "--num-neighbors", "5,3", "--format", "csv"];
    predicted(&folder.join("parts"), &folder.join("model"), &folder.join("out"), &flags);
    let (header, rows) = csv_lines(&folder.join("out"), 1);
    assert_eq!((header.as_str(), rows.len()), ("src_id,dst_id,src,dst,value", NUM_PAYMENTS / 10));
}

#[test]
fn predictions_of_edges_have_their_times() {
    let folder = payments(2, "regression", "amount");
    let conf = std::fs::read(folder.join("graph.json")).expect("the configuration");
    let mut conf: serde_json::Value = serde_json::from_slice(&conf).expect("JSON");
    conf["edges"][0]["time_col"] = serde_json::json!({"name": "at", "epoch": "s"});
    std::fs::write(folder.join("graph.json"), conf.to_string()).expect("write the configuration");
    partition_tables_as(folder.path(), "timed", None, Dataset::add_reverse_edges, 2, &folder.join("timed"));
    trained("edge", &folder.join("timed"), &folder.join("model"), &["--num-epochs", "1", "--edge-type", "pays"]);
    let flags = ["--edges", "all", "--num-neighbors", "5,3", "--format", "csv", "--nproc-per-node", "2"];
    predicted(&folder.join("timed"), &folder.join("model"), &folder.join("out"), &flags);
    let (header, rows) = csv_lines(&folder.join("out"), 2);
    assert_eq!((header.as_str(), rows.len()), ("src_id,dst_id,src,dst,time,value", NUM_PAYMENTS));
    let times = rows.iter().map(|row| row[4].parse::<usize>().expect("nanoseconds"));
    let mut found: Vec<usize> = times.map(|time| time / 1_000_000_000).collect();
    for (row, &time) in rows.iter().zip(&found) {
        let (from, to, _) = payment(time);
        assert_eq!((row[2].as_str(), row[3].as_str()), (user(from).as_str(), (100 + to).to_string().as_str()));
    }
    found.sort_unstable();
    assert!(found.into_iter().eq(0..NUM_PAYMENTS), "each payment has a row");
}

#[test]
fn predictions_of_edges_have_their_ids() {
    let folder = payments(2, "regression", "amount");
    let conf = std::fs::read(folder.join("graph.json")).expect("the configuration");
    let mut conf: serde_json::Value = serde_json::from_slice(&conf).expect("JSON");
    conf["edges"][0]["edge_id_col"] = "at".into();
    std::fs::write(folder.join("graph.json"), conf.to_string()).expect("write the configuration");
    let payments = std::fs::read_to_string(folder.join("payments.csv")).expect("the payments");
    // One process holds both parts, and three processes read each of them.
    for (prefix, layouts) in [("", &[2][..]), ("no. ", &[1, 2, 3])] {
        let mut text = String::new();
        for line in payments.lines() {
            let (rest, id) = line.rsplit_once(',').expect("an id");
            let prefix = if id == "at" { "" } else { prefix };
            text += &format!("{rest},{prefix}{id}\n");
        }
        std::fs::write(folder.join("payments.csv"), text).expect("write the payments");
        let parts = folder.join(if prefix.is_empty() { "numbers" } else { "texts" });
        partition_tables_as(folder.path(), "ids", None, Dataset::add_reverse_edges, 2, &parts);
        trained("edge", &parts, &folder.join("model"), &["--num-epochs", "1", "--edge-type", "pays"]);
        for &processes in layouts {
            let count = processes.to_string();
            let flags = ["--edges", "all", "--num-neighbors", "5,3", "--format", "csv", "--nproc-per-node", &count];
            predicted(&parts, &folder.join("model"), &folder.join("out"), &flags);
            let (header, rows) = csv_lines(&folder.join("out"), processes);
            assert_eq!((header.as_str(), rows.len()), ("src_id,dst_id,id,src,dst,value", NUM_PAYMENTS));
            let mut found = Vec::with_capacity(rows.len());
            for row in &rows {
                let number = row[2].strip_prefix(prefix).and_then(|number| number.parse().ok()).expect("an id");
                let (from, to, _) = payment(number);
                assert_eq!((row[3].as_str(), row[4].as_str()), (user(from).as_str(), (100 + to).to_string().as_str()));
                found.push(number);
            }
            found.sort_unstable();
            assert!(found.into_iter().eq(0..NUM_PAYMENTS), "each payment has a row");
        }
        let flags = "--explain --edges test --num-neighbors 5,3 --format csv --nproc-per-node 2 --explain-top 1";
        let flags: Vec<&str> = flags.split(' ').collect();
        predicted(&parts, &folder.join("model"), &folder.join("why"), &flags);
        let text = std::fs::read_to_string(folder.join("why").join("explanations.csv")).expect("explanations");
        assert!(text.starts_with("src_id,dst_id,output,rank,id,src,dst,"), "{text}");
        for line in text.lines().skip(1) {
            let row: Vec<&str> = line.split(',').collect();
            let number = row[4].strip_prefix(prefix).and_then(|number| number.parse().ok()).expect("an id");
            let (from, to, _) = payment(number);
            assert_eq!((row[5], row[6]), (user(from).as_str(), (100 + to).to_string().as_str()));
        }
    }
}

/// Flags of a training that do not fit, and their errors.
const UNFITTING_FLAGS: &str = r#"
--eval layer-wise => --eval layer-wise computes each node once
--edge-type e1 => edge type e1 has no labels: choose one of v0__e0__v1
--decoder cosine => unknown decoder "cosine": expected mlp, dot or bilinear
--model gcn --weighted => --model gcn does not support --weighted
--model gcn => gcn
"#;

/// Tasks with models that do not fit them or their flags, and their errors.
const UNFITTING_MODELS: &str = "
node edges => it describes a model of the task edge: use it with `train edge`
edge nodes => it describes a model of the task node: use it with `train node`
edge edges --target-edges include => --target-edges include: the model | was saved with exclude
edge edges --reverse-types e0=e1 => --reverse-types e0=e1: the model | was saved with
edge edges --no-edge-features => --no-edge-features: the model | was saved with false
predict edges --edges all --format csv --seed-time 3 => --seed-time has no effect
predict edges --edges all --num-neighbors 5,3 => add --format csv or parquet
predict edges => the model is for edges: add --edges all
predict nodes --edges all --num-neighbors 5,3 --format csv => the model is for nodes: leave out --edges
predict edges --edges all --num-neighbors 5 --format csv => 2 layers
";

#[test]
fn flags_and_models_that_do_not_fit_are_named() {
    let folder = Folder::new();
    let parts = edge_parts(1, true);
    trained("edge", &parts.path, &folder.join("edges"), &["--num-epochs", "1", "--nproc-per-node", "1"]);
    let nodes = fake_parts(1);
    trained("node", &nodes.path, &folder.join("nodes"), &["--num-epochs", "1", "--nproc-per-node", "1"]);
    for (flags, words) in cases(UNFITTING_FLAGS) {
        let output = run(train("edge", &parts.path).args(&flags));
        assert!(!output.status.success(), "{flags:?}");
        assert_has(stderr(&output), &words);
    }
    for (words, why) in cases(UNFITTING_MODELS) {
        let [task, model, flags @ ..] = &words[..] else { panic!("{words:?}") };
        let data = if *task == "node" || [*task, *model] == ["predict", "nodes"] { &nodes } else { &parts };
        let model = folder.join(model);
        let output = match *task {
            "predict" => predict(&data.path, &model, &folder.join("out"), flags),
            _ => run(train(task, &data.path).arg("--load-model").arg(model).args(flags)),
        };
        assert_error(&output, &why);
    }
}

#[test]
fn a_loaded_model_without_layers_ignores_fan_outs() {
    let parts = edge_parts(1, true);
    let folder = Folder::new();
    let model = folder.join("model.safetensors");
    let result = trained("edge", &parts.path, &model, &["--model", "embedding", "--num-epochs", "1"]);
    let load = ["--json", "--load-model", model.to_str().expect("UTF-8")];
    for flags in [&[][..], &["--model", "embedding"]] {
        let loaded = json_of(run(train("edge", &parts.path).args(load).args(flags)));
        assert_eq!(loaded["test_acc"], result["test_acc"]);
    }
}

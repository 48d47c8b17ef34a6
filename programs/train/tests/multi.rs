//! Several labels of nodes: the choice of one of them, and models for several at once, with the program.

use crate::predict_tables::partition_tables_as;
use crate::programs;

use edgecut_graph::Dataset;
use programs::{
    Folder, assert_error, error_of, json_of, metrics_lines, number_of, predict, predicted, program, run, succeeded,
    text, trained,
};
use serde_json::{Value, json};
use std::path::Path;

const NUM_USERS: usize = 120;
const NUM_ITEMS: usize = 60;

/// Returns a number from 0 to 1 that depends on `n`.
fn spread(n: usize, step: usize) -> f64 {
    (n * step % 101) as f64 / 100.0
}

/// Writes tables of users with two labels, of items with one, and of purchases, and partitions them. The labels depend on the
/// features. `scale` multiplies the amounts that users spend.
fn shop_parts(dir: &Path, num_parts: u32, scale: f64, parts: &Path) {
    let mut users = String::from("id,x,y,churn,spend\n");
    for n in 0..NUM_USERS {
        let [x, y] = [spread(n, 37), spread(n, 53)];
        let churn = if n % 10 == 3 { "" } else { ["no", "yes"][usize::from(x > 0.5)] };
        let spend = if n % 7 == 2 { String::new() } else { format!("{}", scale * y) };
        users += &format!("user {n},{x},{y},{churn},{spend}\n");
    }
    let mut items = String::from("id,z,color\n");
    for n in 0..NUM_ITEMS {
        items += &format!("{},{},{}\n", n * 10, spread(n, 29), ["blue", "red"][usize::from(spread(n, 29) > 0.4)]);
    }
    let mut purchases = String::from("user,item\n");
    for n in 0..NUM_USERS * 3 {
        purchases += &format!("user {},{}\n", n % NUM_USERS, n * 7 % NUM_ITEMS * 10);
    }
    for (name, text) in [("users.csv", users), ("items.csv", items), ("purchases.csv", purchases)] {
        std::fs::write(dir.join(name), text).expect("write a table");
    }
    let half = [0.5, 0.25, 0.25];
    let conf = json!({
        "nodes": [
            {"node_type": "user", "node_id_col": "id", "files": "users.csv",
                "features": [{"feature_col": "x"}, {"feature_col": "y"}],
                "labels": [{"task_type": "classification", "label_col": "churn", "split_pct": half},
                    {"task_type": "regression", "label_col": "spend", "split_pct": half}]},
            {"node_type": "item", "node_id_col": "id", "files": "items.csv", "features": [{"feature_col": "z"}],
                "labels": [{"task_type": "classification", "label_col": "color", "split_pct": half}]}],
        "edges": [{"relation": ["user", "buys", "item"], "files": "purchases.csv", "source_id_col": "user",
            "dest_id_col": "item"}]});
    std::fs::write(dir.join("graph.json"), conf.to_string()).expect("write the configuration");
    partition_tables_as(dir, "shop", None, Dataset::add_reverse_edges, num_parts, parts);
}

/// The flags of a model that learns from the features of nodes.
const MODEL: &str = "--hidden-channels 16 --batch-size 16 --lr 0.02 --dropout 0 --num-neighbors 3,2 --patience 1000";

/// Trains on parts, and returns the lines of the metrics file and the result.
fn train_on(task: &str, parts: &Path, metrics: &Path, flags: &str) -> (Vec<Value>, Value) {
    let mut command = program();
    command.args([task, "--json", "--dataset-root-dir"]).arg(parts).arg("--metrics").arg(metrics);
    let result = json_of(run(command.args(MODEL.split(' ')).args(flags.split(' '))));
    (metrics_lines(metrics), result)
}

/// Returns the losses of all epochs.
fn losses(lines: &[Value]) -> Vec<f64> {
    lines.iter().filter(|line| line["event"] == "epoch").map(|line| number_of(line, "loss")).collect()
}

#[test]
fn one_of_several_labels_is_chosen_by_its_name() {
    let folder = Folder::new();
    let parts = folder.join("parts");
    shop_parts(folder.path(), 2, 1.0, &parts);
    let mut command = program();
    command.args(["node", "--dataset-root-dir"]).arg(&parts);
    let error = error_of(&run(&mut command));
    assert!(error.contains("--target item or --target user:churn or --target user:spend"), "{error}");
    for (target, why) in [
        ("user", "several such labels: choose user:churn or user:spend"),
        ("user:x", "no such label: choose item, user:churn, user:spend"),
    ] {
        let mut command = program();
        command.args(["node", "--target", target, "--dataset-root-dir"]).arg(&parts);
        assert_error(&run(&mut command), &["--target", why]);
    }
    let model = folder.join("model");
    let long = ["--num-epochs", "100", "--patience", "1000", "--lr", "0.02", "--batch-size", "16"];
    for (target, name, classes) in [
        ("churn", "user:churn", Some(["no", "yes"])),
        ("user:spend", "user:spend", None),
        ("item", "item", Some(["blue", "red"])),
    ] {
        let result = trained("node", &parts, &model, &[&long[..], &["--target", target]].concat());
        match classes {
            Some(_) => assert!(number_of(&result, "test_acc") > 0.8, "{name}: {result}"),
            None => assert!(number_of(&result, "test_metric") < 0.2, "{name}: {result}"),
        }
        // The file knows its label.
        let mut command = program();
        command.args(["node", "--json", "--load-model"]).arg(&model).arg("--dataset-root-dir").arg(&parts);
        if name == "item" {
            // The only label of a type has no name.
            command.args(["--target", "item"]);
        }
        let evaluated = json_of(run(&mut command));
        let difference = number_of(&evaluated, "test_metric") - number_of(&result, "test_metric");
        assert!(difference.abs() < 1e-5, "{name}: {evaluated} {result}");
        let out = folder.join("out");
        predicted(&parts, &model, &out, &["--format", "csv", "--gather"]);
        let written = std::fs::read_to_string(out.join("predictions.csv")).expect("predictions");
        let header = written.lines().next().expect("a header");
        assert_eq!(header.contains("class_name"), classes.is_some(), "{header}");
        for class in classes.into_iter().flatten() {
            assert!(written.contains(&format!(",{class},")), "{name}: {written}");
        }
        if name == "user:spend" {
            let mut command = program();
            command
                .args(["node", "--target", "churn", "--load-model"])
                .arg(&model)
                .arg("--dataset-root-dir")
                .arg(&parts);
            assert_error(&run(&mut command), &["--target churn", "predicts user:spend"]);
        }
    }
    // Other labels than the chosen one are no inputs.
    let other = folder.join("other");
    shop_parts(folder.path(), 2, -5.0, &other);
    let [expected, found] =
        [&parts, &other].map(|parts| train_on("node", parts, &folder.join("m"), "--target churn --num-epochs 3").0);
    assert_eq!(losses(&found), losses(&expected));
}

#[test]
fn several_targets_are_learned_at_once_in_every_layout() {
    let folder = Folder::new();
    let targets = "--target spend*0.5,churn,item --target-metric spend=mae,r2 --target-loss item=focal:gamma=1";
    let mut expected: Option<Vec<f64>> = None;
    for num_parts in [1, 2, 3] {
        let parts = folder.join(format!("{num_parts}-parts"));
        shop_parts(folder.path(), num_parts, 1.0, &parts);
        // A step has all training nodes with all neighbors, so that it does not depend on the order of the parts.
        let flags = format!("{targets} --num-epochs 4 --num-neighbors -1,-1 --batch-size 1000");
        let found = losses(&train_on("multi", &parts, &folder.join("metrics"), &flags).0);
        assert_eq!(losses(&train_on("multi", &parts, &folder.join("metrics"), &flags).0), found, "a repetition");
        for (found, expected) in found.iter().zip(expected.get_or_insert_with(|| found.clone())) {
            assert!((found - *expected).abs() < 1e-4 * *expected, "{num_parts} parts: {found} for {expected}");
        }
    }
    let model = folder.join("model");
    for (num_parts, processes) in [(2, 2), (3, 2), (2, 3)] {
        let parts = folder.join(format!("{num_parts}-parts"));
        let flags = format!("{targets} --num-epochs 100 --nproc-per-node {processes} --save-model {}", text(&model));
        let (lines, result) = train_on("multi", &parts, &folder.join("metrics"), &flags);
        let names: Vec<&str> =
            result["targets"].as_array().expect("targets").iter().filter_map(|of| of["target"].as_str()).collect();
        assert_eq!(names, ["user:spend", "user:churn", "item"]);
        assert!(number_of(&result["targets"][0], "test_metric") < 0.25, "{result}");
        assert!(number_of(&result["targets"][1], "test_acc") > 0.8, "{result}");
        assert!(number_of(&result["targets"][2], "test_acc") > 0.8, "{result}");
        let epoch = lines.iter().find(|line| line["event"] == "epoch").expect("an epoch");
        assert_eq!(epoch["metric"], "user:spend mae");
        assert!(epoch["valid_metrics"]["user:churn accuracy"].is_number(), "{epoch}");
        let report = folder.join("report.html");
        succeeded(run(program().arg("report").arg(folder.join("metrics")).arg("--out").arg(&report)));
        let page = std::fs::read_to_string(report).expect("the report");
        let error = number_of(&result["targets"][0], "test_metric");
        let accuracy = 100.0 * number_of(&result["targets"][1], "test_acc");
        for (label, value) in [("spend MAE", format!("{error:.4}")), ("churn accuracy", format!("{accuracy:.2} %"))] {
            let score = format!("<dt>Test user:{label}</dt><dd>{value}</dd>");
            assert!(page.contains(&score), "{score} in {page}");
        }
        let mut command = program();
        command.args(["multi", "--json", "--load-model"]).arg(&model).arg("--dataset-root-dir").arg(&parts);
        let evaluated = json_of(run(command.args(["--target-metric", "user:spend=mae"])));
        for at in 0..3 {
            let [found, expected] =
                [&evaluated, &result].map(|result| number_of(&result["targets"][at], "test_metric"));
            assert!((found - expected).abs() < 1e-5, "{evaluated} {result}");
        }
    }
}

#[test]
fn targets_of_a_saved_model_are_predicted_one_by_one() {
    let folder = Folder::new();
    let parts = folder.join("parts");
    shop_parts(folder.path(), 2, 1.0, &parts);
    let model = folder.join("model");
    let flags = format!("--target churn,spend,item --num-epochs 20 --save-model {}", text(&model));
    train_on("multi", &parts, &folder.join("metrics"), &flags);
    let out = folder.join("out");
    assert_error(&predict(&parts, &model, &out, &[]), &["the model predicts user:churn, user:spend, item", "--target"]);
    assert_error(&predict(&parts, &model, &out, &["--target", "x"]), &["--target x", "user:churn, user:spend, item"]);
    for (target, column, score) in [
        ("churn", "class_name,class", "test_acc"),
        ("user:spend", "value", "test_metric"),
        ("item", "class_name,class", "test_acc"),
    ] {
        let flags = ["--target", target, "--format", "csv", "--nproc-per-node", "2", "--gather"];
        let result = predicted(&parts, &model, &out, &flags);
        let written = std::fs::read_to_string(out.join("predictions.csv")).expect("predictions");
        let header = written.lines().next().expect("a header");
        assert!(header.starts_with("node_id,id,") && header.contains(column), "{target}: {header}");
        let num_nodes = if target == "item" { NUM_ITEMS } else { NUM_USERS };
        assert_eq!((result["nodes"].as_u64(), written.lines().count()), (Some(num_nodes as u64), num_nodes + 1));
        assert!(result[score].is_number(), "{target}: {result}");
    }
    // A model for several targets is no model for nodes.
    let mut command = program();
    command.args(["node", "--load-model"]).arg(&model).arg("--dataset-root-dir").arg(&parts);
    assert!(!run(&mut command).status.success());
}

#[test]
fn a_training_of_several_targets_continues_from_a_checkpoint() {
    let folder = Folder::new();
    let parts = folder.join("parts");
    shop_parts(folder.path(), 2, 1.0, &parts);
    let targets = "--target churn,spend*0.5,item --num-neighbors -1,-1 --nproc-per-node 2";
    let whole = train_on("multi", &parts, &folder.join("whole"), &format!("{targets} --num-epochs 6"));
    let dir = folder.join("checkpoints");
    let checkpoints = format!("--checkpoint-dir {} --checkpoint-every 1epoch", text(&dir));
    train_on("multi", &parts, &folder.join("first"), &format!("{targets} --num-epochs 3 {checkpoints}"));
    let flags = format!("{targets} --num-epochs 6 {checkpoints} --resume");
    let rest = train_on("multi", &parts, &folder.join("first"), &flags);
    assert_eq!(losses(&rest.0), losses(&whole.0));
    assert_eq!(rest.1["targets"], whole.1["targets"]);
    // Another target is another run.
    let mut command = program();
    command.args(["multi", "--dataset-root-dir"]).arg(&parts).args(MODEL.split(' ')).args(checkpoints.split(' '));
    let flags = "--target churn,item --num-neighbors -1,-1 --nproc-per-node 2 --num-epochs 8 --resume";
    assert_error(&run(command.args(flags.split(' '))), &["target"]);
}

#[test]
fn wrong_targets_are_refused() {
    let folder = Folder::new();
    let parts = folder.join("parts");
    shop_parts(folder.path(), 1, 1.0, &parts);
    for (flags, why) in [
        ("", "--target is missing"),
        ("--target churn,user:churn", "it is given twice"),
        ("--target churn*0", "the weight 0 is not a number above 0"),
        ("--target churn --target-loss spend=mse", "there is no such target: choose one of churn"),
        ("--target churn,spend --target-loss spend=focal", "the loss focal needs classes"),
        ("--target churn,spend --eval layer-wise", "--eval layer-wise"),
    ] {
        let mut command = program();
        command
            .args(["multi", "--dataset-root-dir"])
            .arg(&parts)
            .args(flags.split(' ').filter(|word| !word.is_empty()));
        assert_error(&run(&mut command), &[why]);
    }
}

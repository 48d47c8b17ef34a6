//! Several labels of nodes: the choice of one of them, and models for several at once, with the program.

use crate::predict_tables::partition_tables_as;
use crate::programs::*;
use crate::server_client::serve;

use edgecut_graph::Dataset;
use edgecut_testing::names;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

const NUM_USERS: usize = 120;
const NUM_ITEMS: usize = 60;

/// Returns a number from 0 to 1 that depends on `n`.
fn spread(n: usize, step: usize) -> f64 {
    (n * step % 101) as f64 / 100.0
}

/// The tables of a shop.
struct Shop {
    /// The factor of the amounts that users spend.
    scale: f64,
    /// The names of the classes of users who stay and of users who leave.
    churn: [&'static str; 2],
    /// The name of the column of these classes.
    churn_col: &'static str,
    /// The shares of the splits of the amounts.
    spend_split: [f64; 3],
}

impl Shop {
    const DEFAULT: Self = Self { scale: 1.0, churn: ["no", "yes"], churn_col: "churn", spend_split: [0.5, 0.25, 0.25] };
}

/// Writes tables of users with two labels, of items with one, and of purchases, and partitions them. The labels depend on the
/// features.
pub(crate) fn shop_parts(dir: &Path, num_parts: u32, scale: f64, parts: &Path) {
    shop_parts_of(dir, num_parts, &Shop { scale, ..Shop::DEFAULT }, parts);
}

/// Returns a folder with parts of a shop in the folder `parts`.
fn shop(num_parts: u32) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let parts = folder.join("parts");
    shop_parts(folder.path(), num_parts, 1.0, &parts);
    (folder, parts)
}

/// Writes and partitions the tables of a shop.
fn shop_parts_of(dir: &Path, num_parts: u32, shop: &Shop, parts: &Path) {
    let Shop { scale, churn: names, churn_col, spend_split } = shop;
    let mut users = format!("id,x,y,{churn_col},spend\n");
    for n in 0..NUM_USERS {
        let [x, y] = [spread(n, 37), spread(n, 53)];
        let churn = if n % 10 == 3 { "" } else { names[usize::from(x > 0.5)] };
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
                "labels": [{"task_type": "classification", "label_col": churn_col, "split_pct": half},
                    {"task_type": "regression", "label_col": "spend", "split_pct": spend_split}]},
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
    let result = json_of(run_on(parts, &format!("{task} --json --metrics {} {MODEL} {flags}", text(metrics))));
    (metrics_lines(metrics), result)
}

/// Evaluates a saved model with a task and flags.
fn evaluate(words: &str, model: &Path, parts: &Path) -> Output {
    run_on(parts, &format!("{words} --load-model {}", text(model)))
}

/// Returns the losses of all epochs.
fn losses(lines: &[Value]) -> Vec<f64> {
    lines.iter().filter(|line| line["event"] == "epoch").map(|line| number_of(line, "loss")).collect()
}

#[test]
fn one_of_several_labels_is_chosen_by_its_name() {
    let (folder, parts) = shop(2);
    for (words, why) in [
        ("node", "--target item or --target user:churn or --target user:spend"),
        ("node --target user", "several such labels: choose user:churn or user:spend"),
        ("node --target user:x", "no such label: choose item, user:churn, user:spend"),
    ] {
        assert_error(&run_on(&parts, words), &["--target", why]);
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
        let evaluated = json_of(evaluate("node --json", &model, &parts));
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
            let refused = evaluate("node --target churn", &model, &parts);
            assert_error(&refused, &["--target churn", "predicts user:spend"]);
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
        if num_parts == 3 {
            assert_eq!(losses(&train_on("multi", &parts, &folder.join("metrics"), &flags).0), found, "a repetition");
        }
        for (found, expected) in found.iter().zip(expected.get_or_insert_with(|| found.clone())) {
            assert!((found - *expected).abs() < 1e-4 * *expected, "{num_parts} parts: {found} for {expected}");
        }
    }
    let model = folder.join("model");
    let parts = folder.join("3-parts");
    let flags = format!("{targets} --num-epochs 100 --nproc-per-node 2 --save-model {}", text(&model));
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
    let evaluated = json_of(evaluate("multi --json --target-metric user:spend=mae", &model, &parts));
    for at in 0..3 {
        let [found, expected] = [&evaluated, &result].map(|result| number_of(&result["targets"][at], "test_metric"));
        assert!((found - expected).abs() < 1e-5, "{evaluated} {result}");
    }
}

/// Returns the lines of a file of predictions.
fn lines_of(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).expect("predictions").lines().map(str::to_owned).collect()
}

#[test]
fn targets_of_a_saved_model_are_predicted_together_and_one_by_one() {
    let (folder, parts) = shop(2);
    let model = folder.join("model");
    let flags = format!("--target churn,spend,item --num-epochs 20 --save-model {}", text(&model));
    train_on("multi", &parts, &folder.join("metrics"), &flags);
    let out = folder.join("out");
    assert_error(&predict(&parts, &model, &out, &["--target", "x"]), &["--target x", "user:churn, user:spend, item"]);
    assert_error(&predict(&parts, &model, &out, &["--target", "churn,user:churn"]), &["user:churn", "given twice"]);
    let error = &["--explain explains the predictions of one target", "--target, such as user:churn"];
    assert_error(&predict(&parts, &model, &out, &["--explain", "--format", "csv"]), error);
    for sampled in [&[][..], &["--num-neighbors=-1,-1"]] {
        let together = folder.join("together");
        let flags = [&["--format", "csv", "--nproc-per-node", "2", "--gather", "--overwrite"][..], sampled].concat();
        let all = predicted(&parts, &model, &together, &flags);
        let files = ["item", "user__churn", "user__spend"].map(|name| format!("predictions-target-{name}.csv"));
        assert_eq!(names(&together), files);
        for (at, target, short, column, score) in [
            (0, "user:churn", "churn", "class_name,class", "test_acc"),
            (1, "user:spend", "user:spend", "value", "test_metric"),
            (2, "item", "item", "class_name,class", "test_acc"),
        ] {
            let result = predicted(&parts, &model, &out, &[&["--target", short][..], &flags].concat());
            let written = lines_of(&out.join("predictions.csv"));
            assert!(written[0].starts_with("node_id,id,") && written[0].contains(column), "{target}: {}", written[0]);
            let num_nodes = if target == "item" { NUM_ITEMS } else { NUM_USERS };
            assert_eq!((result["nodes"].as_u64(), written.len()), (Some(num_nodes as u64), num_nodes + 1));
            assert_eq!(all["targets"][at]["target"], target, "{all}");
            // The same rows are computed, in products of other widths.
            let [alone, among] = [&result, &all["targets"][at]].map(|result| number_of(result, score));
            assert!((alone - among).abs() < 1e-4, "{target}: {result} {all}");
            let others = lines_of(&together.join(format!("predictions-target-{}.csv", target.replace(':', "__"))));
            assert_eq!(others.len(), written.len());
            for (found, expected) in others.iter().zip(&written).skip(1) {
                let [found, expected] = [found, expected].map(|line| line.rsplit_once(',').expect("columns"));
                assert_eq!(found.0, expected.0, "{target}");
                let [found, expected] = [found.1, expected.1].map(|text| text.parse::<f64>().expect("a number"));
                assert!((found - expected).abs() < 1e-4, "{target}: {found} {expected}");
            }
        }
    }
    // Each target has nodes of its own in a split, and arrays are written with their ids.
    let flags = ["--nodes", "test", "--target", "user:spend,churn", "--overwrite"];
    let both = predicted(&parts, &model, &out, &flags);
    let expected = ["node_ids-target-user__churn.npy", "node_ids-target-user__spend.npy"];
    assert_eq!(names(&out)[..2], expected, "the file of the earlier run is removed: {:?}", names(&out));
    assert!(names(&out).iter().all(|name| name.contains("-target-")), "{:?}", names(&out));
    let sizes = [0, 1].map(|at| both["targets"][at]["nodes"].as_u64().expect("a number of nodes"));
    let churn = predicted(&parts, &model, &out, &["--nodes", "test", "--target", "churn", "--overwrite"]);
    assert_eq!(churn["nodes"].as_u64(), Some(sizes[0]));
    assert!(sizes[0] != sizes[1], "the targets have other test nodes");
    // Embeddings are written for the listed nodes only.
    let list = folder.join("list.npy");
    edgecut_graph::write_npy(&list, &[2], &[3_i64, 5]).expect("a list");
    let flags = ["--output", "embedding", "--row-numbers", "--nodes", text(&list), "--overwrite"];
    assert_eq!(predicted(&parts, &model, &out, &flags)["nodes"], 2);
    // A model for several targets is no model for nodes.
    assert!(!evaluate("node", &model, &parts).status.success());
}

#[test]
fn thresholds_and_temperatures_of_targets_are_chosen_on_their_validation_nodes_and_kept() {
    let (folder, parts) = shop(2);
    let model = folder.join("model");
    let targets = "--target churn,spend,item --target-threshold churn=best-f1;item=0.9 --target-calibrate user:churn";
    let flags =
        format!("{targets} --num-epochs 5 --num-neighbors -1,-1 --nproc-per-node 2 --save-model {}", text(&model));
    let (_, result) = train_on("multi", &parts, &folder.join("metrics"), &flags);
    let decisions = [0, 1, 2].map(|at| &result["targets"][at]["decision"]);
    assert!(
        number_of(decisions[0], "temperature") != 1.0 && decisions[0]["logit_thresholds"][0].is_number(),
        "{result}"
    );
    assert!(decisions[1].is_null(), "{result}");
    assert_eq!(number_of(decisions[2], "temperature"), 1.0, "{result}");
    // An evaluation and predictions know them.
    let evaluated = json_of(evaluate("multi --json", &model, &parts));
    for at in [0, 2] {
        assert_eq!(evaluated["targets"][at]["decision"], *decisions[at]);
        let [found, expected] = [&evaluated, &result].map(|result| number_of(&result["targets"][at], "test_acc"));
        assert!((found - expected).abs() < 1e-5, "{evaluated} {result}");
    }
    let out = folder.join("out");
    let probability =
        |line: &String| line.rsplit(',').next().and_then(|text| text.parse::<f64>().ok()).expect("a number");
    let all = predicted(&parts, &model, &out, &["--format", "csv", "--gather", "--target", "churn,item"]);
    let alone = predicted(&parts, &model, &folder.join("alone"), &["--format", "csv", "--gather", "--target", "item"]);
    assert_eq!(all["targets"][1]["test_acc"], alone["test_acc"]);
    assert_eq!(lines_of(&out.join("predictions-target-item.csv")), lines_of(&folder.join("alone/predictions.csv")));
    let shares = ["--output", "probability", "--format", "csv", "--gather", "--target", "item", "--overwrite"];
    predicted(&parts, &model, &folder.join("alone"), &shares);
    let classes = lines_of(&out.join("predictions-target-item.csv"));
    let shares = lines_of(&folder.join("alone/predictions.csv"));
    let mut num_doubtful = 0;
    for (class, share) in classes.iter().zip(&shares).skip(1) {
        let share = probability(share);
        assert_eq!(probability(class), f64::from(u8::from(share > 0.9)), "{class} {share}");
        num_doubtful += usize::from((0.5..0.9).contains(&share));
    }
    assert!(num_doubtful > 0, "some items are only red by the threshold of one half");
    // A numerical target has neither, and the error names the flag.
    for (flags, why) in [
        ("--target-threshold=spend=0.3", "target user:spend: a threshold is for two classes or labels"),
        ("--target-calibrate=spend", "leave --target-calibrate out"),
        ("--target-calibrate=x", "--target-calibrate x: there is no such target: choose one of churn, spend"),
        ("--target-threshold=churn=2", "\"2\" is neither best-f1 nor a probability"),
    ] {
        assert_error(&run_on(&parts, &format!("multi --target churn,spend {flags}")), &[why]);
    }
}

/// Returns the names of the positive classes of two targets.
fn positive_classes(result: &Value) -> [Value; 2] {
    [0, 1].map(|at| result["targets"][at]["positive_class"].clone())
}

#[test]
fn either_of_two_classes_of_a_target_is_the_positive_one() {
    let (folder, parts) = shop(2);
    let model = folder.join("model");
    let precision = "average-precision";
    let flags = format!(
        "--target churn,item --target-metric item=log-loss,{precision} --target-positive-class item=blue --num-epochs 2 \
         --num-neighbors -1,-1 --nproc-per-node 2 --save-model {}",
        text(&model)
    );
    let (_, result) = train_on("multi", &parts, &folder.join("metrics"), &flags);
    let decisions = [0, 1].map(|at| &result["targets"][at]["decision"]);
    assert!(decisions[0].is_null() && decisions[1]["positive_class"] == 0, "{result}");
    assert_eq!(positive_classes(&result), ["yes", "blue"]);
    let report = folder.join("report.html");
    succeeded(run(program().arg("report").arg(folder.join("metrics")).arg("--out").arg(&report)));
    let page = std::fs::read_to_string(report).expect("the report");
    assert!(page.contains("<dt>Test item average precision of blue</dt>"), "{page}");
    assert!(page.contains("<dd>positive class blue, temperature 1.0000</dd>"), "{page}");
    // The class of the model counts, unless the flag names another one.
    let mut scores = Vec::new();
    let mut is_blue = Vec::new();
    let evaluation = format!("multi --target-metric item={precision}");
    for flags in ["", "--target-positive-class item=red"] {
        let evaluated = json_of(evaluate(&format!("{evaluation} --json {flags}"), &model, &parts));
        scores.push(number_of(&evaluated["targets"][1], "test_metric"));
        is_blue.push(evaluated["targets"][1]["decision"]["positive_class"] == 0);
        assert_eq!(positive_classes(&evaluated), ["yes", if flags.is_empty() { "blue" } else { "red" }]);
    }
    let output = succeeded(evaluate(&evaluation, &model, &parts));
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in
        [format!("item: validation {precision} of blue "), "item: positive class blue, temperature 1.0000".into()]
    {
        assert!(printed.contains(&line), "{line} in {printed}");
    }
    let of_blue = number_of(&result["targets"][1]["test_metrics"], precision);
    assert!((scores[0] - of_blue).abs() < 1e-5, "{scores:?} {result}");
    assert_eq!(is_blue, [true, false]);
    for (flag, why) in [
        (
            "item=bleu",
            "--target-positive-class item=bleu: there is no such class (did you mean blue?): the classes are blue, red",
        ),
        ("spend=1", "target user:spend: one of two classes is positive, but"),
        ("shop=red", "--target-positive-class shop: there is no such target: choose one of item, spend"),
    ] {
        let words = format!("multi --target item,spend --target-positive-class {flag}");
        assert_error(&run_on(&parts, &words), &[why]);
    }
}

#[test]
fn other_classes_and_other_labels_than_in_the_training_are_not_scored() {
    let (folder, parts) = shop(1);
    let several = folder.join("several");
    let one = folder.join("one");
    let flags = format!("--target churn,item --num-epochs 2 --save-model {}", text(&several));
    train_on("multi", &parts, &folder.join("metrics"), &flags);
    let flags = format!("--target churn --num-epochs 2 --save-model {}", text(&one));
    train_on("node", &parts, &folder.join("metrics"), &flags);
    // The first class has another name.
    let relabeled = folder.join("relabeled");
    shop_parts_of(folder.path(), 1, &Shop { churn: ["yes", "zzz"], ..Shop::DEFAULT }, &relabeled);
    let out = folder.join("out");
    let why = "the classes of the target user:churn are not those of its training";
    assert_error(&evaluate("multi", &several, &relabeled), &[why]);
    assert_error(&predict(&relabeled, &several, &out, &[]), &[why]);
    assert_error(&predict(&relabeled, &several, &out, &["--target", "churn"]), &[why]);
    assert!(evaluate("multi", &several, &parts).status.success());
    let item = predicted(&relabeled, &several, &out, &["--target", "item"]);
    assert!(item["test_acc"].is_number(), "the classes of items are the same: {item}");
    // The graph has a label of another name.
    let other = folder.join("other");
    shop_parts_of(folder.path(), 1, &Shop { churn_col: "vip", ..Shop::DEFAULT }, &other);
    let why = "predicts user:churn, but the graph has no such label";
    assert_error(&evaluate("multi", &several, &other), &[why]);
    assert_error(&evaluate("node", &one, &other), &[why]);
    let result = predicted(&other, &one, &folder.join("new"), &[]);
    assert_eq!((&result["test_acc"], &result["nodes"]), (&Value::Null, &json!(NUM_USERS)), "{result}");
    let result = predicted(&other, &several, &folder.join("new"), &["--overwrite"]);
    assert!(result["targets"][0]["test_acc"].is_null() && result["targets"][1]["test_acc"].is_number(), "{result}");
    let flags = ["--nodes", "test", "--target", "churn,item", "--overwrite"];
    assert_error(&predict(&other, &several, &out, &flags), &["there are no such nodes of the target user:churn"]);
}

#[test]
fn a_training_of_several_targets_continues_from_a_checkpoint() {
    let (folder, parts) = shop(2);
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
    let flags = "--target churn,item --num-neighbors -1,-1 --nproc-per-node 2 --num-epochs 8 --resume";
    assert_error(&run_on(&parts, &format!("multi {MODEL} {checkpoints} {flags}")), &["target"]);
}

#[test]
fn wrong_targets_are_refused() {
    let (folder, parts) = shop(1);
    let model = folder.join("model");
    let flags = format!("--target churn --num-epochs 1 --save-model {}", text(&model));
    train_on("multi", &parts, &folder.join("metrics"), &flags);
    let load = format!("--load-model {} --target churn*2", text(&model));
    for (flags, why) in [
        ("", "--target is missing"),
        ("--target *2,churn", "the name of the target is empty"),
        ("--target churn,user:churn", "it is given twice"),
        ("--target churn*0", "the weight 0 is not a number above 0"),
        ("--target churn --target-loss spend=mse", "there is no such target: choose one of churn"),
        ("--target churn --target-loss churn=focal;churn=cross-entropy", "the target churn has two values: give one"),
        ("--target churn,spend --target-loss spend=focal", "the loss focal needs classes"),
        (
            "--target churn --target-loss churn=focal:class_weights=maybe=3",
            "there is no class maybe: the classes are no, yes",
        ),
        ("--target churn,spend --eval layer-wise", "--eval layer-wise"),
        (&load, "the weights of losses have no effect on the evaluation"),
    ] {
        assert_error(&run_on(&parts, &format!("multi {flags}")), &[why]);
    }
    let empty = run(program().args(["node", "--target", "", "--dataset-root-dir"]).arg(&parts));
    assert_error(&empty, &["--target is empty: choose a label of dataset shop"]);
    // Weights of classes by their names, and the metrics of a target without its node type.
    let flags =
        "--target user:churn,item --target-loss churn=cross-entropy:class_weights=yes=5 --target-metric churn=accuracy";
    let weighted = train_on("multi", &parts, &folder.join("metrics"), &format!("{flags} --num-epochs 1"));
    let plain = train_on("multi", &parts, &folder.join("metrics"), "--target user:churn,item --num-epochs 1");
    assert!(losses(&weighted.0) != losses(&plain.0));
    // A target without training nodes cannot be learned.
    let untrained = folder.join("untrained");
    shop_parts_of(folder.path(), 1, &Shop { spend_split: [0.0, 0.5, 0.5], ..Shop::DEFAULT }, &untrained);
    let refused = run_on(&untrained, "multi --target churn,spend");
    assert_error(&refused, &["the target user:spend has no training nodes"]);
}

#[test]
fn servers_choose_no_labels() {
    let (_folder, parts) = shop(1);
    let (servers, _graphs) = serve(&parts);
    let mut command = program();
    command.args(["multi", "--target", "churn,item", "--nproc-per-node", "2", "--servers", &servers]);
    let why =
        "--target user:churn: servers do not choose labels: read the parts by --dataset-root-dir instead of --servers";
    assert_refused(&run(command.args(["--num-neighbors", "3,2"])), 2, &[why]);
}

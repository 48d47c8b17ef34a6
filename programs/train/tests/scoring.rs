//! Several metrics, thresholds and calibration: what runs print and write, what models keep, and what predictions do with it.

use crate::programs::*;

use serde_json::{Map, Value};
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the lines of a metrics file with an event.
fn lines(path: &Path, event: &str) -> Vec<Value> {
    metrics_lines(path).into_iter().filter(|line| line["event"] == event).collect()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value} is not an object"))
}

/// Returns the columns after the ids of a file of predictions.
fn columns_of(out: &Path, num_ids: usize) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(out.join("predictions-00000-of-00001.csv")).expect("predictions");
    let rows = text.lines().skip(1);
    rows.map(|row| row.split(',').skip(num_ids).map(|cell| cell.parse().expect("a number")).collect()).collect()
}

#[test]
fn thresholds_and_temperatures_are_saved_and_decide_predictions() {
    let parts = edge_parts(2, false);
    let folder = Folder::new();
    let metrics = folder.join("metrics.jsonl");
    let report = folder.join("report.html");
    let names = "average-precision,macro-f1,log-loss";
    let outputs = ["--metrics", metrics.to_str().expect("UTF-8"), "--report", report.to_str().expect("UTF-8")];
    let chosen = ["--metric", names, "--threshold", "best-f1", "--calibrate"];
    let found = trained("edge", &parts.path, &folder.join("model"), &[&chosen[..], &outputs].concat());
    for split in ["valid_metrics", "test_metrics"] {
        assert_eq!(object(&found[split]).len(), 3, "{found}");
    }
    assert_eq!(found["valid_metric"], found["valid_metrics"]["average-precision"]);
    let logit = found["decision"]["logit_thresholds"][0].as_f64().expect("a threshold");
    let temperature = found["decision"]["temperature"].as_f64().expect("a temperature");
    assert!(temperature > 0.0 && temperature != 1.0, "{found}");

    // Every epoch has all metrics, and the report shows them.
    let epochs = lines(&metrics, "epoch");
    assert!(epochs.len() == 4 && epochs.iter().all(|epoch| object(&epoch["valid_metrics"]).len() == 3));
    let scores = lines(&metrics, "classes").remove(0)["scores"].clone();
    let confusion = lines(&metrics, "confusion").remove(0)["counts"].clone();
    assert_eq!(scores[1]["correct"], confusion[1][1]);
    let of_class = |field: &str| scores[1][field].as_f64().unwrap_or_else(|| panic!("{field} of {scores}"));
    assert_eq!(of_class("recall"), of_class("correct") / of_class("labelled"));
    let curve = lines(&metrics, "curves").remove(0)["curves"][0].clone();
    assert_eq!(curve["positives"], scores[1]["labelled"]);
    let points = curve["points"].as_array().expect("points");
    let last = points.last().expect("a point");
    assert!(
        (2..=202).contains(&points.len()) && last["recall"] == 1.0 && last["false_positive_rate"] == 1.0,
        "{curve}"
    );
    let page = std::fs::read_to_string(&report).expect("the report");
    for part in ["Validation macro F1", "ROC curve", "Precision-recall curve", "Scores by class"] {
        assert!(page.contains(part), "{part}");
    }

    // An evaluation of the saved model has the same decision without flags, and so do predictions.
    let load = ["--load-model", &folder.text("model"), "--nproc-per-node", "2", "--json", "--metric", names];
    let evaluated = json_of(run(train("edge", &parts.path).args(load)));
    assert_eq!(evaluated["decision"], found["decision"]);
    let flags = ["--edges", "test", "--format", "csv"];
    predicted(&parts.path, &folder.join("model"), &folder.join("classes"), &flags);
    predicted(
        &parts.path,
        &folder.join("model"),
        &folder.join("shares"),
        &[&flags[..], &["--output", "probability"]].concat(),
    );
    predicted(
        &parts.path,
        &folder.join("model"),
        &folder.join("logits"),
        &[&flags[..], &["--output", "logit"]].concat(),
    );
    let classes = columns_of(&folder.join("classes"), 2);
    let shares = columns_of(&folder.join("shares"), 2);
    let logits = columns_of(&folder.join("logits"), 2);
    let mut num_positive = 0;
    for ((class, shares), logits) in classes.iter().zip(&shares).zip(&logits) {
        let score = (logits[1] - logits[0]) / temperature;
        assert!((shares[1] - 1.0 / (1.0 + (-score).exp())).abs() < 1e-4, "{shares:?} {logits:?}");
        if (score - logit).abs() > 1e-4 {
            assert_eq!(class[0], f64::from(u8::from(score > logit)), "{logits:?}");
        }
        num_positive += u32::from(class[0] == 1.0);
    }
    assert!(num_positive > 0 && (num_positive as usize) < classes.len());
    let given = trained("edge", &parts.path, &folder.join("given"), &["--threshold", "0.9", "--metric", "accuracy"]);
    let logit = given["decision"]["logit_thresholds"][0].as_f64().expect("a threshold");
    assert!((logit - 9.0_f64.ln()).abs() < 1e-9 && given["decision"]["temperature"] == 1.0, "{given}");
}

#[test]
fn all_metrics_of_links_are_in_every_output() {
    let parts = link_parts(1);
    let folder = Folder::new();
    let metrics = folder.join("metrics.jsonl");
    let mut command = train("link", &parts.path);
    command.args(["--hidden-channels", "8", "--num-epochs", "2", "--json", "--metric", "mrr,hits@5,hits@20,roc-auc"]);
    let found = json_of(run(command.arg("--metrics").arg(&metrics)));
    let edges = found["test"]["edges"].as_u64();
    for split in ["valid", "test"] {
        let hits = ["hits@5", "hits@20"].map(|name| found[split][name].as_f64().expect("a share of hits"));
        assert!(hits[0] <= hits[1] && found[split]["roc_auc"].is_number(), "{found}");
        assert!(found[split]["average_precision"].is_null(), "it was not asked for: {found}");
    }
    let curve = lines(&metrics, "curves").remove(0)["curves"][0].clone();
    assert_eq!((curve["positives"].as_u64(), curve["negatives"].as_u64()), (edges, edges.map(|edges| 100 * edges)));
    let epochs = lines(&metrics, "epoch");
    let names: Vec<&String> = object(&epochs[1]["valid_metrics"]).keys().collect();
    assert_eq!(names, ["hits@20", "hits@5", "mrr", "roc-auc"]);
    assert_eq!(epochs[1]["valid_metric"], epochs[1]["valid_metrics"]["mrr"]);
}

#[test]
fn a_sweep_compares_by_the_first_of_several_metrics() {
    let parts = fake_parts(1);
    let mut command = program();
    command.args(["sweep", "--set", "lr=0.01 0.0001", "--", "node", "--dataset-root-dir"]).arg(&parts.path);
    command.args(["--num-neighbors", "5,3", "--hidden-channels", "8", "--num-epochs", "1"]);
    let output = succeeded(run(command.args(["--metric", "macro-f1,log-loss"])));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let head: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(
        head[2..10],
        ["valid", "macro-f1", "test", "macro-f1", "valid", "log-loss", "test", "log-loss"],
        "{table}"
    );
}

#[test]
fn folds_have_all_metrics() {
    let folder = Folder::new();
    let mut command = program();
    command.args(["graph", "--dataset", "fake-graphs", "--num-graphs", "60", "--num-epochs", "2", "--folds", "3"]);
    command.args(["--hidden-channels", "8", "--metric", "accuracy,macro-f1", "--dataset-root-dir"]).arg(folder.path());
    for protocol in ["validation", "best-mean-epoch"] {
        let mut command = clone_of(&command);
        let found = json_of(run(command.args(["--json", "--protocol", protocol])));
        assert_eq!(found["others"][0]["metric"], "macro-f1");
        assert_eq!(found["others"][0]["test"].as_array().map(Vec::len), Some(3), "{found}");
        assert!(found["others"][0]["mean"].is_number(), "{found}");
    }
    let refused = run(command.args(["--protocol", "best-mean-epoch", "--calibrate"]));
    assert_error(&refused, &["the test graphs of a fold take the place of validation graphs"]);
}

/// Returns a command with the same words.
fn clone_of(command: &Command) -> Command {
    let mut other = Command::new(TRAIN);
    other.args(command.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    unplace(&mut other);
    other
}

#[test]
fn metrics_and_thresholds_that_make_no_sense_are_refused() {
    let parts = fake_parts(1);
    for (flags, status, what) in [
        (&["--metric", "accuracy,accuracy"][..], 2, "accuracy is named twice"),
        (&["--metric", "accuracy,f1"], 2, "unknown metric \"f1\""),
        (&["--metric", "accuracy,roc-auc"], 1, "metric roc-auc needs two classes, or labels"),
        (&["--positive-class", "1"], 1, "one of two classes is positive, but there are "),
        (
            &["--positive-class", "one"],
            2,
            "the classes of the data have no names (transforms.json of parts from tables): give 0 or 1",
        ),
        (&["--threshold", "1.5"], 2, "\"1.5\" is neither best-f1 nor a probability between 0 and 1"),
        (&["--threshold", "best-f1"], 1, "a threshold is for two classes or labels"),
        (&["--metrics", "macro-f1,accuracy"], 2, "give them by --metric macro-f1,accuracy"),
    ] {
        let output = run(node(&parts.path).args(flags));
        assert_refused(&output, status, &[what]);
    }
}

/// Epochs without validation come first, and have only the metric that selects the best epoch.
#[test]
fn an_epoch_names_its_metrics_in_their_order() {
    let parts = fake_parts(1);
    for metrics in ["macro-f1", "macro-f1,accuracy"] {
        let flags = ["--num-epochs", "2", "--eval-every", "2", "--metric", metrics];
        let text = stderr(&succeeded(run(node(&parts.path).args(flags))));
        let line = text.lines().find(|line| line.starts_with("epoch 2/2")).unwrap_or_default();
        let (_, valid) = line.split_once(", valid macro-f1 ").unwrap_or_else(|| panic!("{text}"));
        assert!(valid.contains(", accuracy "), "{text}");
        let head = text.lines().find(|line| line.contains("epoch    loss")).unwrap_or_default();
        assert_eq!(head.contains("valid macro-f1  valid accuracy"), metrics.contains("accuracy"), "{text}");
    }
}

/// Trains three epochs with a metric. Returns the standard error and the result.
fn text_and_result(parts: &Path, metric: &str) -> (String, Value) {
    let output = succeeded(run(node(parts).args(["--num-epochs", "3", "--json", "--metric", metric])));
    (stderr(&output), json_of(&output))
}

/// Without validation nodes, and for an ROC AUC of one class, no epoch is the best one. A note tells it once.
#[test]
fn a_metric_without_a_value_on_the_validation_data_has_a_note() {
    let note = "has no value on the validation data";
    let mut graph = random_graph(5);
    let nodes = &mut graph.node_types[0];
    let classes: Vec<i64> = (0..nodes.num_nodes as i64).map(|node| i64::from(node % 5 == 0)).collect();
    nodes.labels = Some(classes.into());
    nodes.num_classes = 2;
    // Validation nodes have the class 0 only.
    let parts = written_by(&graph, 2);
    let (text, result) = text_and_result(&parts.path, "roc-auc");
    assert_eq!(text.matches(&format!("the metric roc-auc {note}")).count(), 1, "{text}");
    assert_eq!(result["best_epoch"], 3, "{result}");
    let (text, _) = text_and_result(&parts.path, "accuracy");
    assert!(!text.contains(note), "{text}");

    graph.node_types[0].splits.valid = Vec::new().into();
    let (text, result) = text_and_result(&written_by(&graph, 1).path, "accuracy");
    assert_eq!(text.matches(&format!("the metric accuracy {note}")).count(), 1, "{text}");
    assert_eq!(result["best_epoch"], 3, "{result}");
}

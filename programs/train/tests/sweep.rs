//! Sweeps: real runs of `train` with combinations of flags.

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{Split, TargetKind, Targets};
use edgecut_testing::{assert_has, names};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn sweep(flags: &[&str], parts: &Path, rest: &[&str]) -> Output {
    let mut command = program();
    command.arg("sweep").args(flags).args(["--", "node", "--dataset-root-dir"]).arg(parts);
    command.args(["--num-neighbors", "5,3", "--hidden-channels", "16", "--num-epochs", "2"]).args(rest);
    run(&mut command)
}

#[test]
fn a_grid_is_trained_and_ranked() {
    let parts = fake_parts(2);
    let folder = Folder::new();
    let out = folder.join("runs");
    let flags = ["--set", "lr=0.02 0.0001", "--set", "model=sage gcn", "--json", "--out", out.to_str().expect("UTF-8")];
    let output = succeeded(sweep(&flags, &parts.path, &["--nproc-per-node", "2"]));
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of runs");
    assert_eq!(runs.len(), 4);
    let scores: Vec<f64> = runs.iter().map(|run| run["valid"].as_f64().expect("a score")).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    // Two epochs at the lower rate learn next to nothing.
    assert!(runs[..2].iter().all(|run| run["flags"][0][1] == "0.02") && scores[0] > scores[3] + 0.1, "{runs:?}");
    assert!(stderr(&output).contains("run 4 of 4: --lr 0.0001 --model gcn: validation"), "{}", stderr(&output));
    // The scores are in the runs' metrics.
    let number = runs[0]["number"].as_u64().expect("a number");
    let metrics = std::fs::read_to_string(out.join(format!("run-{number}.jsonl"))).expect("the metrics");
    let last: Value = serde_json::from_str(metrics.lines().last().expect("a line")).expect("JSON");
    for (of_run, of_sweep) in [("valid_metric", "valid"), ("test_metric", "test")] {
        assert_eq!(entry(&last, of_run), entry(&runs[0], of_sweep));
    }
}

#[test]
fn runs_of_links_are_ranked_by_hits_and_the_best_model_is_named() {
    let parts = link_parts(1);
    let file = |name: &str| parts.path.with_file_name(name);
    let model = file("model.safetensors");
    let metrics = file("metrics.jsonl");
    let kept = file("kept");
    let mut command = program();
    // The rates are in the order from the worst run to the best one.
    command.args(["sweep", "--set", "lr=0.000001 0.02", "--", "link", "--dataset-root-dir"]).arg(&parts.path);
    command.args(["--num-neighbors", "5,3", "--hidden-channels", "16", "--num-epochs", "2", "--metric", "hits@10"]);
    command.arg("--save-model").arg(&model).arg("--metrics").arg(&metrics).arg("--checkpoint-dir").arg(&kept);
    let output = succeeded(run(&mut command));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..6], ["run", "lr", "valid", "hits@10", "test", "hits@10"], "{table}");
    let score = |row: usize| lines[row][2].parse::<f64>().unwrap_or_else(|_| panic!("{table}"));
    assert!(lines[1][1] == "0.02" && lines[2][1] == "0.000001" && score(1) > score(2), "{table}");
    let best = file("model-run-2.safetensors");
    let said = format!("the best model is that of run 2: {}", best.display());
    assert_eq!(table.lines().last(), Some(said.as_str()));
    // Each run has its own files.
    for number in [1, 2] {
        let lines = std::fs::read_to_string(file(&format!("metrics-run-{number}.jsonl"))).expect("the metrics");
        let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
        let valid = last["valid"]["hits@10"].as_f64().expect("a score");
        assert!((valid - score(3 - number)).abs() < 1e-4, "{last} and {table}");
        assert!(file(&format!("model-run-{number}.safetensors")).is_file());
        assert!(kept.join(format!("run-{number}")).is_dir());
    }
    assert!(!model.exists() && !metrics.exists());
    assert_ne!(std::fs::read(&best).expect("the model"), std::fs::read(file("model-run-1.safetensors")).expect("it"));
}

#[test]
fn runs_with_different_metrics_have_no_order() {
    let mut graph = random_graph(3);
    let nodes = &mut graph.node_types[0];
    let values: Vec<f32> = (0..nodes.num_nodes).map(|node| node as f32 / 10.0).collect();
    nodes.labels = None;
    nodes.num_classes = 0;
    nodes.targets = Some(Targets { values: values.into(), dim: 1, kind: TargetKind::Regression });
    let parts = written_by(&graph, 1);
    let model = parts.path.with_file_name("model.safetensors");
    let save = ["--save-model", model.to_str().expect("UTF-8")];
    let output = sweep(&["--set", "loss=mse mae huber"], &parts.path, &save);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..5], ["run", "loss", "metric", "valid", "score"], "{table}");
    let rows: Vec<&[&str]> = lines[1..].iter().map(|line| &line[..3]).collect();
    assert_eq!(rows, [["1", "mse", "rmse"], ["2", "mae", "mae"], ["3", "huber", "mae"]], "{table}");
    let why = "the runs have the metrics rmse and mae, so their scores cannot be compared: give all runs one metric, for \
               example with --metric mae";
    assert_fails(&output, 1, &[why]);
    // One metric has an order.
    let output = succeeded(sweep(&["--set", "loss=mse mae", "--json"], &parts.path, &["--metric", "mae"]));
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of runs");
    assert!(runs.iter().all(|run| run["metric"] == "mae"), "{runs:?}");
}

#[test]
fn a_run_without_a_score_has_failed() {
    let mut graph = fake(&FakeOptions::default()).expect("a fake graph");
    graph.node_types[0].splits.set(Split::Valid, Vec::new().into());
    let parts = written_by(&graph, 1);
    let output = sweep(&["--set", "lr=0.01"], &parts.path, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_has(stderr(&output), &["error: its result has no accuracy on the validation data", "1 of 1 runs failed"]);
}

#[test]
fn cross_validations_are_compared_by_their_validation_graphs() {
    let training = ["--dataset", "fake-graphs", "--num-graphs", "60", "--num-epochs", "2", "--folds", "3"];
    for protocol in ["validation", "best-mean-epoch"] {
        let training = [&["graph"][..], &training, &["--protocol", protocol]].concat();
        let result = json_of(run(program().args(&training).args(["--seed", "0", "--json"])));
        let output = succeeded(run(program().args(["sweep", "--set", "seed=0", "--json", "--"]).args(&training)));
        let runs: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of runs");
        assert_eq!(runs[0]["test"], result["mean"]);
        let notes_test = stderr(&output).contains("the validation scores are the test scores");
        assert_eq!(notes_test, protocol == "best-mean-epoch", "{}", stderr(&output));
        let valid = if notes_test { &result["mean"] } else { &result["valid_metrics"]["accuracy"] };
        assert!(valid.is_number() && runs[0]["valid"] == *valid, "{result} {runs:?}");
        assert_eq!(runs[0]["valid_metrics"]["accuracy"], *valid);
    }
}

#[test]
fn a_table_names_runs_that_failed() {
    let parts = fake_parts(1);
    let output = sweep(&["--set", "num_neighbors=5,3 5,x"], &parts.path, &[]);
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].contains("num-neighbors") && lines[0].contains("valid accuracy"), "{table}");
    assert!(lines[1].contains("5,3") && lines[2].contains("5,x") && lines[2].contains("failed"), "{table}");
    assert_has(stderr(&output), &["1 of 2 runs failed", "run 2 of 2: --num-neighbors 5,x: error: "]);
}

#[test]
fn runs_that_differ_in_their_seed_have_a_mean() {
    let parts = fake_parts(1);
    let output = succeeded(sweep(&["--set", "seed=0 1 2"], &parts.path, &[]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, means) = text.split_once("\nmean ± sample deviation over seeds\n").expect("a table of means");
    let lines: Vec<&str> = means.lines().collect();
    assert!(lines[0].starts_with("seeds ") && lines[0].contains("valid accuracy"), "{text}");
    assert!(lines[1].trim_start().starts_with("3 ") && lines[1].matches(" ± ").count() == 2, "{text}");
}

fn runs_of(output: &Output) -> Vec<Value> {
    serde_json::from_slice(&output.stdout).expect("a list of runs")
}

#[test]
fn metrics_of_an_earlier_sweep_are_kept_or_removed() {
    let parts = fake_parts(1);
    let folder = Folder::new();
    let out = folder.join("runs");
    let flags = ["--out", out.to_str().expect("UTF-8"), "--set"];
    succeeded(sweep(&[&flags[..], &["seed=0 1"]].concat(), &parts.path, &[]));
    std::fs::write(out.join("notes.jsonl"), "mine").expect("a file");
    let record = "sweep-runs.json";
    let of_second = ["run-2.jsonl", "run-2.jsonl.config.yaml"];
    let first = ["notes.jsonl", "run-1.jsonl", "run-1.jsonl.config.yaml", of_second[0], of_second[1], record];
    assert_eq!(names(&out), first);
    let output = sweep(&[&flags[..], &["lr=0.01"]].concat(), &parts.path, &[]);
    assert!(error_of(&output).contains("holds metrics of an earlier run: choose another --out, or add --overwrite"));
    assert_eq!(names(&out), first);
    // A sweep that is refused removes nothing.
    let overwrite = [&["--overwrite"], &flags[..]].concat();
    assert_refused(&sweep(&[&overwrite[..], &["lrr=1"]].concat(), &parts.path, &[]), 2, &["--lrr"]);
    assert_eq!(names(&out), first);
    succeeded(sweep(&[&overwrite[..], &["lr=0.01"]].concat(), &parts.path, &[]));
    assert_eq!(names(&out), [&first[..3], &[record]].concat());
}

#[test]
fn the_same_sweep_continues_with_the_runs_that_are_not_complete() {
    let parts = fake_parts(1);
    let folder = Folder::new();
    let out = folder.join("runs");
    let model = folder.join("model.safetensors");
    let save = ["--save-model", model.to_str().expect("UTF-8")];
    let flags = ["--json", "--out", out.to_str().expect("UTF-8"), "--set", "seed=0 1 2"];
    let first = runs_of(&succeeded(sweep(&flags, &parts.path, &save)));
    // As if the job had ended within the second run, and somebody had removed the model of the third one.
    let record = out.join("sweep-runs.json");
    let mut runs: Value = serde_json::from_slice(&std::fs::read(&record).expect("the record")).expect("JSON");
    runs[1]["done"] = Value::Null;
    std::fs::write(&record, runs.to_string()).expect("write the record");
    std::fs::remove_file(folder.join("model-run-3.safetensors")).expect("a model");
    let output = succeeded(sweep(&flags, &parts.path, &save));
    let said = stderr(&output);
    for (number, is_kept) in [(1, true), (2, false), (3, false)] {
        let kept = format!("run {number} of 3: --seed {}: kept, validation", number - 1);
        assert_eq!(said.contains(&kept), is_kept, "{said}");
    }
    let second = runs_of(&output);
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(
            (&one["number"], &one["valid"], &one["model"]),
            (&other["number"], &other["valid"], &other["model"])
        );
    }
    assert!(folder.join("model-run-3.safetensors").is_file());
    let said = stderr(&succeeded(sweep(&flags, &parts.path, &save)));
    assert_eq!(said.matches(": kept, validation").count(), 3, "{said}");
    // Another sweep with the same --save-model replaces models.
    std::fs::copy(folder.join("model-run-1.safetensors"), folder.join("model-run-2.safetensors")).expect("a model");
    let said = stderr(&succeeded(sweep(&flags, &parts.path, &save)));
    assert_eq!(said.matches(": kept, validation").count(), 2, "{said}");
    assert!(!said.contains("run 2 of 3: --seed 1: kept"), "{said}");
    // Parts that were made anew are other data.
    let meta = parts.path.join("META.json");
    let text = std::fs::read_to_string(&meta).expect("META.json");
    std::fs::write(&meta, format!("{text}\n")).expect("write META.json");
    let error = error_of(&sweep(&flags, &parts.path, &save));
    assert!(error.contains("holds metrics of an earlier run"), "{error}");
}

#[test]
fn random_runs_start_through_a_launcher() {
    let parts = fake_parts(1);
    let flags = ["--random", "2", "--set", "lr=0.001..0.02", "--launcher", "env -u NOTHING", "--json"];
    let output = sweep(&flags, &parts.path, &[]);
    // `env` takes the words after `--` for a command, as a launcher does.
    assert!(output.status.success(), "{}", stderr(&output));
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of runs");
    let rate = |run: &Value| run["flags"][0][1].as_str().and_then(|rate| rate.parse::<f64>().ok()).expect("a rate");
    assert!(runs.len() == 2 && runs.iter().all(|run| (0.001..=0.02).contains(&rate(run))), "{runs:?}");
}

#[test]
fn wrong_sweeps_are_refused() {
    let parts = fake_parts(1);
    let refused = |flags: &[&str], why: &str| {
        let output = sweep(flags, &parts.path, &[]);
        assert_refused(&output, 2, &[why]);
    };
    refused(&[], "--set");
    refused(&["--set", "lr"], "FLAG=VALUES");
    refused(&["--set", "lr=0.1..0.2"], "--random");
    refused(&["--set", "lr=0.1 0.2", "--set", "lr=1"], "twice");
    refused(&["--set", "metric=accuracy log-loss"], "scores with --metric accuracy and log-loss cannot be compared");
    let files = Folder::new();
    let [first, second] = ["accuracy", "log-loss"].map(|metric| {
        let file = files.join(format!("{metric}.yaml"));
        std::fs::write(&file, format!("metric: {metric}\n")).expect("a file");
        file.to_str().expect("UTF-8").to_owned()
    });
    let by_files = format!("config={first} {second}");
    refused(&["--set", &by_files], "scores with --metric accuracy and log-loss cannot be compared");
    // No run starts, since its result would have no score.
    let Scratch { folder, model, .. } = scratch();
    for (set, flag) in [("lr=0.1", "--hold-out-edges=0"), ("hold-out-edges=0.1,0.1 0", "--quiet")] {
        let mut command = program();
        command.args(["sweep", "--set", set, "--", "link", flag, "--num-epochs", "1", "--dataset-root-dir"]);
        let output = run(command.arg(&parts.path).arg("--save-model").arg(&model));
        assert_fails(&output, 2, &["no validation edges whose metric could be compared"]);
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "a run was started");
    // A flag that is wrong in all runs is one error.
    for (set, flag, why) in [
        ("lrr=1 2", "--quiet", "unexpected argument '--lrr' found"),
        ("lr=1 2", "--hiden-channels=4", "did you mean --hidden-channels?"),
    ] {
        let output =
            run(program().args(["sweep", "--set", set, "--", "node", flag, "--dataset-root-dir"]).arg(&parts.path));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why) && stderr(&output).matches("error").count() == 1, "{}", stderr(&output));
    }
    let output = run(program().args(["sweep", "--set", "lr=1", "--", "sample"]));
    assert!(error_of(&output).contains("'sample' cannot be swept"));
}

//! Sweeps: real runs of `train` with combinations of flags.

use crate::programs;

use programs::{TRAIN, error_of, fake_parts, run, stderr, unplace};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn sweep(flags: &[&str], parts: &Path, rest: &[&str]) -> Output {
    let mut command = Command::new(TRAIN);
    command.arg("sweep").args(flags).args(["--", "node", "--dataset-root-dir"]).arg(parts);
    command.args(["--num-neighbors", "5,3", "--hidden-channels", "16", "--num-epochs", "2"]).args(rest);
    unplace(&mut command);
    run(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

#[test]
fn a_grid_is_trained_and_ranked() {
    let parts = fake_parts(2);
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("runs");
    let flags = ["--set", "lr=0.02 0.0001", "--set", "model=sage gcn", "--json", "--out", out.to_str().expect("UTF-8")];
    let output = sweep(&flags, &parts.path, &["--nproc-per-node", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of runs");
    assert_eq!(runs.len(), 4);
    let scores: Vec<f64> = runs.iter().map(|run| run["valid"].as_f64().expect("a score")).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    // Two epochs at the lower rate learn next to nothing.
    assert!(runs[..2].iter().all(|run| run["flags"][0][1] == "0.02") && scores[0] > scores[3] + 0.1, "{runs:?}");
    assert!(stderr(&output).contains("run 4 of 4: --lr 0.0001 --model gcn: validation"), "{}", stderr(&output));
    // The scores are those of the runs' metrics.
    let number = runs[0]["number"].as_u64().expect("a number");
    let metrics = std::fs::read_to_string(out.join(format!("run-{number}.jsonl"))).expect("the metrics");
    let last: Value = serde_json::from_str(metrics.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["valid_metric"], &last["test_metric"]), (&runs[0]["valid"], &runs[0]["test"]));
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
    let said = stderr(&output);
    assert!(said.contains("1 of 2 runs failed") && said.contains("run 2 of 2: --num-neighbors 5,x: error: "), "{said}");
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
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    refused(&[], "--set");
    refused(&["--set", "lr"], "FLAG=VALUES");
    refused(&["--set", "lr=0.1..0.2"], "--random");
    refused(&["--set", "lr=0.1 0.2", "--set", "lr=1"], "twice");
    let mut command = Command::new(TRAIN);
    command.args(["sweep", "--set", "lr=1", "--", "sample"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    assert!(error_of(&run(&mut command)).contains("'sample' cannot be swept"));
}

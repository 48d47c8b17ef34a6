//! Tests of the files of a run of `train`: flags, metrics and events.

use crate::programs::*;
use edgecut_output::FolderLock;
use edgecut_testing::python_has;
use serde_json::Value;
use std::process::Command;

#[test]
fn a_restarted_attempt_appends_metrics_and_keeps_the_better_model() {
    let parts = fake_parts(2);
    let file = |name: &str| parts.path.with_file_name(name);
    let (model, metrics) = (file("model.safetensors"), file("metrics.jsonl"));
    let attempt = |attempt: &str, flags: &[&str]| {
        let mut command = train("node", &parts.path);
        command.args(["--hidden-channels", "16", "--batch-size", "32", "--dropout", "0", "--nproc-per-node", "2"]);
        command.arg("--metrics").arg(&metrics).arg("--save-model").arg(&model).args(flags);
        let output = succeeded(run(command.env("EDGECUT_RESTART_COUNT", attempt).env("EDGECUT_RUN_ID", "test")));
        let lines = metrics_lines(&metrics);
        let attempts: Vec<u64> = lines.iter().filter_map(|line| line["attempt"].as_u64()).collect();
        (attempts, std::fs::read(&model).expect("a model"), stderr(&output))
    };
    let (attempts, good, _) = attempt("0", &["--num-epochs", "4", "--lr", "0.01"]);
    // The partition, four epochs, the confusion matrix, the scores of classes and the result.
    assert_eq!(attempts, [0; 8]);
    // The model of the first epoch is a worse one.
    let worse = ["--num-epochs", "1", "--lr", "0.01"];
    let (attempts, kept, said) = attempt("1", &worse);
    assert_eq!(attempts, [[0; 8].as_slice(), &[1; 5]].concat());
    assert!(kept == good && said.contains("the model of attempt 0"), "{said}");
    // A run of the same name, as of torchrun with the same --rdzv-id.
    let (_, other, said) = attempt("2", &["--num-epochs", "1", "--lr", "1e-9"]);
    assert!(other != good && !said.contains("the model of attempt"), "{said}");
    let (attempts, replaced, _) = attempt("0", &worse);
    assert_eq!(attempts, [0; 5], "a fresh start replaces both");
    assert!(replaced != good);
}

/// The commands of a batch script that Slurm starts again have the name and the number of restarts of the job.
#[test]
fn commands_of_a_batch_script_do_not_continue_the_files_of_each_other() {
    let parts = fake_parts(1);
    let folder = Folder::new();
    let [model, metrics] = ["model.safetensors", "metrics.jsonl"].map(|name| folder.join(name));
    let start = folder.join("start");
    let tuned = ["--init-from", text(&start)];
    for (restarts, flags, num_results, is_kept) in [
        ("0", &[][..], 1, false),
        ("0", &tuned, 1, false),
        ("1", &[], 1, false),
        // The next attempt at the same command.
        ("2", &[], 2, true),
    ] {
        let mut command = node(&parts.path);
        command.args(["--num-epochs", "2", "--lr", "1e-9"]).args(flags);
        command.envs([("SLURM_JOB_ID", "7"), ("SLURM_RESTART_COUNT", restarts)]);
        let output = succeeded(run(command.arg("--save-model").arg(&model).arg("--metrics").arg(&metrics)));
        let results = metrics_lines(&metrics).into_iter().filter(|line| line["event"] == "result").count();
        assert_eq!(results, num_results, "{restarts} {flags:?}");
        let said = stderr(&output);
        assert_eq!(said.contains("keeping the model of attempt"), is_kept, "{restarts} {flags:?}: {said}");
        if restarts == "0" {
            std::fs::copy(&model, &start).expect("copy the model");
        }
    }
}

#[test]
fn files_of_a_running_job_are_refused_and_stay() {
    let parts = fake_parts(1);
    let folder = Folder::new();
    for (flag, name) in [("--save-model", "model.safetensors"), ("--metrics", "metrics.jsonl")] {
        let path = folder.join(name);
        std::fs::write(&path, "of the other job").expect("a file");
        let lock = FolderLock::take_file(&path).expect("a lock");
        let refused = run(node(&parts.path).args(["--num-epochs", "1", flag]).arg(&path));
        assert_error(&refused, &[flag, &format!("another job writes {name} to the folder")]);
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "of the other job");
        drop(lock);
        succeeded(run(node(&parts.path).args(["--num-epochs", "1", flag]).arg(&path)));
    }
}

#[test]
fn a_run_that_cannot_read_its_model_keeps_the_metrics_of_an_earlier_run() {
    let parts = fake_parts(1);
    let folder = Folder::new();
    let metrics = folder.join("metrics.jsonl");
    succeeded(run(node(&parts.path).args(["--num-epochs", "1", "--metrics"]).arg(&metrics)));
    let before = std::fs::read(&metrics).expect("the metrics");
    for (mut command, flag) in [(node(&parts.path), "--init-from"), (train("node", &parts.path), "--load-model")] {
        let refused = run(command.arg("--metrics").arg(&metrics).arg(flag).arg(folder.join("absent")));
        assert_error(&refused, &["absent"]);
        assert!(std::fs::read(&metrics).expect("the metrics") == before, "{flag}");
    }
}

#[test]
fn a_metrics_file_has_the_lines_of_one_run() {
    let parts = fake_parts(1);
    let metrics = parts.path.with_file_name("metrics.jsonl");
    // The attempt of each epoch. A run whose first attempt has written nothing is restarted in the file of
    // another one, and so is a run without a name.
    for (restarts, name, expected) in [
        ("0", Some("first"), &[0, 0][..]),
        ("1", Some("second"), &[1, 1]),
        ("2", Some("second"), &[1, 1, 2, 2]),
        ("3", None, &[3, 3]),
        ("4", None, &[4, 4]),
        ("1", Some("first"), &[1, 1]),
    ] {
        let mut command = node(&parts.path);
        command.args(["--num-epochs", "2", "--metrics"]).arg(&metrics).env("EDGECUT_RESTART_COUNT", restarts);
        if let Some(name) = name {
            command.env("EDGECUT_RUN_ID", name);
        }
        succeeded(run(&mut command));
        let lines = metrics_lines(&metrics).into_iter().filter(|line| line["event"] == "epoch");
        let attempts: Vec<u64> = lines.filter_map(|line| line["attempt"].as_u64()).collect();
        assert_eq!(attempts, expected, "{restarts} {name:?}");
        let text = std::fs::read_to_string(&metrics).expect("the metrics");
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            assert!(line["event"] != "run" || line["run"].as_str() == name, "{text}");
        }
    }
}

#[test]
fn runs_of_torchrun_without_a_name_are_different_runs() {
    let parts = fake_parts(1);
    let model = parts.path.with_file_name("model.safetensors");
    let mut models = Vec::new();
    for (restarts, lr) in [("0", "0.01"), ("1", "1e-9")] {
        let mut command = node(&parts.path);
        command.args(["--num-epochs", "2", "--lr", lr, "--save-model"]).arg(&model);
        let elastic = [("TORCHELASTIC_RUN_ID", "none"), ("TORCHELASTIC_RESTART_COUNT", restarts)];
        command.envs([("RANK", "0"), ("WORLD_SIZE", "1")]).envs(elastic);
        let said = stderr(&succeeded(run(&mut command)));
        assert!(!said.contains("the model of attempt 0"), "{said}");
        models.push(std::fs::read(&model).expect("a model"));
    }
    assert!(models[0] != models[1]);
}

#[test]
fn a_folder_has_the_outputs_of_one_job_at_a_time() {
    let parts = fake_parts(1);
    for (command, flag, outputs) in [("node", "--checkpoint-dir", "checkpoints"), ("sample", "--out", "batches")] {
        let folder = Folder::new();
        let lock = FolderLock::take(folder.path(), outputs).expect("a new folder");
        // As launch with its logs in the same folder.
        let _other = FolderLock::take(folder.path(), "logs").expect("another kind of outputs");
        let mut job = train(command, &parts.path);
        if command == "node" {
            job.args(["--num-epochs", "1", "--hidden-channels", "8"]);
        }
        job.arg(flag).arg(folder.path());
        assert_error(&run(&mut job), &[&format!("another job writes {outputs} to the folder")]);
        drop(lock);
        succeeded(run(&mut job));
        assert!(!folder.join(format!(".edgecut-lock-{outputs}")).exists(), "{command}");
    }
}

#[test]
fn a_file_of_flags_repeats_a_run() {
    let parts = fake_parts(2);
    let file = |name: &str| parts.path.with_file_name(name);
    let given = file("run.yaml");
    std::fs::write(&given, "training:\n  hidden_size: 16\n  num_epochs: 9\n  lr: 0.02\n  num_neighbors: [4, 3]\n")
        .expect("write the flags");
    let result = |command: &mut Command| -> Value { json_of(run(command.args(["--nproc-per-node", "2", "--json"]))) };
    // A flag on the command line takes precedence over the file.
    let mut first = train("node", &parts.path);
    let metrics = file("metrics.jsonl");
    let trained = result(first.arg("--config").arg(&given).args(["--num-epochs", "3", "--metrics"]).arg(&metrics));
    let lines = std::fs::read_to_string(&metrics).expect("the metrics");
    assert_eq!(lines.matches("\"event\":\"epoch\"").count(), 3, "{lines}");
    let written = file("metrics.jsonl.config.yaml");
    let text = std::fs::read_to_string(&written).expect("the flags of the run");
    // `train` sets other fan-outs on the command line.
    assert!(text.contains("hidden-channels: 16") && text.contains("num-neighbors: \"5,3\""), "{text}");
    let mut again = program();
    again.args(["node", "--json", "--config"]).arg(&written);
    assert!(text.contains("nproc-per-node: \"2\""), "{text}");
    assert_eq!(json_of(run(&mut again)), trained, "the file has all flags of the run");
    std::fs::write(&given, "num_epoch: 9\n").expect("write the flags");
    let wrong = run(train("node", &parts.path).arg("--config").arg(&given));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("run.yaml, line 1: there is no flag --num-epoch"), "{}", stderr(&wrong));
}

#[test]
fn tensorboard_reads_the_events_of_a_run() {
    const SCALARS: &str = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
for tag in ['train/loss', 'valid/accuracy']:
    print(' '.join(f'{e.step}:{e.value:.6f}' for e in events.Scalars(tag)))
";
    let module = "tensorboard.backend.event_processing.event_accumulator";
    if !python_has(Command::new("python3"), module, "tensorboard_reads_the_events_of_a_run") {
        return;
    }
    let parts = fake_parts(2);
    let events = parts.path.with_file_name("events");
    let metrics = parts.path.with_file_name("metrics.jsonl");
    let mut command = node(&parts.path);
    command.args(["--nproc-per-node", "2", "--num-epochs", "3", "--tensorboard"]).arg(&events);
    succeeded(run(command.arg("--metrics").arg(&metrics)));
    let read = succeeded(Command::new("python3").args(["-c", SCALARS]).arg(&events).output().expect("run Python"));
    let lines = metrics_lines(&metrics);
    let of_epochs = |key: &str| {
        let value = |line: &Value| format!("{}:{:.6}", line["epoch"], line[key].as_f64().expect("a number") as f32);
        lines[1..4].iter().map(value).collect::<Vec<_>>().join(" ")
    };
    let expected = format!("{}\n{}\n", of_epochs("loss"), of_epochs("valid_acc"));
    assert_eq!(String::from_utf8_lossy(&read.stdout), expected);
}

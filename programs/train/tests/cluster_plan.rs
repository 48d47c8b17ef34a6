//! Plans of clusters, measured by real processes.

use crate::programs;
use crate::programs::*;

use serde_json::Value;
use std::process::Command;

fn plan(mut command: Command, more: &[&str]) -> Command {
    command.args(["--nproc-per-node", "2", "--plan-cluster", "--device", "cpu"]).args(more);
    command
}

fn predictions(plan: &Value) -> Vec<&Value> {
    plan["predictions"].as_array().expect("a list").iter().collect()
}

#[test]
fn a_plan_is_measured_by_the_processes_of_one_machine() {
    let parts = fake_parts(2);
    let metrics = parts.path.join("../metrics.jsonl");
    let flags = ["--num-neighbors", "5,5", "--batch-size", "32", "--seed", "3"];
    let more =
        ["--plan-nodes", "1,2,8", "--plan-gbit", "0.1,10", "--plan-delay-us", "20", "--plan-cores", "0.5", "--json"];
    let found = json_of(run(&mut plan(node(&parts.path), &[&flags[..], &more].concat())));
    let profile = &found["profile"];
    let measured = number_of(profile, "rows");
    for field in ["batch_cpu_seconds", "step_cpu_seconds", "request_cpu_seconds", "gradient_bytes", "anonymous_bytes"] {
        assert!(number_of(profile, field) > 0.0, "{field} of {profile}");
    }
    assert!(number_of(profile, "measured_steps") >= 8.0, "{profile}");
    assert!(measured > 32.0 && number_of(profile, "batch_bytes") > 4.0 * measured, "{profile}");

    // The rows are measured in the first epoch of a training, whose batches do not depend on their makers. The first batch
    // is not measured.
    let mut trains = node(&parts.path);
    trains
        .args(flags)
        .args(["--nproc-per-node", "2", "--num-epochs", "1", "--concurrency", "0", "--metrics"])
        .arg(&metrics);
    succeeded(run(&mut trains));
    let epoch = programs::metrics_lines(&metrics).into_iter().find(|line| line["event"] == "epoch").expect("an epoch");
    let steps = number_of(profile, "epoch_steps");
    let per_batch = number_of(&epoch, "remote_nodes") / (2.0 * steps);
    let ratio = number_of(profile, "remote_rows") / per_batch;
    assert!((0.8..1.25).contains(&ratio), "{profile} and {epoch}");

    let [one, _, two, slow_two, eight] = [0, 1, 3, 2, 5].map(|at| predictions(&found)[at]);
    assert_eq!(predictions(&found).len(), 6);
    assert_eq!((one["nodes"].as_u64(), one["remote_rows"].as_f64()), (Some(1), Some(0.0)));
    assert_eq!(
        (two["rows_basis"].as_str(), two["remote_rows"].as_f64()),
        (Some("measured"), profile["remote_rows"].as_f64())
    );
    assert_eq!(eight["rows_basis"], "estimated");
    assert!(number_of(eight, "remote_rows") > number_of(two, "remote_rows"), "{eight} {two}");
    assert!(number_of(slow_two, "bandwidth_seconds") > 99.0 * number_of(two, "bandwidth_seconds"), "{slow_two} {two}");
    assert!(number_of(eight, "epoch_seconds") < number_of(one, "epoch_seconds"), "{eight} {one}");
}

#[test]
fn a_plan_of_any_task_is_shown_as_a_table() {
    for (task, parts, flags) in [
        ("link", link_parts(2), &["--batch-size=20"][..]),
        ("node", typed_parts(2), &["--plan-memory=1MB", "--plan-steps=1"]),
    ] {
        let output = succeeded(run(&mut plan(train(task, &parts.path), flags)));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("from other parts in") && text.contains("nodes  Gbit/s"), "{task}: {text}");
        assert_eq!(
            text.lines().filter(|line| line.contains('%') && line.contains("B  ")).count(),
            16,
            "{task}: {text}"
        );
        assert_eq!(text.contains("memory\n"), task == "node", "{task}: {text}");
    }
}

#[test]
fn plans_without_rows_of_other_parts_and_meaningless_flags_are_refused() {
    let one = error_of(&run(node(&fake_parts(2).path).args(["--plan-cluster", "--device", "cpu"])));
    assert!(one.contains("--plan-cluster needs the cost of rows of other parts: start a process per part"), "{one}");
    assert_error(&run(&mut plan(node(&fake_parts(1).path), &[])), &["--plan-cluster needs a part for each process"]);
    for (flags, why) in [
        (&["--plan-cluster", "--save-model", "m"][..], "--save-model"),
        (&["--plan-cluster", "--metrics", "m"], "--metrics"),
        (&["--plan-nodes", "4"], "--plan-cluster"),
        (&["--plan-cluster", "--plan-cores", "0"], "0 is not a finite number > 0"),
    ] {
        let output = run(node(&fake_parts(2).path).args(flags));
        let text = stderr(&output);
        assert!(output.status.code() == Some(2) && text.contains(why), "{flags:?}: {text}");
    }
}

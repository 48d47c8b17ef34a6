//! Reports of runs: their charts have the points of the metrics files, and the page needs no other file.

use crate::programs::*;

use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn report(arguments: &[&Path], out: &Path) -> Output {
    run(program().arg("report").args(arguments).arg("--out").arg(out))
}

/// Returns the text between two marks, for each pair of them.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).filter_map(|rest| rest.split(to).next()).collect()
}

#[test]
fn a_report_shows_the_epochs_of_its_runs() {
    let parts = fake_parts(2);
    let folder = Folder::new();
    for (name, lr) in [("fast", "0.01"), ("slow", "0.001")] {
        let mut command = node(&parts.path);
        command.args(["--num-epochs", "4", "--eval-every", "2", "--nproc-per-node", "2", "--stats", "--lr", lr]);
        command.arg("--metrics").arg(folder.join(format!("{name}.jsonl")));
        command.arg("--report").arg(folder.join(format!("{name}.html")));
        succeeded(run(&mut command));
    }
    let output = report(&[&folder.join("fast.jsonl"), &folder.join("slow.jsonl")], &folder.join("both.html"));
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));

    let epochs = metrics_lines(&folder.join("fast.jsonl"));
    for (name, num_runs) in [("fast", 1), ("both", 2)] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.html"))).expect("the report");
        // The loss has a point per epoch, the validation score one per validation.
        let charts: Vec<&str> = between(&page, "<figure>", "</figure>");
        let chart = |title: &str| {
            let found = charts.iter().find(|chart| chart.contains(&format!("<figcaption>{title}</figcaption>")));
            *found.unwrap_or_else(|| panic!("no chart of {title}"))
        };
        let points = |title: &str| -> Vec<usize> {
            between(chart(title), "points=\"", "\"").iter().map(|points| points.split(' ').count()).collect()
        };
        assert_eq!(points("Training loss"), vec![4; num_runs]);
        assert_eq!(points("Validation accuracy"), vec![2; num_runs]);
        let loss = epochs[3]["loss"].as_f64().expect("a loss");
        let titles = between(chart("Training loss"), "<title>", "</title>");
        let third = titles.iter().find_map(|title| title.strip_prefix("fast, epoch 3: ")).expect("the third epoch");
        assert!((third.parse::<f64>().expect("a number") / loss - 1.0).abs() < 1e-3, "{third} for {loss}");
        // A bar per epoch and per rank, and the tables.
        let [phases, time, memory, confusion_title] = if num_runs == 1 {
            ["Slowest rank of each phase", "Time", "Resident memory", "Confusion matrix"]
        } else {
            ["fast: slowest rank of each phase", "fast: time", "fast: Resident memory", "fast: confusion matrix"]
        };
        assert_eq!(chart(phases).matches("<title>epoch 4, ").count(), 4, "one for each phase");
        assert!(chart(time).contains("rank 1, computing") && chart(memory).contains("rank 1"));
        // The predictions of all test nodes by label.
        let confusion = epochs.iter().find(|line| line["event"] == "confusion").expect("a confusion matrix");
        let counts = confusion["counts"][3][3].as_u64().expect("a count");
        let cell = format!("title=\"label 3, prediction 3: {counts}\"");
        assert!(chart(confusion_title).contains(&cell), "{}", chart(confusion_title));
        // The best epoch is in a ring in the curve of the metric that selects it.
        assert_eq!(page.matches("class=\"best").count(), num_runs);
        assert_eq!(chart("Validation accuracy").matches("class=\"best").count(), num_runs);
        let part = epochs.iter().find(|line| line["event"] == "partition").expect("the parts");
        assert_eq!(part["parts"].as_array().map(Vec::len), Some(2));
        let titles = ["Test accuracy", "Cut edges", "Largest part, nodes", "Slowest steps", "<th>received</th>"];
        for part in titles.into_iter().chain(["--num-epochs", "--hidden-channels"]) {
            assert!(page.contains(part), "{part}");
        }
        // Nothing is loaded from elsewhere, and nothing runs.
        assert!(
            !["<script", "src=", "href=", "url(", "http:", "https:", "@import", "NaN"]
                .iter()
                .any(|part| page.contains(part))
        );
    }
}

#[test]
fn a_report_has_each_name_and_each_score_once() {
    let parts = fake_parts(2);
    let folder = Folder::new();
    let out = folder.join("report.html");
    let metrics = folder.join("metrics.jsonl");
    let mut command = node(&parts.path);
    command.args(["--num-epochs", "25", "--nproc-per-node", "2", "--metric", "accuracy,macro-f1,log-loss", "--stats"]);
    succeeded(run(command.arg("--metrics").arg(&metrics).arg("--report").arg(&out)));
    let page = std::fs::read_to_string(&out).expect("the report");
    let names = between(&page, "<dt>", "</dt>");
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    let results: Vec<&str> = names.iter().copied().take_while(|name| *name != "Dataset").collect();
    let scores =
        ["accuracy", "log loss", "macro F1"].map(|score| format!("Test {score}, Validation {score}")).join(", ");
    assert_eq!(results.join(", "), format!("{scores}, Best epoch, Training time, Received"));
    let result = metrics_lines(&metrics).pop().expect("the result");
    let accuracy = result["test_acc"].as_f64().expect("the accuracy");
    assert!(page.contains(&format!("<dt>Test accuracy</dt><dd>{:.2} %</dd>", accuracy * 100.0)), "{page}");
    // The graph has 1,000 nodes and 10,000 edges, and all epochs have a column.
    assert!(page.contains("<dt>Nodes</dt><dd>1,000</dd>") && page.contains("<title>epoch 1, computing: "), "{page}");
    assert!(page.contains("<title>epoch 25, computing: "), "{page}");
}

#[test]
fn reports_of_links_and_of_whole_graphs_have_their_scores() {
    let parts = link_parts(1);
    let folder = Folder::new();
    let path = parts.path.to_str().expect("UTF-8");
    let graphs = folder.path().to_str().expect("UTF-8");
    for (name, flags, root, metric, test) in [
        ("link", "link --num-neighbors 5,3 --hidden-channels 8 --eval-negatives 10", path, "MRR", "Test MRR"),
        ("graph", "graph --dataset fake-graphs --num-graphs 60", graphs, "accuracy", "Test accuracy"),
    ] {
        let out = folder.join(format!("{name}.html"));
        let mut command = program();
        command
            .args(flags.split(' '))
            .args(["--dataset-root-dir", root, "--num-epochs", "3", "--metrics"])
            .arg(folder.join(format!("{name}.jsonl")));
        succeeded(run(command.arg("--report").arg(&out)));
        let page = std::fs::read_to_string(&out).expect("the report");
        let title = format!("<figcaption>Validation {metric}</figcaption>");
        let chart = page.split(&title).nth(1).unwrap_or_else(|| panic!("no {title} in {page}"));
        assert_eq!(between(chart, "points=\"", "\"")[0].split(' ').count(), 3);
        assert!(page.contains(&format!("<dt>{test}</dt>")), "{test}: {page}");
        let waiting = format!("<title>epoch 1, {}", "waiting for batches");
        assert!(page.contains(&waiting) && page.contains("rank 0"), "{page}");
    }
}

#[test]
fn scores_and_predictions_are_counted_once() {
    let parts = link_parts(2);
    let folder = Folder::new();
    // Both tasks give the same counts on one and on two ranks.
    let lines = |task: &str, ranks: &str, events: &[&str], parts: &Path| -> Vec<Value> {
        let metrics = folder.join("metrics.jsonl");
        let mut command = program();
        command.args([task, "--num-neighbors", "-1,-1", "--hidden-channels", "8", "--num-epochs", "1", "--lr", "0"]);
        command.args(["--nproc-per-node", ranks, "--metrics"]).arg(&metrics).arg("--dataset-root-dir").arg(parts);
        succeeded(run(&mut command));
        let lines = metrics_lines(&metrics);
        let mut found = Vec::new();
        for event in events {
            let line = lines.iter().find(|line| line["event"] == **event);
            found.push(line.unwrap_or_else(|| panic!("no {event} in {lines:?}")).clone());
        }
        found
    };
    let sum = |counts: &Value| counts.as_array().expect("counts").iter().filter_map(Value::as_u64).sum::<u64>();
    let one = link_parts(1);
    for (ranks, parts) in [("1", &one), ("2", &parts)] {
        let found = lines("link", ranks, &["histogram", "result"], &parts.path);
        let histogram = &found[0];
        let positives = sum(&histogram["positives"]);
        assert_eq!(Some(positives), found[1]["test"]["edges"].as_u64());
        // By default, each edge has 100 negatives.
        assert_eq!(sum(&histogram["negatives"]), 100 * positives);
    }
    let one = fake_parts(1);
    let two = fake_parts(2);
    let single = lines("node", "1", &["confusion"], &one.path)[0]["counts"].clone();
    let double = lines("node", "2", &["confusion"], &two.path)[0]["counts"].clone();
    let flat = |rows: &Value| -> Vec<u64> {
        rows.as_array()
            .expect("rows")
            .iter()
            .flat_map(|row| row.as_array().expect("a row"))
            .filter_map(Value::as_u64)
            .collect()
    };
    let single = flat(&single);
    let double = flat(&double);
    let total: u64 = single.iter().sum();
    assert_eq!((total, single.len()), (double.iter().sum(), 100));
    // Batches of other sizes are rounded differently, which may change a prediction.
    let moved: u64 = single.iter().zip(&double).map(|(a, b)| a.abs_diff(*b)).sum();
    assert!(moved * 50 <= total, "{moved} of {total}");
}

#[test]
fn a_report_needs_a_file_of_metrics() {
    let parts = fake_parts(1);
    let folder = Folder::new();
    let out = folder.join("report.html");
    let mut command = node(&parts.path);
    let output = run(command.args(["--metrics", "/dev/stdout", "--report"]).arg(&out));
    assert_fails(&output, 2, &["--report needs a regular file"]);
}

#[test]
fn a_report_shows_the_last_attempt_of_a_run_that_was_killed() {
    let folder = Folder::new();
    let metrics = folder.join("killed.jsonl");
    let lines = "{\"attempt\":0,\"event\":\"epoch\",\"epoch\":1,\"loss\":9.0}\n\
                 {\"attempt\":1,\"event\":\"epoch\",\"epoch\":1,\"loss\":2.0}\n\
                 {\"attempt\":1,\"event\":\"epoch\",\"epoch\":2,\"loss\":null}\n{\"attempt\":1,\"ev";
    std::fs::write(&metrics, lines).expect("write the metrics");
    let out = folder.join("report.html");
    assert!(report(&[&metrics], &out).status.success());
    let page = std::fs::read_to_string(&out).expect("the report");
    assert!(page.contains("killed, epoch 1: 2<") && !page.contains("epoch 1: 9<"), "{page}");
}

#[test]
fn files_that_are_no_metrics_are_refused() {
    let folder = Folder::new();
    let out = folder.join("report.html");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("write a file");
        path
    };
    let good = file("good.jsonl", "{\"attempt\":0,\"event\":\"epoch\",\"epoch\":1,\"loss\":9.0}\n");
    for (path, why) in [
        (file("empty.jsonl", ""), "it is empty"),
        (file("text.txt", "epoch 1\nepoch 2\n"), "text.txt, line 1"),
        (file("other.json", "{\"a\":1}\n"), "other.json, line 1"),
        (folder.join("absent.jsonl"), "No such file"),
    ] {
        assert_error(&report(&[&good, &path], &out), &[why]);
        assert!(!out.exists());
    }
    assert_fails(&report(&[&good], &good), 2, &["--out: the report would replace the metrics"]);
    let absent = folder.join("absent/report.html");
    assert!(error_of(&report(&[&good], &absent)).contains("--out"));
    let many: Vec<&Path> = vec![&good; 9];
    assert_fails(&report(&many, &out), 2, &["up to 8 runs"]);
}

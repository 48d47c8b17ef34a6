//! The page of a report.

use super::run::{Run, number_of};
use edgecut_report::{Bar, Matrix, Page, Series, bars, escaped, lines, matrix, shown, table};
use serde_json::{Map, Value};

/// The phases of an epoch: the field of the metrics, and its name.
const PHASES: [(&str, &str); 5] = [
    ("sample_wait_seconds", "waiting for batches"),
    ("compute_seconds", "computing"),
    ("allreduce_seconds", "all-reduce"),
    ("eval_seconds", "validation"),
    (CHECKPOINTS, "checkpoints"),
];
/// The field with the time of checkpoints.
const CHECKPOINTS: &str = "checkpoint_seconds";

/// The most classes whose confusion matrix is drawn.
const MOST_CLASSES: usize = 64;

/// Returns the page of one or several runs.
pub(super) fn html(runs: &[Run]) -> String {
    let names = runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut page = Page::new(&format!("Training report: {names}"));
    page.section("Run", &facts(runs));
    page.section("Results", &results(runs));
    page.charts("Curves", &curves(runs));
    page.charts("Predictions on the test data", &predictions(runs));
    page.section("Precision and recall by class, test data", &class_scores(runs));
    page.charts("Time by phase", &phases(runs));
    page.charts("Time and memory by rank, last epoch", &ranks(runs));
    page.section("Slowest steps", &slowest_steps(runs));
    page.section("Traffic by rank and peer", &traffic(runs));
    page.section("Partition", &partitions(runs));
    page.section("Configuration", &configuration(runs));
    page.finish()
}

/// Returns a row per name, with the value of each run. Names without any value are left out.
fn by_run(runs: &[Run], names: &[&str], value: impl Fn(&Run, &str) -> String) -> String {
    let mut rows =
        vec![std::iter::once(String::new()).chain(runs.iter().map(|run| run.name.clone())).collect::<Vec<_>>()];
    for name in names {
        let values: Vec<String> = runs.iter().map(|run| value(run, name)).collect();
        if values.iter().any(|value| !value.is_empty()) {
            rows.push(std::iter::once((*name).to_owned()).chain(values).collect());
        }
    }
    table(&rows)
}

/// The facts about a run, as the names of the fields and for people.
const FACTS: [(&str, &str); 12] = [
    ("command", "command"),
    ("version", "version"),
    ("date", "start (UTC)"),
    ("dataset", "dataset"),
    ("nodes", "nodes"),
    ("edges", "edges"),
    ("node_types", "node types"),
    ("edge_types", "edge types"),
    ("graphs", "graphs"),
    ("parts", "parts"),
    ("processes", "processes"),
    ("machines", "machines"),
];

/// The most names of classes that are listed.
const MOST_NAMES: usize = 50;

fn facts(runs: &[Run]) -> String {
    let mut names: Vec<&str> = FACTS.iter().map(|(_, name)| *name).collect();
    names.push("classes");
    by_run(runs, &names, |run, name| {
        if name == "classes" {
            return classes(run);
        }
        let field = FACTS.iter().find(|(_, shown)| *shown == name).map_or(name, |(field, _)| field);
        match run.facts.get(field) {
            Some(Value::Number(number)) => number.to_string(),
            Some(value) => text_of(value),
            None => String::new(),
        }
    })
}

/// Lists the names of the classes, if they have any.
fn classes(run: &Run) -> String {
    let names = run.classes.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match run.classes.len() {
        0..=MOST_NAMES => names,
        count => format!("{names}, … ({count} classes)"),
    }
}

fn results(runs: &[Run]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        let new = run.result.iter().filter(|(name, value)| is_result(name, value) && !names.contains(&name.as_str()));
        let new: Vec<&str> = new.map(|(name, _)| name.as_str()).collect();
        names.extend(new);
    }
    names.extend(["epochs", "seconds of training", "received GB"]);
    by_run(runs, &names, |run, name| match name {
        "epochs" => run.epochs.len().to_string(),
        "seconds of training" => shown(run.total("seconds")),
        "received GB" => shown(run.total("remote_bytes") / 1e9),
        _ => run.result.get(name).map_or_else(String::new, text_of),
    })
}

fn is_result(name: &str, value: &Value) -> bool {
    !["attempt", "event"].contains(&name) && (value.is_number() || value.is_string())
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), shown),
        other => other.to_string(),
    }
}

fn curves(runs: &[Run]) -> Vec<String> {
    let metric = runs.first().map_or("metric", Run::metric);
    let mut found = vec![
        curve(runs, "training loss", |run| run.points("loss")),
        curve(runs, &format!("validation {metric}"), |run| run.points("valid_metric")),
    ];
    let mut others: Vec<&str> = Vec::new();
    for name in runs.iter().flat_map(Run::other_metrics) {
        if name != metric && !others.contains(&name) {
            others.push(name);
        }
    }
    for name in others {
        found.push(curve(runs, &format!("validation {name}"), |run| run.points_of_metric(name)));
    }
    found.push(curve(runs, "training accuracy", |run| run.points("train_acc")));
    found.push(curve(runs, "seconds per epoch", |run| run.points("seconds")));
    found
}

fn curve(runs: &[Run], title: &str, points: impl Fn(&Run) -> Vec<(f64, f64)>) -> String {
    let mut series = Vec::new();
    for (color, run) in runs.iter().enumerate() {
        let points = points(run);
        if !points.is_empty() {
            series.push(Series { name: run.name.clone(), color, points });
        }
    }
    lines(title, "epoch", &series)
}

/// Draws a bar per epoch and run, of the last epochs if there are many.
fn phases(runs: &[Run]) -> Vec<String> {
    const MOST: usize = 20;
    let mut found = Vec::new();
    for run in runs {
        let mut used = PHASES.to_vec();
        // Only some runs write checkpoints.
        if run.epochs.iter().all(|fields| number(fields, CHECKPOINTS) == 0.0) {
            used.retain(|(field, _)| *field != CHECKPOINTS);
        }
        let names: Vec<&str> = used.iter().map(|(_, name)| *name).collect();
        let first = run.epochs.len().saturating_sub(MOST);
        let mut epochs = Vec::new();
        for (at, fields) in run.epochs.iter().enumerate().skip(first) {
            let pieces = used.iter().map(|(field, _)| number(fields, field)).collect();
            epochs.push(Bar { name: format!("epoch {}", at + 1), pieces });
        }
        found.push(bars(&format!("{}, slowest rank of each phase", run.name), "s", &names, &epochs));
    }
    found
}

/// Returns a number of an object; 0 if it has none.
fn number(fields: &Map<String, Value>, field: &str) -> f64 {
    number_of(fields, field).unwrap_or(0.0)
}

fn ranks(runs: &[Run]) -> Vec<String> {
    let names: Vec<&str> = PHASES[..3].iter().map(|(_, name)| *name).collect();
    let mut found = Vec::new();
    for run in runs {
        let ranks = run.epochs.last().and_then(|fields| fields.get("ranks")?.as_array());
        let mut times = Vec::new();
        let mut memory = Vec::new();
        for (rank, fields) in ranks.into_iter().flatten().filter_map(Value::as_object).enumerate() {
            let name = format!("rank {rank}");
            let pieces = PHASES[..3].iter().map(|(field, _)| number(fields, field)).collect();
            times.push(Bar { name: name.clone(), pieces });
            memory.push(Bar { name, pieces: vec![number(fields, "memory_bytes") / 1e9] });
        }
        found.push(bars(&format!("{}: time", run.name), "s", &names, &times));
        found.push(bars(&format!("{}: memory", run.name), "GB", &["resident memory"], &memory));
    }
    found
}

/// Draws a matrix or a histogram per run.
fn predictions(runs: &[Run]) -> Vec<String> {
    let mut found = Vec::new();
    for run in runs {
        let several = if runs.len() > 1 { format!("{}: ", run.name) } else { String::new() };
        found.push(confusion(&several, run) + &histogram(&several, &run.histogram));
        found.push(class_curves(
            &format!("{several}ROC curve"),
            "false positive rate, true positive rate",
            run,
            &["false_positive_rate", "recall"],
        ));
        found.push(class_curves(
            &format!("{several}precision-recall curve"),
            "recall, precision",
            run,
            &["recall", "precision"],
        ));
    }
    found
}

/// Draws a line per class, by two fields of its points.
fn class_curves(title: &str, axes: &str, run: &Run, [x, y]: &[&str; 2]) -> String {
    let mut series = Vec::new();
    for (color, fields) in run.curves.iter().enumerate() {
        let class = number(fields, "class") as usize;
        let mut points = Vec::new();
        for point in fields.get("points").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
            points.push((number(point, x), number(point, y)));
        }
        if *x == "false_positive_rate" {
            points.insert(0, (0.0, 0.0));
        }
        series.push(Series { name: run.class_name(class), color, points });
    }
    lines(title, axes, &series)
}

/// Returns a table of the classes of each run.
fn class_scores(runs: &[Run]) -> String {
    let head =
        ["run", "class", "seeds", "predicted", "correct", "precision", "recall", "F1"].map(String::from).to_vec();
    let mut rows = vec![head];
    for run in runs {
        for (class, fields) in run.class_scores.iter().enumerate() {
            let mut row = vec![run.name.clone(), run.class_name(class)];
            for field in ["labelled", "predicted", "correct", "precision", "recall", "f1"] {
                row.push(number_of(fields, field).map_or_else(|| "-".to_owned(), shown));
            }
            rows.push(row);
        }
    }
    table(&rows)
}

/// Draws the predictions by label. The color of a cell is its share of the seeds of its label. Large matrices become a
/// list of the most frequent confusions.
fn confusion(prefix: &str, run: &Run) -> String {
    let counts = &run.confusion;
    let num_classes = counts.len();
    if counts.iter().any(|row| row.len() != num_classes) {
        return String::new();
    }
    let names: Vec<String> = (0..num_classes).map(|class| run.class_name(class)).collect();
    let mut shares: Vec<Vec<f64>> = Vec::new();
    for row in counts {
        let sum: f64 = row.iter().sum();
        shares.push(row.iter().map(|count| if sum > 0.0 { count / sum } else { 0.0 }).collect());
    }
    if num_classes > MOST_CLASSES {
        let mut wrong = Vec::new();
        for (label, row) in counts.iter().enumerate() {
            for (class, &count) in row.iter().enumerate() {
                if label != class && count > 0.0 {
                    wrong.push((label, class, count));
                }
            }
        }
        wrong.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut rows = vec![["label", "prediction", "seeds", "% of label"].map(String::from).to_vec()];
        for &(label, class, count) in wrong.iter().take(20) {
            let share = shown(shares[label][class] * 100.0);
            rows.push(vec![names[label].clone(), names[class].clone(), shown(count), share]);
        }
        return format!(
            "<figure><figcaption>{}most frequent confusions</figcaption>{}</figure>",
            escaped(prefix),
            table(&rows)
        );
    }
    let shown = Matrix { rows: "label", columns: "prediction", names: &names, cells: counts, shares: &shares };
    matrix(&format!("{prefix}confusion matrix"), &shown)
}

/// Draws the share of the positive and of the negative edges in each bin of the score.
fn histogram(prefix: &str, counts: &[(&'static str, Vec<f64>)]) -> String {
    let mut series = Vec::new();
    for (color, (kind, counts)) in counts.iter().enumerate() {
        let sum = counts.iter().sum::<f64>().max(1.0);
        let width = 1.0 / counts.len().max(1) as f64;
        let points = counts.iter().enumerate().map(|(bin, count)| ((bin as f64 + 0.5) * width, count / sum));
        series.push(Series { name: (*kind).to_owned(), color, points: points.collect() });
    }
    lines(&format!("{prefix}share of edges by score (logistic function)"), "score", &series)
}

fn partitions(runs: &[Run]) -> String {
    let names = [
        "method",
        "parts",
        "cut edges, %",
        "remote neighbors, %",
        "largest part over the mean, nodes",
        "largest part over the mean, edges",
        "largest part over the mean, training nodes",
    ];
    by_run(runs, &names, |run, name| {
        let parts = run.partition.get("parts").and_then(Value::as_array);
        let parts: Vec<&Map<String, Value>> = parts.into_iter().flatten().filter_map(Value::as_object).collect();
        if parts.is_empty() {
            return String::new();
        }
        let percent =
            |field: &str| number_of(&run.partition, field).map_or_else(String::new, |share| shown(share * 100.0));
        match name {
            "method" => run.partition.get("method").map_or_else(String::new, text_of),
            "parts" => parts.len().to_string(),
            "cut edges, %" => percent("cut_fraction"),
            "remote neighbors, %" => percent("remote_neighbor_fraction"),
            "largest part over the mean, edges" => imbalance(&parts, "edges"),
            "largest part over the mean, training nodes" => imbalance(&parts, "train_nodes"),
            _ => imbalance(&parts, "nodes"),
        }
    })
}

/// Returns the ratio of the largest part to the mean.
fn imbalance(parts: &[&Map<String, Value>], field: &str) -> String {
    let counts: Vec<f64> = parts.iter().filter_map(|part| number_of(part, field)).collect();
    let sum: f64 = counts.iter().sum();
    if sum == 0.0 {
        return String::new();
    }
    shown(counts.iter().copied().fold(0.0, f64::max) * counts.len() as f64 / sum)
}

fn slowest_steps(runs: &[Run]) -> String {
    let head = ["run", "epoch", "step", "seconds", "waiting for the batch, s"].map(String::from).to_vec();
    let mut steps: Vec<(f64, Vec<String>)> = Vec::new();
    for run in runs {
        for (epoch, fields) in run.epochs.iter().enumerate() {
            let of_epoch = fields.get("slowest_steps").and_then(Value::as_array);
            for step in of_epoch.into_iter().flatten().filter_map(Value::as_object) {
                let seconds = number(step, "seconds");
                let waited = shown(number(step, "sample_wait_seconds"));
                let step = number(step, "step").to_string();
                let cells = vec![run.name.clone(), (epoch + 1).to_string(), step, shown(seconds), waited];
                steps.push((seconds, cells));
            }
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut rows = vec![head];
    rows.extend(steps.into_iter().take(10).map(|(_, cells)| cells));
    table(&rows)
}

fn traffic(runs: &[Run]) -> String {
    let head = ["run", "rank", "peer", "requests", "sent MB", "received MB", "waiting s"].map(String::from).to_vec();
    let mut rows = vec![head];
    for run in runs {
        for rank in run.traffic.iter().filter_map(Value::as_object) {
            let own = number_of(rank, "rank").unwrap_or(0.0).to_string();
            let peers = rank.get("peers").and_then(Value::as_array);
            for peer in peers.into_iter().flatten().filter_map(Value::as_object) {
                rows.push(vec![
                    run.name.clone(),
                    own.clone(),
                    number(peer, "peer").to_string(),
                    number(peer, "requests").to_string(),
                    shown(number(peer, "sent_bytes") / 1e6),
                    shown(number(peer, "received_bytes") / 1e6),
                    shown(number(peer, "wait_seconds")),
                ]);
            }
        }
    }
    table(&rows)
}

fn configuration(runs: &[Run]) -> String {
    let mut names: Vec<&str> = runs.iter().flat_map(|run| &run.flags).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    by_run(runs, &names, |run, name| {
        let value = run.flags.iter().find(|(flag, _)| flag == name);
        value.map_or_else(String::new, |(_, value)| value.clone())
    })
}

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
    page.section("Results", &results(runs));
    page.charts("Curves", &curves(runs));
    page.charts("Predictions on the test data", &predictions(runs));
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
    let chart = |title: &str, field: &str| {
        let series = runs.iter().enumerate().map(|(color, run)| Series {
            name: run.name.clone(),
            color,
            points: run.points(field),
        });
        lines(title, "epoch", &series.filter(|series| !series.points.is_empty()).collect::<Vec<_>>())
    };
    let metric = runs.first().map_or("metric", Run::metric);
    vec![
        chart("training loss", "loss"),
        chart(&format!("validation {metric}"), "valid_metric"),
        chart("training accuracy", "train_acc"),
        chart("seconds per epoch", "seconds"),
    ]
}

/// Draws a bar per epoch and run, of the last epochs if there are many.
fn phases(runs: &[Run]) -> Vec<String> {
    const MOST: usize = 20;
    let of_run = |run: &Run| {
        // Only some runs write checkpoints.
        let is_used = |field: &str| run.epochs.iter().any(|fields| number_of(fields, field).unwrap_or(0.0) > 0.0);
        let used: Vec<_> = PHASES.iter().filter(|(field, _)| *field != CHECKPOINTS || is_used(field)).collect();
        let names: Vec<&str> = used.iter().map(|(_, name)| *name).collect();
        let first = run.epochs.len().saturating_sub(MOST);
        let bar = |(number, fields): (usize, &Map<String, Value>)| Bar {
            name: format!("epoch {}", number + 1),
            pieces: used.iter().map(|(field, _)| number_of(fields, field).unwrap_or(0.0)).collect(),
        };
        let found: Vec<Bar> = run.epochs.iter().enumerate().skip(first).map(bar).collect();
        bars(&format!("{}, slowest rank of each phase", run.name), "s", &names, &found)
    };
    runs.iter().map(of_run).collect()
}

fn ranks(runs: &[Run]) -> Vec<String> {
    let names: Vec<&str> = PHASES[..3].iter().map(|(_, name)| *name).collect();
    let mut found = Vec::new();
    for run in runs {
        let ranks = run.epochs.last().and_then(|fields| fields.get("ranks")?.as_array());
        let objects: Vec<&Map<String, Value>> = ranks.into_iter().flatten().filter_map(Value::as_object).collect();
        let named = |pieces: &dyn Fn(&Map<String, Value>) -> Vec<f64>| -> Vec<Bar> {
            let bar = |(rank, fields): (usize, &&Map<String, Value>)| Bar {
                name: format!("rank {rank}"),
                pieces: pieces(fields),
            };
            objects.iter().enumerate().map(bar).collect()
        };
        let times =
            named(&|fields| PHASES[..3].iter().map(|(field, _)| number_of(fields, field).unwrap_or(0.0)).collect());
        found.push(bars(&format!("{}: time", run.name), "s", &names, &times));
        let memory = named(&|fields| vec![number_of(fields, "memory_bytes").unwrap_or(0.0) / 1e9]);
        found.push(bars(&format!("{}: memory", run.name), "GB", &["resident memory"], &memory));
    }
    found
}

/// Draws a matrix or a histogram per run.
fn predictions(runs: &[Run]) -> Vec<String> {
    let of_run = |run: &Run| {
        let several = if runs.len() > 1 { format!("{}: ", run.name) } else { String::new() };
        confusion(&several, run) + &histogram(&several, &run.histogram)
    };
    runs.iter().map(of_run).collect()
}

/// Draws the predictions by label. The color of a cell is its share of the seeds of its label. Large matrices become a
/// list of the most frequent confusions.
fn confusion(prefix: &str, run: &Run) -> String {
    let counts = &run.confusion;
    let num_classes = counts.len();
    if counts.iter().any(|row| row.len() != num_classes) {
        return String::new();
    }
    let mut names = run.classes.clone();
    if names.len() != num_classes {
        names = (0..num_classes).map(|class| class.to_string()).collect();
    }
    let sums: Vec<f64> = counts.iter().map(|row| row.iter().sum::<f64>()).collect();
    let share = |label: usize, count: f64| if sums[label] > 0.0 { count / sums[label] } else { 0.0 };
    if num_classes > MOST_CLASSES {
        let cells = counts
            .iter()
            .enumerate()
            .flat_map(|(label, row)| row.iter().enumerate().map(move |(class, &count)| (label, class, count)));
        let mut wrong: Vec<(usize, usize, f64)> =
            cells.filter(|&(label, class, count)| label != class && count > 0.0).collect();
        wrong.sort_by(|a, b| b.2.total_cmp(&a.2));
        let head = ["label", "prediction", "seeds", "% of label"].map(String::from).to_vec();
        let row = |&(label, class, count): &(usize, usize, f64)| {
            vec![names[label].clone(), names[class].clone(), shown(count), shown(share(label, count) * 100.0)]
        };
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(wrong.iter().take(20).map(row)).collect();
        return format!(
            "<figure><figcaption>{}most frequent confusions</figcaption>{}</figure>",
            escaped(prefix),
            table(&rows)
        );
    }
    let shares: Vec<Vec<f64>> =
        counts.iter().enumerate().map(|(label, row)| row.iter().map(|&count| share(label, count)).collect()).collect();
    let shown = Matrix { rows: "label", columns: "prediction", names: &names, cells: counts, shares: &shares };
    matrix(&format!("{prefix}confusion matrix"), &shown)
}

/// Draws the share of the positive and of the negative edges in each bin of the score.
fn histogram(prefix: &str, counts: &[(&'static str, Vec<f64>)]) -> String {
    let series = |(color, (kind, counts)): (usize, &(&'static str, Vec<f64>))| {
        let sum = counts.iter().sum::<f64>().max(1.0);
        let width = 1.0 / counts.len().max(1) as f64;
        let points = counts.iter().enumerate().map(|(bin, count)| ((bin as f64 + 0.5) * width, count / sum));
        Series { name: (*kind).to_owned(), color, points: points.collect() }
    };
    let series: Vec<Series> = counts.iter().enumerate().map(series).collect();
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
        let parts: Vec<&Map<String, Value>> = run
            .partition
            .get("parts")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .collect();
        if parts.is_empty() {
            return String::new();
        }
        let percent =
            |field: &str| number_of(&run.partition, field).map_or_else(String::new, |share| shown(share * 100.0));
        let imbalance = |field: &str| {
            let counts: Vec<f64> = parts.iter().filter_map(|part| number_of(part, field)).collect();
            let sum: f64 = counts.iter().sum();
            if sum == 0.0 {
                String::new()
            } else {
                shown(counts.iter().copied().fold(0.0, f64::max) * counts.len() as f64 / sum)
            }
        };
        match name {
            "method" => run.partition.get("method").map_or_else(String::new, text_of),
            "parts" => parts.len().to_string(),
            "cut edges, %" => percent("cut_fraction"),
            "remote neighbors, %" => percent("remote_neighbor_fraction"),
            "largest part over the mean, edges" => imbalance("edges"),
            "largest part over the mean, training nodes" => imbalance("train_nodes"),
            _ => imbalance("nodes"),
        }
    })
}

fn slowest_steps(runs: &[Run]) -> String {
    let head = ["run", "epoch", "step", "seconds", "waiting for the batch, s"].map(String::from).to_vec();
    let mut steps: Vec<(f64, Vec<String>)> = Vec::new();
    for run in runs {
        for (epoch, fields) in run.epochs.iter().enumerate() {
            let of_epoch = fields.get("slowest_steps").and_then(Value::as_array);
            for step in of_epoch.into_iter().flatten().filter_map(Value::as_object) {
                let number = |field: &str| number_of(step, field).unwrap_or(0.0);
                let seconds = number("seconds");
                let waited = shown(number("sample_wait_seconds"));
                let cells =
                    [run.name.clone(), (epoch + 1).to_string(), number("step").to_string(), shown(seconds), waited];
                steps.push((seconds, cells.to_vec()));
            }
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(steps.into_iter().take(10).map(|(_, cells)| cells)).collect();
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
                let number = |field: &str| number_of(peer, field).unwrap_or(0.0);
                let megabytes = |field: &str| shown(number(field) / 1e6);
                let first = [run.name.clone(), own.clone(), number("peer").to_string(), number("requests").to_string()];
                let rest = [megabytes("sent_bytes"), megabytes("received_bytes"), shown(number("wait_seconds"))];
                rows.push(first.into_iter().chain(rest).collect());
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

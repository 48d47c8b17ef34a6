//! The page about one or several runs: a report, or the page of a run that goes on.

use super::labels::{capitalized, label_of};
use super::metric_name::MetricName;
use super::run::{Epoch, Run, SlowStep, number_of};
use crate::distinct::distinct;
use edgecut_report::{
    Axis, Bar, Column, Matrix, Page, Series, Unit, bars, columns, definitions, escaped, folded, lines, matrix, shown,
    table,
};
use serde_json::{Map, Value};

/// The phases of an epoch: the fields of the metrics.
const PHASES: [&str; 5] =
    ["sample_wait_seconds", "compute_seconds", "allreduce_seconds", "eval_seconds", "checkpoint_seconds"];
/// The number of the first phases, which each rank measures.
const PHASES_OF_RANKS: usize = 3;

/// The axes of the curves of classes.
const ROC_AXES: [&str; 2] = ["false positive rate", "true positive rate"];
const PRECISION_AXES: [&str; 2] = ["recall", "precision"];

/// The most classes whose confusion matrix is drawn.
const MOST_CLASSES: usize = 64;
/// The most ranks, and the most pairs of a rank and a peer, that are shown.
const MOST_RANKS: usize = 16;
const MOST_PEERS: usize = 64;

/// The state of a run that goes on, beyond its lines.
pub(crate) struct Now {
    /// The progress, as HTML.
    pub(crate) progress: String,
    /// The traffic of this rank, as in the line of the metrics file.
    pub(crate) traffic: Vec<Value>,
}

/// Returns the page of one or several runs. `now` is given for a run that goes on.
pub(crate) fn page(runs: &[&Run], now: Option<&Now>) -> Page {
    let names = runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    let title = match (now, runs) {
        (Some(_), [run]) if run.dataset().is_empty() => "Training".to_owned(),
        (Some(_), [run]) => format!("Training on {}", run.dataset()),
        _ => format!("Training report: {names}"),
    };
    let mut page = Page::new(&title);
    if let Some(now) = now {
        page.section("Progress", &now.progress);
    }
    page.beside(&[("Results", by_run(runs, Run::results)), ("Run", by_run(runs, Run::facts))]);
    page.charts("Curves", &curves(runs));
    page.charts("Predictions on the test data", &predictions(runs));
    page.section("Scores by class, test data", &class_scores(runs));
    page.charts("Time by phase", &phases(runs));
    page.charts("Slowest ranks, last epoch", &ranks(runs));
    page.section("Slowest steps of rank 0", &slowest_steps(runs));
    page.section("Traffic by rank and peer", &traffic(runs, now));
    page.section("Partition", &by_run(runs, Run::partition));
    page.section("Configuration", &folded("All flags", &by_run(runs, |run| run.flags.clone())));
    page
}

/// Shows pairs of a name and a value: as a list for one run, as a table with a column per run for several.
fn by_run(runs: &[&Run], pairs_of: impl Fn(&Run) -> Vec<(String, String)>) -> String {
    if let [run] = runs {
        return definitions(&pairs_of(run));
    }
    let of_runs: Vec<Vec<(String, String)>> = runs.iter().map(|run| pairs_of(run)).collect();
    let names = distinct(of_runs.iter().flatten().map(|(name, _)| name));
    let mut rows = vec![std::iter::once(String::new()).chain(runs.iter().map(|run| run.name.clone())).collect()];
    for name in names {
        let mut row = vec![name.clone()];
        for pairs in &of_runs {
            let value = pairs.iter().find(|(other, _)| other == name);
            row.push(value.map_or_else(String::new, |(_, value)| value.clone()));
        }
        rows.push(row);
    }
    table(&rows)
}

/// Returns a title that names the run if there are several.
fn title_of(runs: &[&Run], run: &Run, title: &str) -> String {
    if runs.len() > 1 { format!("{}: {title}", run.name) } else { capitalized(title) }
}

/// Returns a row of a table, without the name of the run if there is only one.
fn row_of(runs: &[&Run], name: &str, cells: Vec<String>) -> Vec<String> {
    let name = if runs.len() > 1 { Some(name.to_owned()) } else { None };
    name.into_iter().chain(cells).collect()
}

/// Returns the head of a table, without the column of the run if there is only one.
fn head_of(runs: &[&Run], cells: &[&str]) -> Vec<String> {
    row_of(runs, "run", cells.iter().map(|cell| (*cell).to_owned()).collect())
}

fn curves(runs: &[&Run]) -> Vec<String> {
    let mut found = vec![curve(runs, "Training loss", Unit::Number, None, |run| run.points("loss"))];
    for name in distinct(runs.iter().flat_map(|run| run.metrics())) {
        let metric = MetricName::of(name);
        let title = format!("Validation {}", metric.label());
        found.push(curve(runs, &title, metric.unit(), Some(name), |run| run.points_of_metric(name)));
    }
    found.push(curve(runs, "Training accuracy", Unit::Share, None, |run| run.points("train_acc")));
    found
}

/// Draws a line per run. The best epoch is marked in the curve of the metric that selects it.
fn curve(
    runs: &[&Run],
    title: &str,
    unit: Unit,
    metric: Option<&str>,
    points: impl Fn(&Run) -> Vec<(f64, f64)>,
) -> String {
    let mut series = Vec::new();
    for (color, run) in runs.iter().enumerate() {
        let points = points(run);
        if !points.is_empty() {
            let best = run.best_epoch().filter(|_| metric == Some(run.metric())).map(|epoch| epoch as f64);
            series.push(Series { name: run.name.clone(), color, points, best });
        }
    }
    lines(title, Axis { name: "epoch", unit: Unit::Number }, Axis { name: "", unit }, &series)
}

/// Draws a column per epoch for each run.
fn phases(runs: &[&Run]) -> Vec<String> {
    let mut found = Vec::new();
    for run in runs {
        let mut used = PHASES.to_vec();
        // Only some runs validate and write checkpoints.
        used.retain(|field| run.epochs.iter().any(|epoch| number(&epoch.fields, field) > 0.0));
        let names: Vec<String> = used.iter().map(|field| label_of(field)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut epochs = Vec::new();
        for Epoch { number: epoch, fields } in &run.epochs {
            let pieces = used.iter().map(|field| number(fields, field)).collect();
            epochs.push(Column { number: *epoch, pieces });
        }
        let title = title_of(runs, run, "slowest rank of each phase");
        found.push(columns(&title, "epoch", Unit::Seconds, &names, &epochs));
    }
    found
}

/// Returns a number of an object; 0 if it has none.
fn number(fields: &Map<String, Value>, field: &str) -> f64 {
    number_of(fields, field).unwrap_or(0.0)
}

/// Draws bars for the ranks that computed and waited for batches for the longest time, the slowest first. Other ranks
/// waited for them in the all-reduce.
fn ranks(runs: &[&Run]) -> Vec<String> {
    let names: Vec<String> = PHASES[..PHASES_OF_RANKS].iter().map(|field| label_of(field)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for run in runs {
        let mut ranks: Vec<(usize, &Map<String, Value>)> = run.ranks.iter().enumerate().collect();
        ranks.sort_by(|a, b| own_time(b.1).total_cmp(&own_time(a.1)));
        ranks.truncate(MOST_RANKS);
        found.push(bars(
            &title_of(runs, run, "time"),
            Unit::Seconds,
            &names,
            &bars_of(&ranks, &PHASES[..PHASES_OF_RANKS]),
        ));
        for field in ["memory_bytes", "remote_bytes"] {
            let label = label_of(field);
            found.push(bars(&title_of(runs, run, &label), Unit::Bytes, &[&label], &bars_of(&ranks, &[field])));
        }
    }
    found
}

/// Returns the time that a rank waited for batches and computed.
fn own_time(fields: &Map<String, Value>) -> f64 {
    PHASES[..2].iter().map(|field| number(fields, field)).sum()
}

/// Returns a bar for each rank with pieces of the sizes of some fields.
fn bars_of(ranks: &[(usize, &Map<String, Value>)], fields: &[&str]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (rank, of_rank) in ranks {
        let pieces = fields.iter().map(|field| number(of_rank, field)).collect();
        bars.push(Bar { name: format!("rank {rank}"), pieces });
    }
    bars
}

/// Draws the confusion matrix or a histogram, and the curves of the classes, for each run.
fn predictions(runs: &[&Run]) -> Vec<String> {
    let mut found = Vec::new();
    for run in runs {
        found.push(confusion(&title_of(runs, run, "confusion matrix"), run));
        found.push(histogram(&title_of(runs, run, "edges by score"), &run.histogram));
        found.push(class_curves(&title_of(runs, run, "ROC curve"), run, ["false_positive_rate", "recall"], ROC_AXES));
        found.push(class_curves(
            &title_of(runs, run, "precision-recall curve"),
            run,
            ["recall", "precision"],
            PRECISION_AXES,
        ));
    }
    found
}

/// Draws a line per class, by two fields of its points. `names` are the names of the axes.
fn class_curves(title: &str, run: &Run, [x, y]: [&str; 2], names: [&str; 2]) -> String {
    let mut series = Vec::new();
    let mut title = title.to_owned();
    if let ([only], true) = (&run.curves[..], run.has_class_names()) {
        // A line alone has no name in the chart.
        title += &format!(" of {}", run.class_name(number(only, "class") as usize));
    }
    for (color, fields) in run.curves.iter().enumerate() {
        let class = number(fields, "class") as usize;
        let mut points = Vec::new();
        for point in fields.get("points").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
            points.push((number(point, x), number(point, y)));
        }
        if x == "false_positive_rate" {
            points.insert(0, (0.0, 0.0));
        }
        series.push(Series { name: run.curve_name(class), color, points, best: None });
    }
    let [x, y] = names.map(|name| Axis { name, unit: Unit::Number });
    lines(&title, x, y, &series)
}

/// Returns a table of the classes of each run.
fn class_scores(runs: &[&Run]) -> String {
    let mut rows = vec![head_of(runs, &["class", "seeds", "predicted", "precision", "recall", "F1"])];
    for run in runs {
        for (class, fields) in run.class_scores.iter().enumerate() {
            let mut cells = vec![run.class_name(class)];
            for field in ["labelled", "predicted"] {
                cells.push(shown(number(fields, field)));
            }
            for field in ["precision", "recall", "f1"] {
                let share = number_of(fields, field);
                cells.push(share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share)));
            }
            rows.push(row_of(runs, &run.name, cells));
        }
    }
    table(&rows)
}

/// Draws the predictions by label. The color of a cell is its share of the seeds of its label. Large matrices become a
/// list of the most frequent confusions.
fn confusion(title: &str, run: &Run) -> String {
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
        let mut rows = vec![["label", "prediction", "seeds", "share of label"].map(String::from).to_vec()];
        for &(label, class, count) in wrong.iter().take(20) {
            let share = Unit::Share.format(shares[label][class]);
            rows.push(vec![names[label].clone(), names[class].clone(), shown(count), share]);
        }
        let title = format!("{title}, most frequent confusions");
        return format!("<figure><figcaption>{}</figcaption>{}</figure>", escaped(&title), table(&rows));
    }
    let shown = Matrix { rows: "label", columns: "prediction", names: &names, cells: counts, shares: &shares };
    matrix(title, &shown)
}

/// Draws the share of the positive and of the negative edges in each bin of the score.
fn histogram(title: &str, counts: &[(&'static str, Vec<f64>)]) -> String {
    let mut series = Vec::new();
    for (color, (kind, counts)) in counts.iter().enumerate() {
        let sum = counts.iter().sum::<f64>().max(1.0);
        let width = 1.0 / counts.len().max(1) as f64;
        let points = counts.iter().enumerate().map(|(bin, count)| ((bin as f64 + 0.5) * width, count / sum));
        series.push(Series { name: (*kind).to_owned(), color, points: points.collect(), best: None });
    }
    let score = Axis { name: "score (logistic function)", unit: Unit::Number };
    lines(title, score, Axis { name: "share of edges", unit: Unit::Share }, &series)
}

fn slowest_steps(runs: &[&Run]) -> String {
    let mut steps: Vec<(&Run, &SlowStep)> = Vec::new();
    for run in runs {
        steps.extend(run.slowest_steps.iter().map(|step| (*run, step)));
    }
    steps.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    let mut rows = vec![head_of(runs, &["epoch", "step", "time", "waiting for the batch"])];
    for (run, SlowStep { epoch, step, seconds, waited }) in steps.into_iter().take(10) {
        let times = [*seconds, *waited].map(|time| Unit::Seconds.format(time));
        let numbers = [*epoch, *step].map(|number| number.to_string());
        rows.push(row_of(runs, &run.name, numbers.into_iter().chain(times).collect()));
    }
    table(&rows)
}

/// Returns a table of the pairs of a rank and a peer, the ones with most received bytes if there are many.
fn traffic(runs: &[&Run], now: Option<&Now>) -> String {
    let mut found = Vec::new();
    for run in runs {
        // A run that goes on has no line yet.
        let ranks = now.filter(|_| run.traffic.is_empty()).map_or(&run.traffic, |now| &now.traffic);
        for rank in ranks.iter().filter_map(Value::as_object) {
            let own = number(rank, "rank");
            let peers = rank.get("peers").and_then(Value::as_array);
            for peer in peers.into_iter().flatten().filter_map(Value::as_object) {
                let bytes = ["sent_bytes", "received_bytes"].map(|field| number(peer, field));
                let [own, other, requests] = [own, number(peer, "peer"), number(peer, "requests")].map(shown);
                let [sent, received] = bytes.map(|bytes| Unit::Bytes.format(bytes));
                let waiting = Unit::Seconds.format(number(peer, "wait_seconds"));
                let cells = vec![own, other, requests, sent, received, waiting];
                found.push((bytes[1], row_of(runs, &run.name, cells)));
            }
        }
    }
    if found.len() > MOST_PEERS {
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(MOST_PEERS);
    }
    let mut rows = vec![head_of(runs, &["rank", "peer", "requests", "sent", "received", "waiting"])];
    rows.extend(found.into_iter().map(|(_, row)| row));
    table(&rows)
}

//! The page of a report. It needs no other file, and has no scripts.

use super::chart::{Bar, Series, bars, lines, shown};
use super::run::{Run, number_of};
use serde_json::{Map, Value};

/// Colors of up to eight runs, which are distinct for color-blind readers too (Okabe and Ito 2008).
const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --soft: #6b6b6b; --grid: #dddddd; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --back: #16181c; --soft: #a0a0a0; --grid: #3a3d43; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto; max-width: 1400px; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 0.5rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); } svg .y { text-anchor: end; } svg .x { text-anchor: middle; }
.grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; stroke: var(--c); } .dot, .bar { fill: var(--c); }
.legend { margin: 0.2rem 0; color: var(--soft); } .legend span::before { content: ''; display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 0.6em; background: var(--c); }
.c0 { --c: #0072b2; } .c1 { --c: #d55e00; } .c2 { --c: #009e73; } .c3 { --c: #cc79a7; } .c4 { --c: #e69f00; } .c5 { --c: #56b4e9; } .c6 { --c: #999933; } .c7 { --c: #882255; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } th, td { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
@media (max-width: 600px) { svg text { font-size: 19px; } svg .dot { r: 5px; } .line { stroke-width: 3; } }
";

/// The phases of an epoch: the field of the metrics, and its name.
const PHASES: [(&str, &str); 4] = [
    ("sample_wait_seconds", "waiting for batches"),
    ("compute_seconds", "computing"),
    ("allreduce_seconds", "all-reduce"),
    ("eval_seconds", "validation"),
];

/// Replaces the characters that HTML gives a meaning.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the page of one or several runs.
pub(super) fn html(runs: &[Run]) -> String {
    let title = runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    let title = escaped(&title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>Training report: {title}</h1>\n"
    );
    page += &section("Results", &results(runs));
    page += &charts("Curves", &curves(runs));
    page += &charts("Time by phase", &phases(runs));
    page += &charts("Time and memory by rank, last epoch", &ranks(runs));
    page += &section("Slowest steps", &slowest_steps(runs));
    page += &section("Traffic by rank and peer", &traffic(runs));
    page += &section("Configuration", &configuration(runs));
    page + "</body></html>\n"
}

/// Returns a section, or nothing without content.
fn section(title: &str, content: &str) -> String {
    if content.is_empty() { String::new() } else { format!("<h2>{title}</h2>\n{content}\n") }
}

fn charts(title: &str, charts: &[String]) -> String {
    let charts = charts.concat();
    if charts.is_empty() { String::new() } else { section(title, &format!("<div class=\"charts\">{charts}</div>")) }
}

/// Formats a table. The first row is its head.
fn table(rows: &[Vec<String>]) -> String {
    let row = |cells: &Vec<String>, tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let Some((head, body)) = rows.split_first().filter(|(_, body)| !body.is_empty()) else { return String::new() };
    let body: String = body.iter().map(|cells| row(cells, "td")).collect();
    format!("<div class=\"scroll\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>", row(head, "th"))
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
        lines(title, &series.filter(|series| !series.points.is_empty()).collect::<Vec<_>>())
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
    let names: Vec<&str> = PHASES.iter().map(|(_, name)| *name).collect();
    let of_run = |run: &Run| {
        let first = run.epochs.len().saturating_sub(MOST);
        let bar = |(number, fields): (usize, &Map<String, Value>)| Bar {
            name: format!("epoch {}", number + 1),
            pieces: PHASES.iter().map(|(field, _)| number_of(fields, field).unwrap_or(0.0)).collect(),
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

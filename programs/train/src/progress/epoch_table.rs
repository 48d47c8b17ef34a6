//! The epochs of a run: a line for each, and a table at the end.

use crate::distinct::distinct;
use crate::progress::named_values::NamedValues;
use crate::progress::of_fold;
use crate::progress::reporter::{EpochText, number};
use crate::progress::text_table::{DEFAULT_COLUMNS, fitting, terminal_columns, text_table};
use crate::run_page::{MetricName, percent};
use edgecut_graph::shown_bytes;
use edgecut_trainer::{EpochCost, EpochReport, HopCost, resident_bytes};
use serde_json::Value;

/// The most epochs in the table.
const MOST_ROWS: usize = 10;

/// Returns the line of an epoch, which fits the terminal, and 100 columns. The metrics file has all numbers.
pub(super) fn epoch_line<S>(text: &impl EpochText<S>, report: &EpochReport<S>, num_epochs: u64) -> String {
    let EpochReport { epoch, fold, cost, .. } = report;
    let fold = of_fold(*fold);
    let accuracy = report.train_acc.map(|accuracy| format!(" {}", percent(Some(accuracy)))).unwrap_or_default();
    let mut texts = vec![format!("{fold}epoch {epoch}/{num_epochs}: loss {}", number(report.loss))];
    texts.push(format!("train{accuracy} in {:.2} s", cost.seconds));
    if report.valid.is_some() {
        let mut scores = text.scores(report).into_iter();
        let first = scores.next().unwrap_or_else(|| "-".to_owned());
        texts.push(format!("{} {first} in {:.2} s", text.judge(), cost.eval_seconds));
        texts.extend(scores);
    }
    texts.push(format!("{:.0} % waiting", 100.0 * cost.sample_wait_seconds / cost.seconds.max(1e-9)));
    if cost.remote_bytes > 0 {
        texts.push(format!("{} received", shown_bytes(cost.remote_bytes)));
    }
    fitting(&texts, terminal_columns().min(DEFAULT_COLUMNS))
}

/// Formats the metrics on the validation data. Accuracy needs no name if it comes first.
pub(crate) fn scores_of(metrics: &NamedValues) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, (metric, value)) in metrics.iter().enumerate() {
        let value = metric.shown(*value);
        texts.push(if at == 0 && metric.is_accuracy() { value } else { format!("{metric} {value}") });
    }
    texts
}

/// Formats the times and the traffic of an epoch, and the memory of this process.
pub(super) fn details(cost: &EpochCost) -> String {
    let mut texts = vec![
        format!("wait {:.2} s", cost.sample_wait_seconds),
        format!("compute {:.2} s", cost.compute_seconds),
        format!("all-reduce {:.2} s", cost.allreduce_seconds),
    ];
    for HopCost { hop, seconds, .. } in &cost.sampling {
        texts.push(format!("hop {hop} {seconds:.2} s"));
    }
    texts.push(format!("{} remote nodes", cost.remote_nodes));
    if cost.cached_nodes > 0 {
        texts.push(format!("{} cached nodes ({})", cost.cached_nodes, shown_bytes(cost.cached_bytes)));
    }
    texts.extend(resident_bytes().map(|bytes| format!("{} memory", shown_bytes(bytes))));
    format!("  {}", texts.join(", "))
}

/// The numbers of an epoch in the table.
pub(super) struct EpochRow {
    pub(super) epoch: u64,
    pub(super) loss: Option<f64>,
    pub(super) train_acc: Option<f64>,
    pub(super) metrics: NamedValues,
    /// The seconds of training, without validation.
    pub(super) seconds: f64,
    pub(super) eval_seconds: f64,
}

impl EpochRow {
    /// Reads the line of an epoch in a metrics file; `None` for other lines.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok().filter(|line: &Value| line["event"] == "epoch")?;
        let judge = line["metric"].as_str()?;
        let mut metrics = vec![(MetricName::of(judge), line["valid_metrics"][judge].as_f64())];
        for (name, value) in line["valid_metrics"].as_object()?.iter().filter(|(name, _)| *name != judge) {
            metrics.push((MetricName::of(name), value.as_f64()));
        }
        Some(Self {
            epoch: line["epoch"].as_u64()?,
            loss: line["loss"].as_f64(),
            train_acc: line["train_acc"].as_f64(),
            metrics: metrics.into(),
            seconds: line["seconds"].as_f64()?,
            eval_seconds: line["eval_seconds"].as_f64().unwrap_or(0.0),
        })
    }
}

/// Returns a table of epochs: the first, the last, the best and some between them. `None` for a single epoch.
pub(super) fn epoch_table(rows: &[EpochRow], best_epoch: u64) -> Option<String> {
    if rows.len() < 2 {
        return None;
    }
    let has_accuracy = rows.iter().any(|row| row.train_acc.is_some());
    // Epochs without validation have only the metric that selects the best one.
    let metrics = distinct(rows.iter().flat_map(|row| row.metrics.iter()).map(|(metric, _)| metric));
    let mut head = vec![String::new(), "epoch".into(), "loss".into()];
    head.extend(has_accuracy.then(|| "train accuracy".to_owned()));
    head.extend(metrics.iter().map(|metric| format!("valid {metric}")));
    head.extend(["train s", "valid s"].map(String::from));
    let mut table = vec![head];
    let last = rows.len() - 1;
    let spread = MOST_ROWS.min(rows.len()) - 1;
    let mut shown_rows: Vec<usize> = (0..=spread).map(|at| at * last / spread).collect();
    shown_rows.extend(rows.iter().position(|row| row.epoch == best_epoch));
    shown_rows.sort_unstable();
    shown_rows.dedup();
    for row in shown_rows.into_iter().map(|at| &rows[at]) {
        let mark = if row.epoch == best_epoch { "best" } else { "" };
        let mut cells = vec![mark.to_owned(), row.epoch.to_string(), number(row.loss)];
        cells.extend(has_accuracy.then(|| percent(row.train_acc)));
        for metric in &metrics {
            cells.push(metric.shown(row.metrics.get(metric)));
        }
        cells.extend([row.seconds, row.eval_seconds].map(|seconds| format!("{seconds:.2}")));
        table.push(cells);
    }
    Some(text_table(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(values: &[(&str, Option<f64>)]) -> NamedValues {
        values.iter().map(|&(name, value)| (MetricName::of(name), value)).collect::<Vec<_>>().into()
    }

    fn row(epoch: u64) -> EpochRow {
        let metrics = named(&[("accuracy", Some(0.5)), ("macro-f1", None)]);
        EpochRow {
            epoch,
            loss: Some(1.0 / epoch as f64),
            train_acc: Some(0.25),
            metrics,
            seconds: 0.5,
            eval_seconds: 0.25,
        }
    }

    #[test]
    fn the_table_marks_the_best_epoch() {
        let rows: Vec<EpochRow> = (1..=2).map(row).collect();
        let expected = "      epoch    loss  train accuracy  valid accuracy  valid macro-f1  train s  valid s\n\
                        \x20         1  1.0000         25.00 %         50.00 %               -     0.50     0.25\n\
                        best      2  0.5000         25.00 %         50.00 %               -     0.50     0.25";
        assert_eq!(epoch_table(&rows, 2).as_deref(), Some(expected));
        assert_eq!(epoch_table(&rows[..1], 1), None);
    }

    #[test]
    fn the_table_has_the_metrics_of_all_epochs() {
        let mut rows: Vec<EpochRow> = (1..=2).map(row).collect();
        rows[0].metrics = named(&[("macro-f1", None)]);
        rows[1].metrics = named(&[("macro-f1", Some(0.25)), ("accuracy", Some(0.5))]);
        let expected = "      epoch    loss  train accuracy  valid macro-f1  valid accuracy  train s  valid s\n\
                        \x20         1  1.0000         25.00 %               -               -     0.50     0.25\n\
                        best      2  0.5000         25.00 %         25.00 %         50.00 %     0.50     0.25";
        assert_eq!(epoch_table(&rows, 2).as_deref(), Some(expected));
    }

    #[test]
    fn the_values_of_targets_have_their_units() {
        let line = r#"{"event":"epoch","epoch":1,"seconds":1.0,"metric":"n:y rmse","loss":2.0,
            "valid_metrics":{"n:y rmse":58.0883,"n:a accuracy":0.5}}"#;
        let rows: Vec<EpochRow> = (0..2).map(|_| EpochRow::of_line(line).expect("an epoch")).collect();
        let table = epoch_table(&rows, 2).expect("a table");
        let first: Vec<&str> = table.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(first, ["1", "2.0000", "58.0883", "50.00", "%", "1.00", "0.00"], "{table}");
    }

    #[test]
    fn the_table_of_many_epochs_has_few_rows() {
        let rows: Vec<EpochRow> = (1..=1000).map(row).collect();
        let table = epoch_table(&rows, 700).expect("a table");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 1 + MOST_ROWS + 1);
        assert_eq!(lines.iter().filter(|line| line.starts_with("best    700 ")).count(), 1, "{table}");
        assert!(lines[1].trim_start().starts_with("1 ") && lines[11].trim_start().starts_with("1000 "), "{table}");
    }
}

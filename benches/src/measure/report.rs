//! The report of a run: prints records as they arrive, and collects them for the JSON file.

use crate::measure::machine::{Machine, commit, date};
use crate::measure::record::Record;
use anyhow::Context;
use edgecut_cli::result;
use edgecut_output::write_output;
use serde_json::{Value, json};
use std::path::Path;

const HEADINGS: [&str; 9] = ["name", "work", "median", "min", "CPU", "throughput", "limit", "ratio", "the limit is"];
/// The widths of the columns, which fit most cells. A wider cell shifts the rest of its line.
const WIDTHS: [usize; 9] = [40, 44, 9, 9, 9, 17, 17, 7, 0];
/// The first of the columns with numbers, which are aligned to the right.
const FIRST_NUMBER: usize = 2;

/// The records of this run.
pub(crate) struct Report {
    records: Vec<Value>,
    shown: bool,
    machine: Machine,
    date: String,
    commit: Option<String>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { records: Vec::new(), shown: false, machine: Machine::this(), date: date(), commit: commit() }
    }

    /// Prints a record and collects it.
    pub(crate) fn add(&mut self, record: &Record) -> anyhow::Result<()> {
        if !self.shown {
            result!("{}", line(&HEADINGS.map(String::from)))?;
            self.shown = true;
        }
        result!("{}", line(&record.cells()))?;
        let notes = record.notes();
        if !notes.is_empty() {
            result!("  {notes}")?;
        }
        let mut value = serde_json::to_value(record).context("write a record as JSON")?;
        if let Some(fields) = value.as_object_mut() {
            fields.insert("machine".into(), json!(self.machine));
            fields.insert("date".into(), json!(self.date));
            fields.insert("commit".into(), json!(self.commit));
        }
        self.records.push(value);
        Ok(())
    }

    /// Collects records that another process has printed.
    pub(crate) fn extend(&mut self, records: Vec<Value>) {
        self.records.extend(records);
    }

    /// Writes the records to a temporary file and renames it, so that a reader never sees an incomplete file.
    pub(crate) fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.records).context("write the records as JSON")?;
        write_output(path, (text + "\n").as_bytes()).with_context(|| format!("write {}", path.display()))
    }
}

fn line(cells: &[String; 9]) -> String {
    let mut text = String::new();
    for (column, (cell, &width)) in cells.iter().zip(&WIDTHS).enumerate() {
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        let numbers = (FIRST_NUMBER..WIDTHS.len() - 1).contains(&column);
        text += &if numbers { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") };
    }
    text.trim_end().to_owned()
}

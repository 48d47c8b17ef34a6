//! Shows records as they come, and keeps them for the JSON file.

use crate::machine::{Machine, commit, date};
use crate::record::Record;
use anyhow::Context;
use edgecut_output::write_output;
use serde_json::{Value, json};
use std::path::Path;

const HEADINGS: [&str; 9] = ["name", "work", "median", "min", "CPU", "throughput", "limit", "ratio", "the limit is"];
/// Wide enough for what is usually in a column; what is wider moves its line alone.
const WIDTHS: [usize; 9] = [40, 44, 9, 9, 9, 17, 17, 7, 0];
/// Columns from this one on hold numbers, which end together.
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

    /// Shows a record and keeps it.
    pub(crate) fn add(&mut self, record: &Record) -> anyhow::Result<()> {
        if !self.shown {
            println!("{}", line(&HEADINGS.map(String::from)));
            self.shown = true;
        }
        println!("{}", line(&record.cells()));
        let notes = record.notes();
        if !notes.is_empty() {
            println!("  {notes}");
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

    /// Keeps records that another process has shown.
    pub(crate) fn extend(&mut self, records: Vec<Value>) {
        self.records.extend(records);
    }

    /// Writes the records beside and renames them, so that a reader never sees half of them.
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

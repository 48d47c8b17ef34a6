//! Rows that cannot be used.

use crate::table::Batch;
use crate::{OnBadRows, TableError};
use edgecut_settings::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The reason why a row cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BadKind {
    Id,
    DuplicateId,
    DanglingEdge,
    DroppedEnd,
    RemovedId,
    Feature,
    Label,
    Time,
    Weight,
    Split,
    SplitId,
}

/// The rows of a table that were left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DroppedRows {
    /// The path of the table in the configuration.
    pub table: String,
    /// The reason in words.
    pub reason: String,
    /// The number of rows.
    pub rows: u64,
    /// The number of rows of the table, unless the rows are those of a split file.
    pub table_rows: Option<u64>,
    /// The first row: its file, number and problem.
    pub first: String,
}

/// The rows that were left out so far, by table and reason.
#[derive(Default)]
pub(crate) struct DropCounts {
    /// The number of rows and the first one.
    kinds: BTreeMap<(String, BadKind), (u64, String)>,
    /// The number of rows of each table.
    tables: BTreeMap<String, u64>,
}

/// The rows of a piece that cannot be used.
#[derive(Default)]
pub(crate) struct BadInPiece {
    /// The rows, counted from the start of the piece, ascending.
    pub(crate) rows: Vec<u64>,
    /// The number of rows and the first one, by reason.
    kinds: BTreeMap<BadKind, (u64, String)>,
}

impl BadInPiece {
    /// Adds a row of a batch that starts `offset` rows into the piece, or fails if such rows are errors.
    pub(crate) fn add(
        &mut self,
        batch: &Batch,
        offset: u64,
        bad: (usize, BadKind, String),
        policy: OnBadRows,
    ) -> Result<(), TableError> {
        let (row, kind, why) = bad;
        if policy == OnBadRows::Error {
            return Err(batch.wrong(row, why));
        }
        let position = offset + row as u64;
        // A row with several problems counts once.
        if self.rows.last() != Some(&position) {
            self.rows.push(position);
            let place = || batch.place(row);
            self.kinds.entry(kind).or_insert_with(|| (0, format!("{}: {why}", place()))).0 += 1;
        }
        Ok(())
    }
}

impl DropCounts {
    /// Adds the rows of a later piece of a table.
    pub(crate) fn add(&mut self, table: &str, bad: &BadInPiece) {
        for (&kind, (rows, first)) in &bad.kinds {
            self.add_rows(table, kind, *rows, first);
        }
    }

    /// Adds rows of one kind.
    pub(crate) fn add_rows(&mut self, table: &str, kind: BadKind, rows: u64, first: &str) {
        self.kinds.entry((table.to_owned(), kind)).or_insert_with(|| (0, first.to_owned())).0 += rows;
    }

    /// Sets the number of rows of a table.
    pub(crate) fn set_table_rows(&mut self, table: &str, num_rows: u64) {
        self.tables.insert(table.to_owned(), num_rows);
    }

    /// Returns the counts.
    pub(crate) fn into_list(self) -> Vec<DroppedRows> {
        let tables = self.tables;
        let entry = |((table, kind), (rows, first)): ((String, BadKind), (u64, String))| {
            let table_rows = tables.get(&table).copied();
            DroppedRows { reason: kind.to_string(), table, rows, table_rows, first }
        };
        self.kinds.into_iter().map(entry).collect()
    }
}

impl fmt::Display for DroppedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, reason, rows, table_rows, first } = self;
        write!(f, "dropped {} of {table} with {reason}", counted(*rows, "row", "rows"))?;
        if let Some(of) = table_rows {
            write!(f, " ({:.1} % of {of})", *rows as f64 / *of as f64 * 100.0)?;
        }
        write!(f, "; the first is {first}")
    }
}

impl fmt::Display for BadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Id => "no id",
            Self::DuplicateId => "the id of an earlier row",
            Self::DanglingEdge => "an end that does not exist",
            Self::DroppedEnd => "an end that was dropped",
            Self::RemovedId => "an id to remove that does not exist",
            Self::Feature => "a feature that is not a finite number",
            Self::Label => "a label that is not a class",
            Self::Time => "a time that is missing or cannot be read",
            Self::Weight => "a weight that is negative, too small or not a finite number",
            Self::Split => "no value for the split",
            Self::SplitId => "an entry of a split file that cannot be used",
        })
    }
}

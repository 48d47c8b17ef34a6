//! Files with the ids of a split: lines of JSON, or Parquet.

use crate::TableError;
use crate::conf::SplitFiles;
use crate::ids::Id;
use crate::table::{IdCells, MissingValues, Rows, Source, Table, id_cells, paths, scan};
use edgecut_graph::Workspace;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An entry of a split file.
pub(super) struct SplitRow {
    pub(super) path: Arc<PathBuf>,
    /// The row, counted from 1.
    pub(super) row: u64,
    /// The id of a node, or the two ids of an edge.
    pub(super) ids: Vec<OwnedId>,
}

/// An id.
pub(super) enum OwnedId {
    Number(i64),
    Text(String),
}

impl OwnedId {
    pub(super) fn as_id(&self) -> Id<'_> {
        match self {
            Self::Number(number) => Id::Number(*number),
            Self::Text(text) => Id::Text(text),
        }
    }
}

impl fmt::Display for OwnedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Reads the entries of a split, each of `width` ids.
pub(super) fn read_split(
    conf: &Path,
    at: &str,
    files: &SplitFiles,
    split: usize,
    width: usize,
) -> Result<Vec<SplitRow>, TableError> {
    let at = format!("{at}.custom_split_filenames");
    if files.files[split].is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for path in paths(conf, &at, &files.files[split])? {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match ending.as_str() {
            "json" => read_json(&path, width, &mut rows)?,
            "parquet" => read_parquet(conf, &at, &path, &files.columns, width, &mut rows)?,
            _ => return Err(TableError::file(path, "a split file is .json, with an id per line, or .parquet")),
        }
    }
    Ok(rows)
}

/// Reads an id or a list of ids per line. Texts may lack their quotes, as in GraphStorm's documentation. A line that is no text in
/// quotes and no list is an id as it is written, such as 1e3.
fn read_json(path: &Path, width: usize, rows: &mut Vec<SplitRow>) -> Result<(), TableError> {
    let text = std::fs::read_to_string(path).map_err(|error| TableError::io(path, error))?;
    let shared = Arc::new(path.to_path_buf());
    // Windows may save a text with a mark at its start.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let wrong = || TableError::Row {
            path: path.to_path_buf(),
            row: number,
            why: match width {
                1 => format!("{line:?} is not an id"),
                _ => format!("{line:?} is not a list of two ids"),
            },
        };
        let values = if line.starts_with(['"', '[', '{']) {
            match serde_json::from_str(line).map_err(|_| wrong())? {
                Value::Array(values) => values,
                value => vec![value],
            }
        } else {
            vec![Value::String(line.to_owned())]
        };
        let ids: Option<Vec<OwnedId>> = values.into_iter().map(owned_id).collect();
        let ids = ids.filter(|ids| ids.len() == width).ok_or_else(wrong)?;
        rows.push(SplitRow { path: shared.clone(), row: number, ids });
    }
    Ok(())
}

fn owned_id(value: Value) -> Option<OwnedId> {
    match value {
        Value::String(text) => Some(OwnedId::Text(text)),
        Value::Number(number) => {
            let number_id = number.as_i64().map(OwnedId::Number);
            number_id.or_else(|| number.as_u64().map(|number| OwnedId::Text(number.to_string())))
        }
        _ => None,
    }
}

fn read_parquet(
    conf: &Path,
    at: &str,
    path: &Path,
    columns: &[String],
    width: usize,
    rows: &mut Vec<SplitRow>,
) -> Result<(), TableError> {
    if columns.len() != width {
        let why =
            format!("{at}.column: {} columns are given, but {width} are needed for {}", columns.len(), path.display());
        return Err(TableError::file(conf, why));
    }
    // The path was found already, so it is absolute or relative to the working directory.
    let absolute = std::path::absolute(path).map_err(|error| TableError::io(path, error))?;
    let files = vec![glob::Pattern::escape(&absolute.to_string_lossy())];
    // A text is an id of the table or it is not, which the lookup tells.
    let source = Source::of_parquet(files);
    let table = Table::open(conf, at, &source, &Workspace::default(), &MissingValues::default())?;
    let shared = Arc::new(path.to_path_buf());
    let map = |_, mut table_rows: Rows| {
        let mut found: Vec<Vec<OwnedId>> = Vec::new();
        while let Some(batch) = table_rows.next()? {
            let mut cells = Vec::with_capacity(width);
            for (column, name) in batch.columns.iter().zip(columns) {
                cells.push(id_cells(column).map_err(|why| batch.no_ids(name, &why))?);
            }
            for row in 0..batch.num_rows {
                let ids: Option<Vec<OwnedId>> = cells.iter().map(|cells| owned(cells, row)).collect();
                found.push(ids.ok_or_else(|| batch.wrong(row, "the id is missing"))?);
            }
        }
        Ok(found)
    };
    let mut number = 0;
    scan(&table, "reading splits", columns, map, |_, found| {
        for ids in found {
            number += 1;
            rows.push(SplitRow { path: shared.clone(), row: number, ids });
        }
        Ok(())
    })
}

fn owned(cells: &IdCells, row: usize) -> Option<OwnedId> {
    Some(match cells.id(row)? {
        Id::Number(number) => OwnedId::Number(number),
        Id::Text(text) => OwnedId::Text(text.to_owned()),
    })
}

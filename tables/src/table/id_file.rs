//! Single files with columns of ids.

use super::csv::{CsvRows, header};
use super::parquet::{ParquetFile, ParquetRows};
use crate::TableError;
use arrow_array::RecordBatch;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The first bytes of a Parquet file.
const PARQUET: &[u8; 4] = b"PAR1";

/// The names that columns of ids have in files of this program.
const ID_NAMES: [&str; 6] = ["id", "node_id", "src", "dst", "src_id", "dst_id"];

/// The rows of a file with columns of ids, batch by batch.
pub(crate) struct FileRows {
    reader: Reader,
    /// True for CSV, whose empty fields are null.
    pub(crate) is_csv: bool,
    /// The number of all columns of the file.
    pub(crate) num_columns: usize,
    /// The fields of the first line of a CSV file without a header. The batches do not have them.
    pub(crate) first_row: Option<Vec<String>>,
}

enum Reader {
    Csv(Box<CsvRows>),
    /// The row groups of a file, and the number of the next one.
    Parquet {
        file: Box<ParquetFile>,
        names: Vec<String>,
        next_group: usize,
        rows: Option<Box<ParquetRows>>,
    },
}

/// Opens a file, whose first bytes tell its format. Reads all columns if there are as many as `names`, or else those with
/// these names.
///
/// # Errors
/// Fails for a file that cannot be read, and one that lacks the columns.
pub(crate) fn file_rows(path: &Path, names: &[&str]) -> Result<FileRows, TableError> {
    let mut start = Vec::new();
    let opened = File::open(path).map_err(|error| TableError::io(path, error))?;
    opened.take(PARQUET.len() as u64).read_to_end(&mut start).map_err(|error| TableError::io(path, error))?;
    if start == PARQUET {
        let file = ParquetFile::open(path)?;
        let found = file.names();
        let num_columns = found.len();
        let names = choose(path, &found, names)?.into_iter().map(|at| found[at].clone()).collect();
        let reader = Reader::Parquet { file: Box::new(file), names, next_group: 0, rows: None };
        return Ok(FileRows { reader, is_csv: false, num_columns, first_row: None });
    }
    let is_tsv = path.to_string_lossy().contains(".tsv");
    let separator = if is_tsv { b'\t' } else { b',' };
    let fields = header(path, separator)?;
    let positions = choose(path, &fields, names)?;
    let has_names = names.iter().all(|name| fields.iter().any(|field| field == name));
    let first_row = (!has_names).then(|| positions.iter().map(|&at| fields[at].clone()).collect());
    let rows = CsvRows::with_positions(path, separator, &fields, &positions, &Arc::default(), 0)?;
    Ok(FileRows { reader: Reader::Csv(Box::new(rows)), is_csv: true, num_columns: fields.len(), first_row })
}

/// Returns the positions of the columns with ids among all columns. Without names, the columns are in the order of `names`;
/// a name of another column of ids shows that the file is of another kind, or has its columns in another order.
fn choose(path: &Path, found: &[String], names: &[&str]) -> Result<Vec<usize>, TableError> {
    let by_name: Option<Vec<usize>> = names.iter().map(|name| found.iter().position(|other| other == name)).collect();
    let has_id_name = found.iter().any(|name| ID_NAMES.contains(&name.as_str()));
    match by_name {
        Some(positions) => Ok(positions),
        None if found.len() == names.len() && !has_id_name => Ok((0..names.len()).collect()),
        None if has_id_name => {
            let columns = if names.len() == 1 { "column" } else { "columns" };
            let why = format!(
                "its columns are {}: expected the {columns} {}. Columns of row numbers are node_id, or src_id and dst_id, and \
                 need --row-numbers",
                found.join(", "),
                names.join(" and ")
            );
            Err(TableError::file(path, why))
        }
        None => {
            let expected = match names {
                [name] => format!("one column of ids, or a column {name}"),
                _ => format!("{} columns of ids, or the columns {}", names.len(), names.join(" and ")),
            };
            Err(TableError::file(path, format!("its columns are {}: expected {expected}", found.join(", "))))
        }
    }
}

impl FileRows {
    /// Returns the next rows.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, TableError> {
        let (file, names, next_group, rows) = match &mut self.reader {
            Reader::Csv(rows) => return rows.next(),
            Reader::Parquet { file, names, next_group, rows } => (file, names, next_group, rows),
        };
        loop {
            if let Some(batch) = rows.as_mut().map(|rows| rows.next()).transpose()?.flatten() {
                return Ok(Some(batch));
            }
            if *next_group == file.group_sizes().len() {
                return Ok(None);
            }
            *rows = Some(Box::new(file.group(*next_group, names, 0)?));
            *next_group += 1;
        }
    }
}

//! Parallel scans of a table.

use super::csv::CsvRows;
use super::files::resolve;
use super::parquet::{ParquetFile, ParquetRows};
use crate::TableError;
use crate::conf::{Format, Source};
use arrow_array::ArrayRef;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// The number of rows that are decoded together.
const BATCH_ROWS: usize = 8192;
/// The number of pieces per thread whose results are held at a time.
const PIECES_PER_THREAD: usize = 2;

/// The files of a table, cut into pieces that are read in parallel: row groups of Parquet files, whole CSV files.
pub(crate) struct Table {
    /// The path of the table in the configuration, for errors.
    pub(crate) at: String,
    files: Vec<OpenFile>,
    pieces: Vec<Piece>,
}

enum OpenFile {
    Csv { path: PathBuf, separator: u8 },
    Parquet { path: PathBuf, file: ParquetFile },
}

struct Piece {
    file: usize,
    /// The row group of a Parquet file.
    group: usize,
    /// The row of the file that the piece starts with.
    first_row: u64,
}

/// The rows of a piece, batch by batch.
pub(crate) struct Rows<'a> {
    path: &'a Path,
    reader: Reader,
    next_row: u64,
}

enum Reader {
    Csv(Box<CsvRows>),
    Parquet(Box<ParquetRows>),
}

/// Some rows of a table.
pub(crate) struct Batch<'a> {
    path: &'a Path,
    /// The row of the file that the batch starts with.
    first_row: u64,
    /// The columns, in the order of the request.
    pub(crate) columns: Vec<ArrayRef>,
    /// The number of rows.
    pub(crate) num_rows: usize,
}

impl Table {
    /// Finds the files of a table and reads the descriptions of Parquet files.
    pub(crate) fn open(conf: &Path, at: &str, source: &Source) -> Result<Self, TableError> {
        let mut files = Vec::new();
        let mut pieces = Vec::new();
        for (path, format) in resolve(conf, at, source)? {
            match format {
                Format::Csv { separator } => {
                    pieces.push(Piece { file: files.len(), group: 0, first_row: 0 });
                    files.push(OpenFile::Csv { path, separator });
                }
                Format::Parquet => {
                    let file = ParquetFile::open(&path)?;
                    let mut first_row = 0;
                    for (group, rows) in file.group_rows().into_iter().enumerate() {
                        pieces.push(Piece { file: files.len(), group, first_row });
                        first_row += rows;
                    }
                    files.push(OpenFile::Parquet { path, file });
                }
            }
        }
        Ok(Self { at: at.to_owned(), files, pieces })
    }

    /// Returns the first file, for errors of the whole table.
    pub(crate) fn first_path(&self) -> &Path {
        self.files[0].path()
    }

    /// Returns the file of a piece, for errors.
    pub(crate) fn path_of(&self, piece: usize) -> &Path {
        self.files[self.pieces[piece].file].path()
    }

    fn rows(&self, piece: &Piece, columns: &[String]) -> Result<Rows<'_>, TableError> {
        let file = &self.files[piece.file];
        let reader = match file {
            OpenFile::Csv { path, separator } => {
                Reader::Csv(Box::new(CsvRows::open(path, *separator, columns, BATCH_ROWS)?))
            }
            OpenFile::Parquet { file, .. } => {
                Reader::Parquet(Box::new(file.group(piece.group, columns, BATCH_ROWS)?))
            }
        };
        Ok(Rows { path: file.path(), reader, next_row: piece.first_row })
    }
}

impl OpenFile {
    fn path(&self) -> &Path {
        match self {
            Self::Csv { path, .. } | Self::Parquet { path, .. } => path,
        }
    }
}

impl<'a> Rows<'a> {
    /// Returns the next rows.
    pub(crate) fn next(&mut self) -> Result<Option<Batch<'a>>, TableError> {
        let batch = match &mut self.reader {
            Reader::Csv(rows) => rows.next()?,
            Reader::Parquet(rows) => rows.next()?,
        };
        let Some(batch) = batch else { return Ok(None) };
        let first_row = self.next_row;
        let num_rows = batch.num_rows();
        self.next_row += num_rows as u64;
        Ok(Some(Batch { path: self.path, first_row, columns: batch.columns().to_vec(), num_rows }))
    }
}

impl Batch<'_> {
    /// Creates the error of a row, counted from the start of the batch.
    pub(crate) fn wrong(&self, row: usize, why: impl Into<String>) -> TableError {
        TableError::Row { path: self.path.to_path_buf(), row: self.first_row + row as u64 + 1, why: why.into() }
    }

    /// Returns the file and the number of a row, for reports.
    pub(crate) fn place(&self, row: usize) -> String {
        format!("{}: row {}", self.path.display(), self.first_row + row as u64 + 1)
    }

    /// Creates the error of a row that is not dropped.
    pub(crate) fn wrong_value(&self, row: usize, why: impl AsRef<str>) -> TableError {
        TableError::file(self.path, format!("row {}: {}", self.first_row + row as u64 + 1, why.as_ref()))
    }

    /// Creates the error of a column.
    pub(crate) fn wrong_column(&self, column: &str, why: impl AsRef<str>) -> TableError {
        TableError::file(self.path, format!("column {column}: {}", why.as_ref()))
    }
}

/// Reads `columns` of all pieces of a table: `map` in parallel, and `fold` in order, with the number of the piece. Few
/// results are held at a time.
///
/// # Errors
/// Returns the error of the first piece that fails, in the order of the pieces.
pub(crate) fn scan<'t, T: Send>(
    table: &'t Table,
    columns: &[String],
    map: impl Fn(usize, Rows<'t>) -> Result<T, TableError> + Sync,
    mut fold: impl FnMut(usize, T) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let width = rayon::current_num_threads() * PIECES_PER_THREAD;
    for (wave, pieces) in table.pieces.chunks(width).enumerate() {
        let first = wave * width;
        let results: Vec<Result<T, TableError>> =
            pieces.par_iter().enumerate().map(|(at, piece)| map(first + at, table.rows(piece, columns)?)).collect();
        for (at, result) in results.into_iter().enumerate() {
            fold(first + at, result?)?;
        }
    }
    Ok(())
}

/// Creates the error of a column that a file lacks.
pub(super) fn missing_column(path: &Path, column: &str, names: &[String]) -> TableError {
    TableError::file(path, format!("it has no column {column}. Its columns are {}", names.join(", ")))
}

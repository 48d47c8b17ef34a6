//! Parallel scans of a table.
//!
//! Invariant: memory does not grow with the size of a file. A piece hands its results over in batches of about a
//! megabyte, and few of them wait.

use super::cells::NoIds;
use super::csv::{BUFFER_BYTES, CsvRows, header};
use super::files::{FolderColumn, FoundFile, misordered, natural_positions, resolve};
use super::missing::{MissingInPiece, MissingValues, NaValues};
use super::parquet::{ParquetFile, ParquetRows};
use super::ranges::FeatureRange;
use super::{Format, Source};
use crate::TableError;
use arrow_array::{ArrayRef, StringArray};
use edgecut_graph::Workspace;
use edgecut_settings::suggestion;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most rows that are decoded together, and the fewest, if they are long.
const BATCH_ROWS: [usize; 2] = [8192, 16];
/// The bytes of rows that are decoded together, if rows are long.
const BATCH_BYTES: usize = 1 << 20;
/// The number of batches that a sample has at most.
const SAMPLE_BATCHES: usize = 16;
/// The number of pieces per thread whose results are held at a time.
const PIECES_PER_THREAD: usize = 2;
/// The number of results of a piece that are held at a time.
const RESULTS_PER_PIECE: usize = 4;

/// The files of a table, cut into pieces that are read in parallel: row groups of Parquet files, whole CSV files.
pub(crate) struct Table {
    /// The path of the table in the configuration, for errors.
    pub(crate) at: String,
    files: Vec<OpenFile>,
    pieces: Vec<Piece>,
    na_values: NaValues,
    na_of_columns: BTreeMap<String, NaValues>,
    missing: MissingValues,
    space: Workspace,
}

struct OpenFile {
    path: PathBuf,
    /// The columns that the names of its folders have.
    of_folders: Vec<FolderColumn>,
    content: Content,
}

enum Content {
    Csv { separator: u8 },
    Parquet(ParquetFile),
}

struct Piece {
    file: usize,
    /// The row group of a Parquet file.
    group: usize,
    /// The row of the file that the piece starts with.
    first_row: u64,
    /// The bytes of the piece in its file.
    num_bytes: u64,
    /// The number of rows of a row group.
    num_rows: Option<u64>,
}

/// The rows of a piece, batch by batch.
pub(crate) struct Rows<'a> {
    table: &'a Table,
    piece: usize,
    path: &'a Path,
    columns: Vec<String>,
    /// For each column, the one in the name of a folder that takes its place.
    of_folders: Vec<Option<FolderColumn>>,
    reader: Reader,
    next_row: u64,
    /// The missing values of each column so far.
    missing: Vec<MissingInPiece>,
    /// True if the rows are no longer needed.
    stopped: Arc<AtomicBool>,
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
    /// Records the number of categories in all rows that the transform of a feature does not know.
    pub(crate) fn record_unknown(&self, feature: &str, num_unknown: u64) {
        self.missing.record_unknown(&self.at, feature, num_unknown);
    }

    /// Records the number of classes in a column with `num_rows` rows.
    pub(crate) fn record_classes(&self, column: &str, num_classes: usize, num_rows: u64) {
        self.missing.record_classes(&self.at, column, num_classes, num_rows);
    }

    /// Records the labels of a column of numbers, if they have no other classes than 0 and 1, or no class 0.
    pub(crate) fn record_whole_labels(&self, column: &str, labels: &[i64]) {
        self.missing.record_whole_labels(&self.at, column, labels);
    }

    /// Records the range of the numbers of a feature.
    pub(crate) fn record_range(&self, feature: &str, range: FeatureRange) {
        self.missing.record_range(&self.at, feature, range);
    }

    /// Records the classes or categories of a column that may stand for missing values or differ only in how they are written.
    pub(crate) fn record_suspects<'a>(&self, column: &str, texts: impl Iterator<Item = &'a str>) {
        self.missing.record_suspects(&self.at, column, texts);
    }

    /// Finds the files of a table and reads the descriptions of Parquet files. The observer of `space` is told about scans,
    /// and `missing` about missing values.
    pub(crate) fn open(
        conf: &Path,
        at: &str,
        source: &Source,
        space: &Workspace,
        missing: &MissingValues,
    ) -> Result<Self, TableError> {
        let mut files = Vec::new();
        let mut pieces = Vec::new();
        for (FoundFile { path, of_folders }, format) in resolve(conf, at, source)? {
            match format {
                Format::Csv { separator } => {
                    let num_bytes = path.metadata().map_err(|error| TableError::io(&path, error))?.len();
                    pieces.push(Piece { file: files.len(), group: 0, first_row: 0, num_bytes, num_rows: None });
                    files.push(OpenFile { path, of_folders, content: Content::Csv { separator } });
                }
                Format::Parquet => {
                    let file = ParquetFile::open(&path)?;
                    let mut first_row = 0;
                    for (group, (rows, num_bytes)) in file.group_sizes().into_iter().enumerate() {
                        pieces.push(Piece { file: files.len(), group, first_row, num_bytes, num_rows: Some(rows) });
                        first_row += rows;
                    }
                    files.push(OpenFile { path, of_folders, content: Content::Parquet(file) });
                }
            }
        }
        Ok(Self {
            at: at.to_owned(),
            files,
            pieces,
            na_values: source.na_values.clone(),
            na_of_columns: source.na_of_columns.clone(),
            missing: missing.clone(),
            space: space.clone(),
        })
    }

    /// Returns the first file, for errors of the whole table.
    pub(crate) fn first_path(&self) -> &Path {
        &self.files[0].path
    }

    /// Returns the file of a piece, for errors.
    pub(crate) fn path_of(&self, piece: usize) -> &Path {
        &self.files[self.pieces[piece].file].path
    }

    /// Returns the bytes of all files.
    pub(crate) fn num_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.num_bytes).sum()
    }

    /// Visits the first rows of the table, and returns the number of all its rows: that of Parquet files, and an estimate that
    /// is rather too large for CSV files.
    pub(crate) fn sample(
        &self,
        columns: &[String],
        mut visit: impl FnMut(&Batch) -> Result<(), TableError>,
    ) -> Result<u64, TableError> {
        let known: u64 = self.pieces.iter().filter_map(|piece| piece.num_rows).sum();
        let (of_csv, of_parquet): (Vec<usize>, Vec<usize>) =
            (0..self.pieces.len()).partition(|&at| self.pieces[at].num_rows.is_none());
        let in_csv: u64 = of_csv.iter().map(|&at| self.pieces[at].num_bytes).sum();
        let mut num_batches = 0;
        let mut rows_of_csv = 0;
        let mut bytes_of_csv = 0;
        for at in of_csv.into_iter().chain(of_parquet) {
            let num_read = Arc::default();
            let mut rows = self.rows(at, columns, &num_read, 0)?;
            let mut is_whole = true;
            while let Some(batch) = rows.next()? {
                num_batches += 1;
                visit(&batch)?;
                rows_of_csv += if self.pieces[at].num_rows.is_none() { batch.num_rows as u64 } else { 0 };
                if num_batches == SAMPLE_BATCHES {
                    is_whole = false;
                    break;
                }
            }
            let read = num_read.load(Ordering::Relaxed);
            // Some of the bytes that were read are in buffers, but most of a compressed file may be in them.
            let used = if is_whole { read } else { read.saturating_sub(BUFFER_BYTES as u64).max(read / 2) };
            bytes_of_csv += used;
            if !is_whole {
                break;
            }
        }
        let of_all = (in_csv as f64 / bytes_of_csv.max(1) as f64).max(1.0);
        Ok(known + (rows_of_csv as f64 * of_all).ceil() as u64)
    }

    /// Visits the rows of the table in order, until `visit` returns true.
    pub(crate) fn find(
        &self,
        columns: &[String],
        mut visit: impl FnMut(&Batch) -> Result<bool, TableError>,
    ) -> Result<(), TableError> {
        for piece in 0..self.pieces.len() {
            let mut rows = self.rows(piece, columns, &Arc::default(), 0)?;
            while let Some(batch) = rows.next()? {
                if visit(&batch)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Opens a piece. The bytes of CSV files are counted in `num_read` as they are read. Batches have fewer rows if a row takes
    /// many `row_bytes`.
    fn rows(
        &self,
        at: usize,
        columns: &[String],
        num_read: &Arc<AtomicU64>,
        row_bytes: usize,
    ) -> Result<Rows<'_>, TableError> {
        let piece = &self.pieces[at];
        let file = &self.files[piece.file];
        let of_folders = file.columns_of_folders(columns)?;
        let in_file: Vec<String> = columns
            .iter()
            .zip(&of_folders)
            .filter(|(_, folder)| folder.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        let reader = match &file.content {
            Content::Csv { separator } => {
                Reader::Csv(Box::new(CsvRows::open(&file.path, *separator, &in_file, num_read, row_bytes)?))
            }
            Content::Parquet(parquet) => Reader::Parquet(Box::new(parquet.group(piece.group, &in_file, row_bytes)?)),
        };
        Ok(Rows {
            table: self,
            piece: at,
            path: &file.path,
            columns: columns.to_vec(),
            of_folders,
            reader,
            next_row: piece.first_row,
            missing: vec![MissingInPiece::default(); columns.len()],
            stopped: Arc::default(),
        })
    }

    /// Returns two files, of which the first is read before the second, but has a larger number in its name.
    pub(crate) fn misordered_files(&self) -> Option<[PathBuf; 2]> {
        misordered(&self.paths())
    }

    /// Returns true if the files of another table are in the same order by the numbers in their names, so that both tables have
    /// their rows in one order.
    pub(crate) fn has_order_of(&self, other: &Self) -> bool {
        natural_positions(&self.paths()) == natural_positions(&other.paths())
    }

    fn paths(&self) -> Vec<&Path> {
        self.files.iter().map(|file| file.path.as_path()).collect()
    }
}

impl OpenFile {
    /// Returns, for each of `columns`, the column in the name of a folder. A column of the file comes first.
    fn columns_of_folders(&self, columns: &[String]) -> Result<Vec<Option<FolderColumn>>, TableError> {
        let of_folders = |column: &String| self.of_folders.iter().find(|of_folder| of_folder.name == *column).cloned();
        let mut found: Vec<Option<FolderColumn>> = columns.iter().map(of_folders).collect();
        if found.iter().all(Option::is_none) {
            return Ok(found);
        }
        let names = match &self.content {
            Content::Csv { separator } => header(&self.path, *separator)?,
            Content::Parquet(file) => file.names(),
        };
        for (column, of_folder) in columns.iter().zip(&mut found) {
            if names.contains(column) {
                *of_folder = None;
            }
        }
        Ok(found)
    }
}

impl<'a> Rows<'a> {
    /// Returns the next rows.
    pub(crate) fn next(&mut self) -> Result<Option<Batch<'a>>, TableError> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (batch, is_csv) = match &mut self.reader {
            Reader::Csv(rows) => (rows.next()?, true),
            Reader::Parquet(rows) => (rows.next()?, false),
        };
        let Some(batch) = batch else {
            for (column, missing) in self.columns.iter().zip(&self.missing) {
                self.table.missing.record(&self.table.at, column, self.piece, missing);
            }
            return Ok(None);
        };
        let first_row = self.next_row;
        let num_rows = batch.num_rows();
        self.next_row += num_rows as u64;
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut in_file = batch.columns().iter();
        for ((name, of_folder), missing) in self.columns.iter().zip(&self.of_folders).zip(&mut self.missing) {
            let array = &match of_folder {
                Some(column) => constant(column, num_rows),
                None => in_file.next().expect("the file has all other columns").clone(),
            };
            let na_values = self.table.na_of_columns.get(name).unwrap_or(&self.table.na_values);
            // The name of a folder has an own form for null.
            let empty_is_null = is_csv && of_folder.is_none();
            let nullified = na_values.nullify(array, empty_is_null, missing);
            columns.push(nullified.map_err(|why| TableError::file(self.path, format!("column {name}: {why}")))?);
        }
        Ok(Some(Batch { path: self.path, first_row, columns, num_rows }))
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

    /// Creates the error of a column that holds no ids.
    pub(crate) fn no_ids(&self, column: &str, no_ids: &NoIds) -> TableError {
        let why = format!("column {column}: {}", no_ids.why);
        match no_ids.row {
            Some(row) => self.wrong_value(row, why),
            None => TableError::file(self.path, why),
        }
    }

    /// Creates the error of a column.
    pub(crate) fn wrong_column(&self, column: &str, why: impl AsRef<str>) -> TableError {
        TableError::file(self.path, format!("column {column}: {}", why.as_ref()))
    }
}

/// The end of the reading of a piece: an error, or an error elsewhere, after which no results are needed.
pub(crate) enum Stop {
    Failed(TableError),
    Abandoned,
}

impl From<TableError> for Stop {
    fn from(error: TableError) -> Self {
        Self::Failed(error)
    }
}

/// The results of a piece, in order.
pub(crate) struct Results<'a, T> {
    queue: &'a Mutex<VecDeque<T>>,
    added: &'a Added,
}

/// Tells that a piece has another result, or its error.
type Added = SyncSender<Result<(), TableError>>;

impl<T> Results<'_, T> {
    /// Adds a result. Waits while there are many that are not taken yet.
    pub(crate) fn push(&self, result: T) -> Result<(), Stop> {
        locked(self.queue).push_back(result);
        self.added.send(Ok(())).map_err(|_| Stop::Abandoned)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads `columns` of all pieces of a table: `map` in parallel, and `fold` in order, with the number of the piece. Few
/// results are held at a time. `step` names the scan in progress reports.
///
/// # Errors
/// Returns the first error, in the order of the results.
pub(crate) fn scan<'t, T: Send>(
    table: &'t Table,
    step: &'static str,
    columns: &[String],
    map: impl Fn(usize, Rows<'t>) -> Result<T, TableError> + Sync,
    fold: impl FnMut(usize, T) -> Result<(), TableError>,
) -> Result<(), TableError> {
    scan_in_steps(table, step, columns, 0, |piece, rows, results| results.push(map(piece, rows)?), fold)
}

/// Like [`scan`], with any number of results per piece. The results of a row take about `row_bytes`, or less than its columns.
///
/// # Errors
/// As for [`scan`].
pub(crate) fn scan_in_steps<'t, T: Send>(
    table: &'t Table,
    step: &'static str,
    columns: &[String],
    row_bytes: usize,
    map: impl Fn(usize, Rows<'t>, &Results<T>) -> Result<(), Stop> + Sync,
    mut fold: impl FnMut(usize, T) -> Result<(), TableError>,
) -> Result<(), TableError> {
    // Only the queues depend on the type of the results, so that the scan is compiled once.
    let queues: Vec<Mutex<VecDeque<T>>> = table.pieces.iter().map(|_| Mutex::default()).collect();
    scan_pieces(
        table,
        step,
        columns,
        row_bytes,
        &|piece, rows, added| map(piece, rows, &Results { queue: &queues[piece], added }),
        &mut |piece| {
            let result = locked(&queues[piece]).pop_front();
            fold(piece, result.expect("a result is added before it is announced"))
        },
    )
}

/// Scans a table as [`scan_in_steps`]. Calls `fold` with a piece once for each of its results.
fn scan_pieces<'t>(
    table: &'t Table,
    step: &'static str,
    columns: &[String],
    row_bytes: usize,
    map: &(dyn Fn(usize, Rows<'t>, &Added) -> Result<(), Stop> + Sync),
    fold: &mut dyn FnMut(usize) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let num_threads = rayon::current_num_threads();
    let ahead = num_threads * PIECES_PER_THREAD;
    let num_bytes = table.pieces.iter().map(|piece| piece.num_bytes).sum();
    let num_read = Arc::new(AtomicU64::new(0));
    // Set when results are no longer needed.
    let stopped = Arc::new(AtomicBool::new(false));
    let panic = Mutex::new(None);
    let read = |at: usize, added: &Added| -> Result<(), Stop> {
        let piece = &table.pieces[at];
        let rows = Rows { stopped: stopped.clone(), ..table.rows(at, columns, &num_read, row_bytes)? };
        map(at, rows, added)?;
        if let Content::Parquet(_) = table.files[piece.file].content {
            num_read.fetch_add(piece.num_bytes, Ordering::Relaxed);
        }
        Ok(())
    };
    let (jobs, taken) = channel::<(usize, Added)>();
    let taken = Mutex::new(taken);
    // Threads take pieces in their order, so the piece whose results are next is always being read.
    let next = || locked(&taken).recv();
    let work = || {
        while let Ok((piece, added)) = next() {
            if stopped.load(Ordering::Relaxed) {
                continue;
            }
            match catch_unwind(AssertUnwindSafe(|| read(piece, &added))) {
                Ok(Ok(()) | Err(Stop::Abandoned)) => {}
                // There is nobody to tell if reading has ended already.
                Ok(Err(Stop::Failed(error))) => drop(added.send(Err(error))),
                Err(payload) => {
                    stopped.store(true, Ordering::Relaxed);
                    *locked(&panic) = Some(payload);
                }
            }
        }
    };
    let result = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stopped);
        // Dropped at the end of this closure, after which the threads end.
        let jobs = jobs;
        (0..num_threads.min(table.pieces.len())).for_each(|_| {
            scope.spawn(work);
        });
        let mut waiting = VecDeque::new();
        let mut started = 0;
        for piece in 0..table.pieces.len() {
            while started < table.pieces.len() && started < piece + ahead {
                let (added, received) = sync_channel(RESULTS_PER_PIECE);
                waiting.push_back(received);
                // The threads end after this closure only.
                let _ = jobs.send((started, added));
                started += 1;
            }
            for added in waiting.pop_front().into_iter().flatten() {
                added?;
                fold(piece)?;
                table.space.worked(step, num_read.load(Ordering::Relaxed), num_bytes);
            }
        }
        Ok(())
    });
    match panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(payload) => resume_unwind(payload),
        None => result,
    }
}

/// Returns a column of texts with one value.
fn constant(column: &FolderColumn, num_rows: usize) -> ArrayRef {
    Arc::new(std::iter::repeat_n(column.value.as_deref(), num_rows).collect::<StringArray>())
}

/// Tells the threads of a scan to end.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the number of rows of a mean size in bytes that are decoded together.
pub(super) fn batch_rows(row_bytes: usize) -> usize {
    let [most, fewest] = BATCH_ROWS;
    (BATCH_BYTES / row_bytes.max(1)).clamp(fewest, most)
}

/// Returns the separator of a file that was read with another one, so that the names of all its columns are one.
fn separator_of(names: &[String], column: &str) -> Option<&'static str> {
    let [only] = names else { return None };
    let separators = [";", "\t", "|", ","];
    separators.into_iter().find(|separator| only.split(separator).any(|name| name.trim_matches('"') == column))
}

/// Returns the positions of `columns` among the `names` of all columns of a file.
///
/// # Errors
/// A column that the file does not have, or has twice.
pub(super) fn positions_of(path: &Path, columns: &[String], names: &[String]) -> Result<Vec<usize>, TableError> {
    let mut found = Vec::with_capacity(columns.len());
    for column in columns {
        let mut positions = (0..names.len()).filter(|&at| names[at] == *column);
        let Some(position) = positions.next() else {
            if let Some(separator) = separator_of(names, column) {
                let why = format!(
                    "it has no column {column}, but its first line has {separator:?} between names: set format to {{name: csv, \
                     separator: {separator:?}}}"
                );
                return Err(TableError::file(path, why));
            }
            let hint = suggestion(column, names.iter().map(String::as_str));
            let why = format!("it has no column {column}{hint}. Its columns are {}", names.join(", "));
            return Err(TableError::file(path, why));
        };
        if positions.next().is_some() {
            return Err(TableError::file(path, format!("two columns have the name {column}")));
        }
        found.push(position);
    }
    Ok(found)
}

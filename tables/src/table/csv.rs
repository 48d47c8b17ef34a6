//! CSV files, also compressed with gzip or zstd.

use super::blank_lines::BlankLines;
use super::scan::{batch_rows, positions_of};
use crate::TableError;
use arrow_array::RecordBatch;
use arrow_csv::reader::{BufReader as CsvReader, Format, ReaderBuilder};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bytes that are read at a time.
pub(super) const BUFFER_BYTES: usize = 1 << 18;
/// The first bytes of gzip and of zstd files, and the mark that some programs write before UTF-8.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// The marks of UTF-16.
const UTF_16: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// The rows of a CSV file. All values are texts, and empty fields are null.
pub(super) struct CsvRows {
    path: PathBuf,
    reader: CsvReader<Box<dyn BufRead + Send>>,
    /// For each requested column, its position in a batch.
    order: Vec<usize>,
}

impl CsvRows {
    /// Opens a file and finds `columns` in its header. Adds the bytes that are read from the file to `num_read`.
    pub(super) fn open(
        path: &Path,
        separator: u8,
        columns: &[String],
        num_read: &Arc<AtomicU64>,
        row_bytes: usize,
    ) -> Result<Self, TableError> {
        let names = header(path, separator)?;
        let positions = positions_of(path, columns, &names)?;
        Self::with_positions(path, separator, &names, &positions, num_read, row_bytes)
    }

    /// Opens a file whose first line has the fields `names`, and reads the columns at `positions`.
    pub(super) fn with_positions(
        path: &Path,
        separator: u8,
        names: &[String],
        positions: &[usize],
        num_read: &Arc<AtomicU64>,
        row_bytes: usize,
    ) -> Result<Self, TableError> {
        let mut sorted = positions.to_vec();
        sorted.sort_unstable();
        let order = positions.iter().map(|position| sorted.partition_point(|other| other < position)).collect();
        let fields: Vec<Field> = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let mut text = open(path, num_read)?;
        let start = text.fill_buf().map_err(|error| TableError::io(path, error))?;
        let num_lines = start.iter().filter(|&&byte| byte == b'\n').count();
        let row_bytes = row_bytes.max(start.len() / num_lines.max(1));
        if names.len() == 1 {
            text = Box::new(BufReader::with_capacity(BUFFER_BYTES, BlankLines::new(text)));
        }
        let reader = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .with_header(true)
            .with_delimiter(separator)
            .with_batch_size(batch_rows(row_bytes))
            .with_projection(sorted)
            .build_buffered(text)
            .map_err(|error| TableError::table(path, error))?;
        Ok(Self { path: path.to_path_buf(), reader, order })
    }

    /// Returns the next rows, with the columns in the requested order.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, TableError> {
        let Some(batch) = self.reader.next() else { return Ok(None) };
        let batch = batch.and_then(|batch| batch.project(&self.order));
        batch.map(Some).map_err(|error| rejected(&self.path, error))
    }
}

/// Creates the error of the reader of CSV files, with the remedy for other encodings.
fn rejected(path: &Path, error: ArrowError) -> TableError {
    let text = error.to_string();
    if text.contains("UTF-8") {
        let remedy = "convert the file to UTF-8, for example by `iconv -f WINDOWS-1252 -t UTF-8`";
        return TableError::file(path, format!("{text}: {remedy}"));
    }
    TableError::table(path, error)
}

/// Returns the names in the first line.
pub(super) fn header(path: &Path, separator: u8) -> Result<Vec<String>, TableError> {
    let format = Format::default().with_header(true).with_delimiter(separator);
    let (schema, _) =
        format.infer_schema(open(path, &Arc::default())?, Some(0)).map_err(|error| rejected(path, error))?;
    if schema.fields().is_empty() {
        return Err(TableError::file(path, "it is empty: expected a line with the names of the columns"));
    }
    Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
}

/// Opens a file, which is decompressed if its first bytes say so.
fn open(path: &Path, num_read: &Arc<AtomicU64>) -> Result<Box<dyn BufRead + Send>, TableError> {
    let file = File::open(path).map_err(|error| TableError::io(path, error))?;
    let file = Counted { file, num_read: num_read.clone() };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let start = reader.fill_buf().map_err(|error| TableError::io(path, error))?;
    if start.starts_with(b"PAR1") {
        return Err(TableError::file(path, "it is a Parquet file, but its format is csv: set the format to parquet"));
    }
    let decompressed: Box<dyn Read + Send> = if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(reader))
    } else if start.starts_with(ZSTD) {
        Box::new(zstd::Decoder::with_buffer(reader).map_err(|error| TableError::io(path, error))?)
    } else {
        Box::new(reader)
    };
    let mut text = BufReader::with_capacity(BUFFER_BYTES, decompressed);
    let start = text.fill_buf().map_err(|error| TableError::io(path, error))?;
    if UTF_16.iter().any(|mark| start.starts_with(mark)) {
        let why = "it is in UTF-16: convert it to UTF-8, for example by `iconv -f UTF-16 -t UTF-8`";
        return Err(TableError::file(path, why));
    }
    if start.starts_with(BYTE_ORDER_MARK) {
        text.consume(BYTE_ORDER_MARK.len());
    }
    Ok(Box::new(text))
}

/// A file whose bytes are counted as they are read.
struct Counted {
    file: File,
    num_read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let num_bytes = self.file.read(buffer)?;
        self.num_read.fetch_add(num_bytes as u64, Ordering::Relaxed);
        Ok(num_bytes)
    }
}

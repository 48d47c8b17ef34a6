//! The files of predictions.

use super::args::{Format, PredictArgs, Rows};
use super::parquet_file::ParquetFile;
use super::values::Values;
use anyhow::Context;
use edgecut_graph::npy_header;
use edgecut_output::OutputFile;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Returns the name of the column of a value, or the prefix of the names of several columns.
pub(super) fn column_name(kind: Rows) -> &'static str {
    match kind {
        Rows::Class => "class",
        Rows::Probability => "probability",
        Rows::Logit => "logit",
        Rows::Embedding => "embedding",
    }
}

/// A CSV file with the column `node_id`, then the values.
pub(super) struct CsvFile {
    path: PathBuf,
    output: OutputFile,
    text: String,
}

impl CsvFile {
    /// Creates the file with the names of its columns. `width` is the number of values per node.
    fn create(path: &Path, kind: Rows, width: usize) -> anyhow::Result<Self> {
        let output = OutputFile::create(path).with_context(|| format!("--out: write {}", path.display()))?;
        let name = column_name(kind);
        let columns: Vec<String> = match kind {
            Rows::Class => vec![name.to_owned()],
            _ => (0..width).map(|column| format!("{name}_{column}")).collect(),
        };
        Ok(Self { path: path.to_owned(), output, text: format!("node_id,{}\n", columns.join(",")) })
    }

    /// Appends rows.
    fn push(&mut self, ids: &[u32], values: &Values) -> anyhow::Result<()> {
        // Writing to a string does not fail.
        match values {
            Values::Classes(classes) => {
                for (id, class) in ids.iter().zip(classes) {
                    let _ = writeln!(self.text, "{id},{class}");
                }
            }
            Values::Numbers(numbers) => {
                let width = numbers.len() / ids.len().max(1);
                for (id, row) in ids.iter().zip(numbers.chunks_exact(width.max(1))) {
                    let _ = write!(self.text, "{id}");
                    for number in row {
                        let _ = write!(self.text, ",{number}");
                    }
                    self.text.push('\n');
                }
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.output.file().write_all(self.text.as_bytes());
        self.text.clear();
        written.with_context(|| format!("write {}", self.path.display()))
    }

    fn commit(mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.output.commit().with_context(|| format!("write {}", self.path.display()))
    }
}

/// A file with a row per node, named by its id.
pub(super) enum Table {
    Csv(CsvFile),
    Parquet(Box<ParquetFile>),
}

impl Table {
    /// Creates the file `stem.csv` or `stem.parquet` in a folder. `width` is the number of values per node.
    pub(super) fn create(dir: &Path, stem: &str, args: &PredictArgs, width: usize) -> anyhow::Result<Self> {
        let kind = args.output;
        if args.format == Format::Parquet {
            let path = dir.join(format!("{stem}.parquet"));
            return Ok(Self::Parquet(Box::new(ParquetFile::create(&path, kind, width)?)));
        }
        Ok(Self::Csv(CsvFile::create(&dir.join(format!("{stem}.csv")), kind, width)?))
    }

    /// Appends rows.
    pub(super) fn push(&mut self, ids: &[u32], values: &Values) -> anyhow::Result<()> {
        match self {
            Self::Csv(file) => file.push(ids, values),
            Self::Parquet(file) => file.push(ids, values),
        }
    }

    pub(super) fn commit(self) -> anyhow::Result<()> {
        match self {
            Self::Csv(file) => file.commit(),
            Self::Parquet(file) => file.commit(),
        }
    }
}

/// An array with a row per node.
pub(super) struct NpyFile {
    path: PathBuf,
    output: OutputFile,
}

impl NpyFile {
    /// Creates the file. Classes are `int64`, `[num_rows]`; numbers are `float32`, `[num_rows, width]`.
    pub(super) fn create(path: &Path, kind: Rows, num_rows: usize, width: usize) -> anyhow::Result<Self> {
        let create = || {
            let output = OutputFile::create(path)?;
            let header = match kind {
                Rows::Class => npy_header::<i64>(&[num_rows])?,
                _ => npy_header::<f32>(&[num_rows, width])?,
            };
            output.file().write_all(&header)?;
            Ok::<_, std::io::Error>(output)
        };
        let output = create().with_context(|| format!("--out: write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), output })
    }

    /// Appends rows.
    pub(super) fn push(&mut self, values: &Values) -> anyhow::Result<()> {
        let bytes: &[u8] = match values {
            Values::Classes(classes) => bytemuck::cast_slice(classes),
            Values::Numbers(numbers) => bytemuck::cast_slice(numbers),
        };
        self.output.file().write_all(bytes).with_context(|| format!("write {}", self.path.display()))
    }

    pub(super) fn commit(self) -> anyhow::Result<()> {
        self.output.commit().with_context(|| format!("write {}", self.path.display()))
    }
}

/// Writes the ids of the nodes of an array of predictions.
pub(super) fn write_ids(path: &Path, ids: &[u32]) -> anyhow::Result<()> {
    let write = || {
        let output = OutputFile::create(path)?;
        let mut file = BufWriter::new(output.file());
        file.write_all(&npy_header::<i64>(&[ids.len()])?)?;
        ids.iter().try_for_each(|&id| file.write_all(&i64::from(id).to_le_bytes()))?;
        file.flush()?;
        drop(file);
        output.commit()
    };
    write().with_context(|| format!("--out: write {}", path.display()))
}

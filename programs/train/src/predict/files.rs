//! The files of predictions.

use super::REQUESTS;
use super::args::{Format, PredictArgs, Rows};
use super::class_names::ClassNames;
use super::parquet_file::ParquetFile;
use super::submission::Submission;
use super::values::{Form, Values};
use crate::exit::UsageError;
use crate::id_map_file::{UserColumn, csv_text};
use anyhow::Context;
use bytemuck::Pod;
use clap::ValueEnum;
use edgecut_graph::{NpyElement, npy_header};
use edgecut_output::OutputFile;
use edgecut_trainer::loss::OutputKind;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The part of a name after which the name of one of several targets follows.
const OF_TARGET: &str = "-target-";

/// Returns the end of the names of the files of one of several targets.
pub(super) fn of_target(target: &str) -> String {
    format!("{OF_TARGET}{}", target.replace(':', "__"))
}

/// Returns a name without the target at its end.
fn without_target(stem: &str) -> &str {
    stem.split_once(OF_TARGET).filter(|(_, target)| !target.is_empty()).map_or(stem, |(stem, _)| stem)
}

/// Returns true for the names of files that this command writes.
pub(crate) fn is_output(name: &str) -> bool {
    let is_submission = Submission::value_variants().iter().any(|submission| submission.file_name() == name);
    let Some((stem, format)) = name.rsplit_once('.') else { return false };
    let of_all_targets = format!("{}.{format}", without_target(stem));
    if is_submission || REQUESTS.iter().any(|request| request.beside.contains(&of_all_targets.as_str())) {
        return true;
    }
    match format {
        "npy" => is_stem(stem),
        "csv" | "parquet" => is_stem(stem) || is_stem_of_rank(stem),
        _ => false,
    }
}

/// Returns true for names of a request's files of all ranks, without their format.
fn is_stem(stem: &str) -> bool {
    REQUESTS.iter().any(|request| request.stem == without_target(stem))
}

/// Returns true for names that [`stem_of_rank`] returns.
fn is_stem_of_rank(stem: &str) -> bool {
    let Some((stem, ranks)) = stem.rsplit_once("-of-") else { return false };
    let Some((stem, rank)) = stem.rsplit_once('-') else { return false };
    let are_numbers =
        [rank, ranks].iter().all(|text| text.len() >= 5 && text.bytes().all(|digit| digit.is_ascii_digit()));
    are_numbers && is_stem(stem)
}

/// Returns the name of the file of a rank, without its format.
pub(super) fn stem_of_rank(stem: &str, rank: usize, world_size: usize) -> String {
    format!("{stem}-{rank:05}-of-{world_size:05}")
}

/// The columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// The names of the columns of ids.
    pub(super) ids: &'static [&'static str],
    /// The name of the column of values, or the prefix of several columns.
    pub(super) value: &'static str,
    pub(super) shape: ValueShape,
    /// The conversion of the numbers that were computed.
    pub(super) form: Form,
}

/// The prefix of the names of columns of logits.
const LOGIT: &str = "logit";
/// The name of the column of the ids that users know, of nodes.
pub(super) const USER_ID: &str = "id";

/// Columns of numbers or texts after the ids, with their names.
pub(super) type NamedColumns = Vec<(&'static str, UserColumn)>;

/// The values of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    /// An integer.
    Class,
    /// A number.
    Number,
    /// A list of numbers.
    List(usize),
    /// Numbers in columns with these names.
    Named(Arc<[String]>),
}

impl Columns {
    /// Returns the columns of predictions, which are made of `outputs`, or of embeddings with `width` numbers.
    ///
    /// # Errors
    /// [`UsageError`] if such outputs have no such rows.
    pub(super) fn of_outputs(
        ids: &'static [&'static str],
        rows: Rows,
        outputs: OutputKind,
        width: usize,
    ) -> Result<Self, UsageError> {
        if rows == Rows::Embedding {
            return Ok(Self::of_numbers(ids, "embedding", width));
        }
        let form = Form::new(rows, outputs)?;
        let (value, shape) = match (rows, form) {
            (_, Form::Class) => ("class", ValueShape::Class),
            (_, Form::Labels) => ("label", ValueShape::List(width)),
            (Rows::Logit, _) => (LOGIT, ValueShape::List(width)),
            (_, Form::ClassProbabilities | Form::LabelProbabilities) => ("probability", ValueShape::List(width)),
            (_, Form::Numbers) if width == 1 => ("value", ValueShape::Number),
            (_, Form::Numbers) => ("value", ValueShape::List(width)),
        };
        Ok(Self { ids, value, shape, form })
    }

    /// Returns the columns of rows of `width` numbers.
    pub(super) fn of_numbers(ids: &'static [&'static str], value: &'static str, width: usize) -> Self {
        Self { ids, value, shape: ValueShape::List(width), form: Form::Numbers }
    }

    /// Returns true for the values of classes: a column of classes, or a column per class.
    pub(super) fn has_classes(&self) -> bool {
        matches!(self.form, Form::Class | Form::ClassProbabilities) || self.value == LOGIT
    }

    /// Names the column of each class by its name, if there is a column per class. Returns the names otherwise, for a column of
    /// their own.
    pub(super) fn named_by(mut self, classes: Option<ClassNames>) -> (Self, Option<ClassNames>) {
        match (&self.shape, classes) {
            (ValueShape::List(width), Some(classes)) if classes.names().len() == *width => {
                let names = classes.names().iter().map(|name| format!("{}_{name}", self.value));
                self.shape = ValueShape::Named(names.collect());
                (self, None)
            }
            (ValueShape::List(_), _) => (self, None),
            (_, classes) => (self, classes),
        }
    }

    /// Returns the columns of scores.
    pub(super) fn of_scores(ids: &'static [&'static str]) -> Self {
        Self { ids, value: "score", shape: ValueShape::Number, form: Form::Numbers }
    }
}

/// A file with rows of nodes, pairs or graphs.
pub(super) trait RowsFile {
    /// Appends rows. A table also has the ids of all rows, column by column, and `more` values of the further columns.
    fn push(&mut self, ids: &[&[u32]], more: &[UserColumn], values: &Values) -> anyhow::Result<()>;

    /// Completes the file.
    fn commit(self: Box<Self>) -> anyhow::Result<()>;
}

/// Creates the table `stem.csv` or `stem.parquet`. `more` are further columns, which are empty.
pub(super) fn create_table(
    stem: &str,
    args: &PredictArgs,
    columns: &Columns,
    more: NamedColumns,
) -> anyhow::Result<Box<dyn RowsFile>> {
    if args.format == Format::Parquet {
        let path = args.out.join(format!("{stem}.parquet"));
        return Ok(Box::new(ParquetFile::create(&path, columns, more)?));
    }
    Ok(Box::new(CsvFile::create(&args.out.join(format!("{stem}.csv")), columns, &more)?))
}

/// Creates the array `stem.npy`, or the table as [`create_table`] does.
pub(super) fn create_rows(
    stem: &str,
    args: &PredictArgs,
    columns: &Columns,
    more: NamedColumns,
    num_rows: usize,
) -> anyhow::Result<Box<dyn RowsFile>> {
    if args.format == Format::Npy {
        let path = args.out.join(format!("{stem}.npy"));
        return Ok(Box::new(NpyFile::of_values(&path, &columns.shape, num_rows)?));
    }
    create_table(stem, args, columns, more)
}

/// A CSV file with columns of ids, further columns such as the ids that users know, then the values.
struct CsvFile {
    path: PathBuf,
    output: OutputFile,
    text: String,
}

impl CsvFile {
    /// Creates the file with the names of its columns.
    fn create(path: &Path, columns: &Columns, more: &NamedColumns) -> anyhow::Result<Self> {
        let output = OutputFile::create(path).with_context(|| format!("--out: write {}", path.display()))?;
        let more: String = more.iter().map(|(name, _)| format!("{name},")).collect();
        let name = columns.value;
        let values: Vec<String> = match &columns.shape {
            ValueShape::Class | ValueShape::Number => vec![name.to_owned()],
            ValueShape::List(width) => (0..*width).map(|column| format!("{name}_{column}")).collect(),
            ValueShape::Named(names) => names.iter().map(|name| csv_text(name)).collect(),
        };
        let text = format!("{},{more}{}\n", columns.ids.join(","), values.join(","));
        Ok(Self { path: path.to_owned(), output, text })
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.output.file().write_all(self.text.as_bytes());
        self.text.clear();
        written.with_context(|| format!("write {}", self.path.display()))
    }
}

impl RowsFile for CsvFile {
    fn push(&mut self, ids: &[&[u32]], more: &[UserColumn], values: &Values) -> anyhow::Result<()> {
        let num_rows = ids.first().map_or(0, |ids| ids.len());
        for row in 0..num_rows {
            // Writing to a string does not fail.
            for (column, ids) in ids.iter().enumerate() {
                let comma = if column == 0 { "" } else { "," };
                let _ = write!(self.text, "{comma}{}", ids[row]);
            }
            for column in more {
                let _ = write!(self.text, ",{}", column.csv_field(row));
            }
            match values {
                Values::Classes(classes) => {
                    let _ = write!(self.text, ",{}", classes[row]);
                }
                Values::Numbers(numbers) => {
                    let width = numbers.len() / num_rows;
                    for number in &numbers[row * width..][..width] {
                        let _ = write!(self.text, ",{number}");
                    }
                }
            }
            self.text.push('\n');
        }
        self.flush()
    }

    fn commit(mut self: Box<Self>) -> anyhow::Result<()> {
        self.flush()?;
        self.output.commit().with_context(|| format!("write {}", self.path.display()))
    }
}

/// An array that is written in pieces.
pub(super) struct NpyFile {
    path: PathBuf,
    output: OutputFile,
}

impl NpyFile {
    /// Creates the file for an array of elements `T`.
    pub(super) fn create<T: NpyElement>(path: &Path, shape: &[usize]) -> anyhow::Result<Self> {
        let output = OutputFile::create(path).with_context(|| format!("--out: write {}", path.display()))?;
        let mut file = Self { path: path.to_owned(), output };
        file.write(&npy_header::<T>(shape)?)?;
        Ok(file)
    }

    /// Creates the file of values. Classes are `int64`, `[num_rows]`; numbers are `float32`, `[num_rows]` or
    /// `[num_rows, width]`.
    fn of_values(path: &Path, shape: &ValueShape, num_rows: usize) -> anyhow::Result<Self> {
        match shape {
            ValueShape::Class => Self::create::<i64>(path, &[num_rows]),
            ValueShape::Number => Self::create::<f32>(path, &[num_rows]),
            ValueShape::List(width) => Self::create::<f32>(path, &[num_rows, *width]),
            ValueShape::Named(names) => Self::create::<f32>(path, &[num_rows, names.len()]),
        }
    }

    /// Appends values of the type of the array.
    pub(super) fn write<T: Pod>(&mut self, values: &[T]) -> anyhow::Result<()> {
        let bytes = bytemuck::cast_slice(values);
        self.output.file().write_all(bytes).with_context(|| format!("write {}", self.path.display()))
    }

    pub(super) fn commit(self) -> anyhow::Result<()> {
        self.output.commit().with_context(|| format!("write {}", self.path.display()))
    }
}

impl RowsFile for NpyFile {
    fn push(&mut self, _ids: &[&[u32]], _more: &[UserColumn], values: &Values) -> anyhow::Result<()> {
        match values {
            Values::Classes(classes) => self.write(classes),
            Values::Numbers(numbers) => self.write(numbers),
        }
    }

    fn commit(self: Box<Self>) -> anyhow::Result<()> {
        NpyFile::commit(*self)
    }
}

/// Writes the ids of the rows of an array.
pub(super) fn write_ids(path: &Path, ids: &[u32]) -> anyhow::Result<()> {
    const AT_ONCE: usize = 1 << 16;
    let mut file = NpyFile::create::<i64>(path, &[ids.len()])?;
    for ids in ids.chunks(AT_ONCE) {
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        file.write(&ids)?;
    }
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_command_are_outputs() {
        let of_target = of_target("user:a-target-of-10000-of-00002");
        for name in [
            "predictions.npy",
            "top_k-00001-of-00002.csv",
            "scores.parquet",
            "y_pred_mag240m.npz",
            &format!("predictions{of_target}.csv"),
            &format!("predictions{of_target}-00001-of-00002.parquet"),
            &format!("node_ids{of_target}.npy"),
        ] {
            assert!(is_output(name), "{name}");
        }
        for name in [
            "predictions_of_last_year.csv",
            "scores-1-of-2.csv",
            "top_k-00000-of-00001.npy",
            "x.npy",
            "scores",
            "predictions-target-.csv",
            "predictions-user__churn.csv",
            "node_ids-target-user.csv",
        ] {
            assert!(!is_output(name), "{name}");
        }
    }
}

//! Predictions as Parquet.

use super::files::{Columns, NamedColumns, RowsFile, ValueShape};
use super::values::Values;
use crate::id_map_file::UserColumn;
use anyhow::Context;
use edgecut_output::OutputFile;
use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArrayType, DataType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of values after which a row group ends.
const GROUP_VALUES: usize = 1 << 22;

/// A Parquet file with columns of ids, and a column with a class, a number or a list of numbers.
pub(super) struct ParquetFile {
    path: PathBuf,
    output: OutputFile,
    writer: Writer,
    shape: ValueShape,
    /// The rows of the next row group: columns of ids, and values.
    ids: Vec<Vec<i64>>,
    /// The further columns.
    more: Vec<UserColumn>,
    classes: Vec<i64>,
    numbers: Vec<f32>,
}

impl ParquetFile {
    /// Creates the file. `more` are further columns, which are empty.
    pub(super) fn create(path: &Path, columns: &Columns, more: NamedColumns) -> anyhow::Result<Self> {
        let name = columns.value;
        // Names of classes are not words of the language of schemas.
        let mut more_values: &[String] = &[];
        let value = match &columns.shape {
            ValueShape::Class => format!("required int64 {name};"),
            ValueShape::Number => format!("required float {name};"),
            ValueShape::List(_) => {
                format!("required group {name} (LIST) {{ repeated group list {{ required float element; }} }}")
            }
            ValueShape::Named(names) => {
                more_values = names;
                String::new()
            }
        };
        let mut schema: String = columns.ids.iter().map(|name| format!("required int64 {name}; ")).collect();
        for (name, column) in &more {
            schema += &match column {
                UserColumn::Numbers(_) => format!("required int64 {name}; "),
                UserColumn::Texts(_) => format!("required binary {name} (UTF8); "),
            };
        }
        let opened = open(path, &format!("message predictions {{ {schema}{value} }}"), more_values);
        let (output, writer) = opened.with_context(|| format!("--out: write {}", path.display()))?;
        let ids = vec![Vec::new(); columns.ids.len()];
        let (classes, numbers) = Default::default();
        let more = more.into_iter().map(|(_, column)| column).collect();
        Ok(Self { path: path.to_owned(), output, writer, shape: columns.shape.clone(), ids, more, classes, numbers })
    }

    /// Writes the buffered rows.
    fn end_group(&mut self) -> anyhow::Result<()> {
        if self.ids.iter().all(Vec::is_empty) {
            return Ok(());
        }
        self.write_group().with_context(|| format!("write {}", self.path.display()))?;
        self.ids.iter_mut().for_each(Vec::clear);
        self.more.iter_mut().for_each(UserColumn::clear);
        self.classes.clear();
        self.numbers.clear();
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for ids in &self.ids {
            write_column::<_, Int64Type>(&mut group, ids, None)?;
        }
        for column in &self.more {
            match column {
                UserColumn::Numbers(values) => write_column::<_, Int64Type>(&mut group, values, None)?,
                UserColumn::Texts(values) => write_column::<_, ByteArrayType>(&mut group, values, None)?,
            }
        }
        match &self.shape {
            ValueShape::Class => write_column::<_, Int64Type>(&mut group, &self.classes, None)?,
            ValueShape::Number => write_column::<_, FloatType>(&mut group, &self.numbers, None)?,
            ValueShape::List(width) => write_column::<_, FloatType>(&mut group, &self.numbers, Some(*width))?,
            ValueShape::Named(names) => {
                for column in 0..names.len() {
                    let values: Vec<f32> = self.numbers[column..].iter().step_by(names.len()).copied().collect();
                    write_column::<_, FloatType>(&mut group, &values, None)?;
                }
            }
        }
        group.close().map(drop)
    }
}

impl RowsFile for ParquetFile {
    fn push(&mut self, ids: &[&[u32]], more: &[UserColumn], values: &Values) -> anyhow::Result<()> {
        for (ours, column) in self.more.iter_mut().zip(more) {
            ours.extend(column)?;
        }
        for (column, ids) in self.ids.iter_mut().zip(ids) {
            column.extend(ids.iter().map(|&id| i64::from(id)));
        }
        match values {
            Values::Classes(classes) => self.classes.extend(classes),
            Values::Numbers(numbers) => self.numbers.extend(numbers),
        }
        if self.classes.len() + self.numbers.len() >= GROUP_VALUES { self.end_group() } else { Ok(()) }
    }

    fn commit(mut self: Box<Self>) -> anyhow::Result<()> {
        self.end_group()?;
        let Self { path, output, writer, .. } = *self;
        close(output, writer).with_context(|| format!("write {}", path.display()))
    }
}

type Writer = SerializedFileWriter<BufWriter<File>>;

/// Opens a file with the columns of `schema` and `floats`.
fn open(path: &Path, schema: &str, floats: &[String]) -> anyhow::Result<(OutputFile, Writer)> {
    let schema = parse_message_type(schema)?;
    let mut fields = schema.get_fields().to_vec();
    for name in floats {
        let field = Type::primitive_type_builder(name, PhysicalType::FLOAT).with_repetition(Repetition::REQUIRED);
        fields.push(Arc::new(field.build()?));
    }
    let schema = Type::group_type_builder(schema.name()).with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let output = OutputFile::create(path)?;
    let file = BufWriter::with_capacity(1 << 20, output.file().try_clone()?);
    let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    Ok((output, writer))
}

fn close(output: OutputFile, writer: Writer) -> anyhow::Result<()> {
    writer.into_inner()?.into_inner().map_err(|error| error.into_error())?;
    Ok(output.commit()?)
}

/// Writes the values of a column: one per row, or lists of `list` values.
fn write_column<W: std::io::Write + Send, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    list: Option<usize>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has fewer columns".into()));
    };
    // The definition level of a value in a list is 1. A repetition level of 0 begins a list.
    let levels = list.map(|width| {
        let definitions = vec![1_i16; values.len()];
        let repetitions: Vec<i16> = (0..values.len()).map(|at| i16::from(at % width != 0)).collect();
        (definitions, repetitions)
    });
    let levels = levels.as_ref();
    let definitions = levels.map(|(definitions, _)| &definitions[..]);
    let repetitions = levels.map(|(_, repetitions)| &repetitions[..]);
    column.typed::<T>().write_batch(values, definitions, repetitions)?;
    column.close()
}

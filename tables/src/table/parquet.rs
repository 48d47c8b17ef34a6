//! Parquet files.

use super::scan::{batch_rows, positions_of};
use crate::TableError;
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Encoding, Type};
use parquet::errors::ParquetError;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A Parquet file and its description.
pub(super) struct ParquetFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

/// The rows of a row group.
pub(crate) struct ParquetRows {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    /// For each requested column, its position in a batch.
    order: Vec<usize>,
}

impl ParquetFile {
    /// Reads the description of a file.
    pub(super) fn open(path: &Path) -> Result<Self, TableError> {
        let file = File::open(path).map_err(|error| TableError::io(path, error))?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).and_then(with_microseconds);
        let metadata = metadata.map_err(|error| {
            TableError::table(path, format!("it is not a Parquet file, or it is truncated: {error}"))
        })?;
        Ok(Self { path: path.to_path_buf(), metadata })
    }

    /// Returns the numbers of rows and of bytes of each row group.
    pub(super) fn group_sizes(&self) -> Vec<(u64, u64)> {
        let groups = self.metadata.metadata().row_groups().iter();
        groups.map(|group| (group.num_rows().max(0) as u64, group.compressed_size().max(0) as u64)).collect()
    }

    /// Returns the names of the columns.
    pub(super) fn names(&self) -> Vec<String> {
        self.metadata.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Opens a row group.
    pub(super) fn group(&self, group: usize, columns: &[String], row_bytes: usize) -> Result<ParquetRows, TableError> {
        let names = self.names();
        let roots = positions_of(&self.path, columns, &names)?;
        let mut sorted = roots.clone();
        sorted.sort_unstable();
        let order = roots.iter().map(|root| sorted.partition_point(|other| other < root)).collect();
        let file = File::open(&self.path).map_err(|error| TableError::io(&self.path, error))?;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), sorted);
        let of_group = self.metadata.metadata().row_group(group);
        let leaves = of_group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let num_bytes: i64 = leaves.map(|(_, leaf)| leaf.uncompressed_size()).sum();
        let row_bytes = row_bytes.max(num_bytes.max(0) as usize / of_group.num_rows().max(1) as usize);
        let metadata = self.with_dictionaries(group).map_err(|error| TableError::table(&self.path, error))?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(batch_rows(row_bytes))
            .build()
            .map_err(|error| TableError::table(&self.path, error))?;
        Ok(ParquetRows { path: self.path.clone(), reader, order })
    }

    /// Returns a description by which texts are read as dictionaries if all of a row group are stored in one.
    fn with_dictionaries(&self, group: usize) -> Result<ArrowReaderMetadata, ParquetError> {
        let group = self.metadata.metadata().row_group(group);
        let schema = self.metadata.parquet_schema();
        let mut coded = Vec::new();
        for (leaf, column) in group.columns().iter().enumerate() {
            let is_coded = column.page_encoding_stats_mask().is_some_and(|encodings| {
                encodings.is_only(Encoding::RLE_DICTIONARY) || encodings.is_only(Encoding::PLAIN_DICTIONARY)
            });
            let root = schema.get_column_root_idx(leaf);
            let data_type = self.metadata.schema().field(root).data_type();
            if is_coded && matches!(data_type, DataType::Utf8 | DataType::LargeUtf8) {
                coded.push(root);
            }
        }
        with_types(&self.metadata, |root, field| {
            let values = Box::new(field.data_type().clone());
            coded.contains(&root).then(|| DataType::Dictionary(Box::new(DataType::Int32), values))
        })
    }
}

/// Returns a description with other types for the columns for which `of_column` returns one.
fn with_types(
    metadata: &ArrowReaderMetadata,
    of_column: impl Fn(usize, &Field) -> Option<DataType>,
) -> Result<ArrowReaderMetadata, ParquetError> {
    let schema = metadata.schema();
    let types: Vec<Option<DataType>> =
        schema.fields().iter().enumerate().map(|(root, field)| of_column(root, field)).collect();
    if types.iter().all(Option::is_none) {
        return Ok(metadata.clone());
    }
    let mut fields = Vec::with_capacity(types.len());
    for (field, data_type) in schema.fields().iter().zip(types) {
        fields.push(match data_type {
            Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
            None => field.clone(),
        });
    }
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
}

/// Returns a description by which times of the type INT96, such as those of Spark, are read as microseconds. By default they
/// are nanoseconds, and years after 2262 silently become earlier ones.
fn with_microseconds(metadata: ArrowReaderMetadata) -> Result<ArrowReaderMetadata, ParquetError> {
    let leaves = metadata.parquet_schema().columns();
    with_types(&metadata, |_, field| {
        let leaf = leaves.iter().find(|leaf| leaf.path().parts() == [field.name().as_str()])?;
        (leaf.physical_type() == Type::INT96).then_some(DataType::Timestamp(TimeUnit::Microsecond, None))
    })
}

impl ParquetRows {
    /// Reads `columns` of an open file.
    pub(crate) fn of_file(path: &Path, file: File, columns: &[String]) -> Result<Self, TableError> {
        let opened = ParquetRecordBatchReaderBuilder::try_new(file);
        let builder = opened.map_err(|error| TableError::table(path, error))?;
        let names: Vec<String> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let positions = positions_of(path, columns, &names)?;
        let mut sorted = positions.clone();
        sorted.sort_unstable();
        let order = positions.iter().map(|position| sorted.partition_point(|other| other < position)).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), sorted);
        let reader = builder.with_projection(mask).with_batch_size(batch_rows(0)).build();
        let reader = reader.map_err(|error| TableError::table(path, error))?;
        Ok(Self { path: path.to_path_buf(), reader, order })
    }

    /// Returns the next rows, with the columns in the requested order.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, TableError> {
        let Some(batch) = self.reader.next() else { return Ok(None) };
        let batch = batch.and_then(|batch| with_plain_values(&batch.project(&self.order)?));
        batch.map(Some).map_err(|error| TableError::table(&self.path, error))
    }
}

/// Returns a batch with plain columns in place of dictionaries of other values than texts, such as pandas' categories of
/// numbers, and of columns without any value.
fn with_plain_values(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut has_others = false;
    for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
        let plain = match column.data_type() {
            DataType::Dictionary(_, values) if !values.is_string() => {
                has_others = true;
                cast(column, values)?
            }
            // Python's libraries write this type if all values are missing. The column may have texts or numbers in other files.
            DataType::Null => {
                has_others = true;
                cast(column, &DataType::Utf8)?
            }
            _ => column.clone(),
        };
        fields.push(Field::new(field.name(), plain.data_type().clone(), true));
        columns.push(plain);
    }
    if !has_others {
        return Ok(batch.clone());
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

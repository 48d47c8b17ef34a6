//! The id maps of a graph, written as a Parquet file per part and node type.

use super::{IdMap, UserIds};
use edgecut_graph::part_writer::NodeFiles;
use edgecut_graph::{GraphError, NodeKeys};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The number of rows of a row group.
const GROUP_ROWS: usize = 1 << 20;

/// The id maps of all node types of a graph.
///
/// The file of a part has a row per node, in the order of the part's rows, with the columns `id` (`INT64` or text),
/// `original_id` and `global_id`. A node type whose ids are its row numbers has no file.
#[derive(Debug, Default)]
pub struct IdMaps(pub Vec<IdMap>);

impl NodeFiles for IdMaps {
    fn has_id_map(&self, node_type: usize) -> bool {
        self.0.get(node_type).is_some_and(|map| !matches!(map.ids(), UserIds::Rows(_)))
    }

    fn ids_digest(&self, node_type: usize) -> Option<String> {
        self.0.get(node_type).and_then(|map| map.ids().digest())
    }

    fn write_id_map(&self, node_type: usize, nodes: &[u32], first: u32, path: &Path) -> Result<(), GraphError> {
        let file = File::create(path).map_err(|error| GraphError::io(path, error))?;
        let failed = |error| GraphError::io(path, io_error(error));
        write(self.0[node_type].ids(), nodes, first, file).map_err(failed)
    }
}

/// Nodes draw by the ids of their tables, which an update does not change.
impl NodeKeys for IdMaps {
    fn key(&self, node_type: usize, node: u32) -> u64 {
        self.0[node_type].ids().draw_key(node)
    }
}

fn write(ids: &UserIds, nodes: &[u32], first: u32, file: File) -> Result<(), ParquetError> {
    let id = if matches!(ids, UserIds::Texts { .. }) { "BYTE_ARRAY id (UTF8)" } else { "INT64 id" };
    let message = format!("message ids {{ REQUIRED {id}; REQUIRED INT64 original_id; REQUIRED INT64 global_id; }}");
    let schema = Arc::new(parse_message_type(&message)?);
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut global = i64::from(first);
    for nodes in nodes.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        match ids {
            UserIds::Rows(_) => column::<Int64Type, _>(&mut group, nodes, |&node| i64::from(node))?,
            UserIds::Numbers(numbers) => column::<Int64Type, _>(&mut group, nodes, |&node| numbers[node as usize])?,
            ids @ UserIds::Texts { .. } => {
                column::<ByteArrayType, _>(&mut group, nodes, |&node| ByteArray::from(ids.text(node).to_vec()))?;
            }
        }
        column::<Int64Type, _>(&mut group, nodes, |&node| i64::from(node))?;
        let start = global;
        global += nodes.len() as i64;
        column::<Int64Type, _>(&mut group, &(start..global).collect::<Vec<_>>(), |&id| id)?;
        group.close()?;
    }
    writer.close().map(drop)
}

/// Writes the next column of a row group.
fn column<T: DataType, R>(
    group: &mut SerializedRowGroupWriter<File>,
    rows: &[R],
    value: impl Fn(&R) -> T::T,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has fewer columns than were written".into()));
    };
    let values: Vec<T::T> = rows.iter().map(value).collect();
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}

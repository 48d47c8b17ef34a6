//! Reading of the id maps of parts.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

use super::{Id, IdMap, IdMaps, Inserted};
use crate::TableError;
use edgecut_graph::{DiskPartId, ID_MAP_FILE, META_FILE, Meta, NodeTypeId, Part, node_file};
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::path::Path;

const DAMAGED: &str = "the original ids of the parts do not belong together: partition the graph again";

/// The part of an original id that no part has.
const NO_PART: u32 = u32::MAX;

/// The ids of the nodes of a part, in the order of its rows.
enum Column {
    Numbers(Vec<i64>),
    /// The texts, end to end, and the end of each.
    Texts(String, Vec<usize>),
}

impl IdMaps {
    /// Reads the id maps of all node types from `parts`, which are the parts on disk in the folder `dir`.
    ///
    /// # Errors
    /// Fails if a file cannot be read, is not that of `META.json`, has another number of rows than its part, or has an id
    /// twice.
    pub fn read(dir: &Path, parts: &[Part]) -> Result<Self, TableError> {
        let Some(meta) = parts.first().map(Part::meta) else { return Ok(Self::default()) };
        let types = 0..meta.node_types.len() as u16;
        Ok(Self(types.map(|t| read_type(dir, meta, parts, NodeTypeId(t))).collect::<Result<_, _>>()?))
    }
}

fn read_type(dir: &Path, meta: &Meta, parts: &[Part], node_type: NodeTypeId) -> Result<IdMap, TableError> {
    let of_type = &meta.node_types[node_type.index()];
    let num_nodes = of_type.book.num_nodes();
    if !of_type.has_id_map {
        return Ok(IdMap::of_rows(num_nodes as u32));
    }
    let mut columns = Vec::with_capacity(parts.len());
    // The part of each original id. The rows of a part are in the order of their original ids.
    let mut part_of = vec![NO_PART; num_nodes];
    for (at, part) in parts.iter().enumerate() {
        let name = node_file(DiskPartId(at as u32), &of_type.name, ID_MAP_FILE);
        let path = dir.join(&name);
        let column = read_column(meta.open_file(dir, &name)?).map_err(|error| TableError::table(&path, error))?;
        let originals = &part.nodes(node_type).original_ids;
        if column.len() != originals.len() {
            let why = format!("it has {} rows, but the part has {} nodes", column.len(), originals.len());
            return Err(TableError::file(path, why));
        }
        for &original in originals.iter() {
            match part_of.get_mut(original as usize) {
                Some(part) if *part == NO_PART => *part = at as u32,
                _ => return Err(TableError::file(path, DAMAGED)),
            }
        }
        if !originals.is_sorted() {
            return Err(TableError::file(path, DAMAGED));
        }
        columns.push(column);
    }
    let are_numbers = columns.iter().all(|column| matches!(column, Column::Numbers(_)));
    let mut ids = if are_numbers { IdMap::of_numbers() } else { IdMap::new() };
    let mut next = vec![0; columns.len()];
    for part in part_of {
        // Each of as many original ids as nodes has a part, since none has two.
        let Some(row) = next.get_mut(part as usize) else {
            return Err(TableError::file(dir.join(META_FILE), DAMAGED));
        };
        if ids.insert(columns[part as usize].id(*row)) != Inserted::New {
            let path = dir.join(node_file(DiskPartId(part), &of_type.name, ID_MAP_FILE));
            return Err(TableError::file(
                path,
                "it has an id that another node has as well: partition the graph again",
            ));
        }
        *row += 1;
    }
    Ok(ids)
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(ids) => ids.len(),
            Self::Texts(_, ends) => ends.len(),
        }
    }

    fn id(&self, row: usize) -> Id<'_> {
        match self {
            Self::Numbers(ids) => Id::Number(ids[row]),
            Self::Texts(texts, ends) => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                Id::Text(&texts[start..ends[row]])
            }
        }
    }
}

/// Reads the first column of an id map.
fn read_column(file: File) -> Result<Column, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let is_text = columns.first().is_some_and(|column| column.physical_type() == Type::BYTE_ARRAY);
    let mut numbers = Vec::new();
    let mut texts = String::new();
    let mut ends = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = group.metadata().num_rows().max(0) as usize;
        let column = group.get_column_reader(0)?;
        if is_text {
            for text in values::<ByteArrayType>(column, rows)? {
                texts.push_str(text.as_utf8()?);
                ends.push(texts.len());
            }
        } else if matches!(column, ColumnReader::Int64ColumnReader(_)) {
            numbers.extend(values::<Int64Type>(column, rows)?);
        } else {
            return Err(ParquetError::General("its first column is neither INT64 nor BYTE_ARRAY".into()));
        }
    }
    Ok(if is_text { Column::Texts(texts, ends) } else { Column::Numbers(numbers) })
}

fn values<T: DataType>(reader: ColumnReader, rows: usize) -> Result<Vec<T::T>, ParquetError> {
    // The file tells the number of rows, so no memory is reserved for it.
    let mut values = Vec::new();
    let (_, read, _) = get_typed_column_reader::<T>(reader).read_records(rows, None, None, &mut values)?;
    if read != rows {
        return Err(ParquetError::General(format!("a row group has {read} values, expected {rows}")));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::part_writer::{ExtraFiles, Grouped, WriteOptions, write_parts_with};
    use edgecut_graph::readers::{FakeOptions, fake};
    use edgecut_graph::{Provenance, Workspace};

    #[test]
    fn parts_that_do_not_belong_together_are_errors() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path();
        let graph = fake(&FakeOptions { avg_num_nodes: 10, ..FakeOptions::default() }).expect("a graph");
        let assignment = [(0..10).map(|node| node % 2).collect::<Vec<u32>>()];
        let made = r#"{"method": "random", "recursive": false, "seed": 0, "balance": [], "split": null}"#;
        let provenance: Provenance = serde_json::from_str(made).expect("a record");
        let mut map = IdMap::of_numbers();
        (0..10).for_each(|id| assert_eq!(map.insert(Id::Number(id)), Inserted::New));
        let maps = IdMaps(vec![map]);
        let grouped = Grouped::new_in(&Workspace::default(), graph).expect("edges");
        let options = WriteOptions { num_parts: 2, provenance, is_synced: false };
        let extra = ExtraFiles { nodes: &maps, ..ExtraFiles::default() };
        write_parts_with(grouped, &assignment, options, dir, &(), extra).expect("parts");
        let open = |part| Part::open(dir, DiskPartId(part), true).expect("a part");
        let read = IdMaps::read(dir, &[open(0), open(1)]).expect("maps");
        // The numbers 0 to 9 are ids, as the parts say.
        assert!(matches!(read.0[0].ids(), crate::UserIds::Numbers(numbers) if numbers.len() == 10));
        for parts in [vec![open(0), open(0)], vec![open(0)], vec![]] {
            let is_empty = parts.is_empty();
            match IdMaps::read(dir, &parts) {
                Ok(maps) => assert!(is_empty && maps.0.is_empty()),
                Err(error) => assert!(error.to_string().contains("do not belong together"), "{error}"),
            }
        }
    }
}

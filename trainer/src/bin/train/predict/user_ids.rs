//! The ids of nodes as their owners know them, for graphs from tables.

use anyhow::{Context, ensure};
use edgecut_graph::{ID_MAP_FILE, Meta, NodeTypeId, PartitionId, node_dir, part_dir};
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::path::Path;

/// The ids of the nodes of some parts.
pub(super) struct UserIds {
    /// The first global id of each part and its ids, ascending.
    parts: Vec<(u32, UserColumn)>,
    is_text: bool,
}

/// A column of ids.
#[derive(Clone, Debug)]
pub(super) enum UserColumn {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
}

impl UserIds {
    /// Reads the ids of the nodes of a type in the parts that hold `nodes`, which are global ids. Returns `None` for a
    /// type whose ids are row numbers.
    ///
    /// # Errors
    /// Fails if a file cannot be read, and for a file with another number of rows than its part.
    pub(super) fn open(
        root: &Path,
        meta: &Meta,
        node_type: NodeTypeId,
        nodes: impl Iterator<Item = u32>,
    ) -> anyhow::Result<Option<Self>> {
        let of_type = &meta.node_types[node_type.index()];
        if !of_type.has_id_map {
            return Ok(None);
        }
        let mut is_needed = vec![false; meta.num_parts as usize];
        nodes.for_each(|node| is_needed[of_type.book.owner(edgecut_graph::GlobalNodeId(node)).index()] = true);
        let mut parts = Vec::new();
        let mut is_text = false;
        for part in (0..meta.num_parts).filter(|&part| is_needed[part as usize]).map(PartitionId) {
            let path = root.join(part_dir(part)).join(node_dir(&of_type.name)).join(ID_MAP_FILE);
            let range = of_type.book.range(part);
            let column = read(&path).with_context(|| format!("read the ids of nodes in {}", path.display()))?;
            ensure!(
                column.len() == range.len(),
                "{}: it has {} rows, but the part has {} nodes: copy or partition it again",
                path.display(),
                column.len(),
                range.len()
            );
            is_text |= matches!(column, UserColumn::Texts(_));
            parts.push((range.start, column));
        }
        Ok(Some(Self { parts, is_text }))
    }

    /// Returns an empty column of the type of the ids.
    pub(super) fn empty(&self) -> UserColumn {
        if self.is_text { UserColumn::Texts(Vec::new()) } else { UserColumn::Numbers(Vec::new()) }
    }

    /// Returns the ids of nodes, which are global ids in the parts that were read.
    pub(super) fn of(&self, nodes: &[u32]) -> UserColumn {
        let mut column = self.empty();
        for &node in nodes {
            let at = self.parts.partition_point(|(first, _)| *first <= node) - 1;
            let (first, ids) = &self.parts[at];
            let row = (node - first) as usize;
            match (&mut column, ids) {
                (UserColumn::Numbers(out), UserColumn::Numbers(ids)) => out.push(ids[row]),
                (UserColumn::Texts(out), UserColumn::Texts(ids)) => out.push(ids[row].clone()),
                // All parts of a run have one type.
                _ => unreachable!("the type of the ids is that of all parts"),
            }
        }
        column
    }
}

impl UserColumn {
    /// Returns the number of ids.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(ids) => ids.len(),
            Self::Texts(ids) => ids.len(),
        }
    }

    /// Appends ids of the same type.
    pub(super) fn extend(&mut self, more: &Self) {
        match (self, more) {
            (Self::Numbers(ids), Self::Numbers(more)) => ids.extend(more),
            (Self::Texts(ids), Self::Texts(more)) => ids.extend(more.iter().cloned()),
            _ => unreachable!("a file has ids of one type"),
        }
    }

    /// Removes all ids.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Numbers(ids) => ids.clear(),
            Self::Texts(ids) => ids.clear(),
        }
    }

    /// Returns the field of a row in a CSV file.
    pub(super) fn csv_field(&self, row: usize) -> String {
        match self {
            Self::Numbers(ids) => ids[row].to_string(),
            Self::Texts(ids) => {
                let text = String::from_utf8_lossy(ids[row].data());
                let is_special = |c: char| matches!(c, ',' | '"' | '\n' | '\r');
                if text.contains(is_special) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into_owned() }
            }
        }
    }
}

/// Reads the first column of an id map.
fn read(path: &Path) -> anyhow::Result<UserColumn> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let is_text = columns.first().context("it has no columns")?.physical_type() == Type::BYTE_ARRAY;
    let mut column = if is_text { UserColumn::Texts(Vec::new()) } else { UserColumn::Numbers(Vec::new()) };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = group.metadata().num_rows().max(0) as usize;
        match (&mut column, group.get_column_reader(0)?) {
            (UserColumn::Numbers(ids), reader @ ColumnReader::Int64ColumnReader(_)) => {
                read_column::<parquet::data_type::Int64Type>(reader, rows, ids)?;
            }
            (UserColumn::Texts(ids), reader @ ColumnReader::ByteArrayColumnReader(_)) => {
                read_column::<parquet::data_type::ByteArrayType>(reader, rows, ids)?;
            }
            _ => anyhow::bail!("its first column is neither INT64 nor BYTE_ARRAY"),
        }
    }
    Ok(column)
}

/// Appends the values of a column of a row group.
fn read_column<T: DataType>(reader: ColumnReader, rows: usize, out: &mut Vec<T::T>) -> anyhow::Result<()> {
    let (_, read, _) = get_typed_column_reader::<T>(reader).read_records(rows, None, None, out)?;
    ensure!(read == rows, "a row group has {read} values, expected {rows}");
    Ok(())
}

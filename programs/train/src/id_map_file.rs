//! The ids of nodes as their owners know them, for graphs from tables.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

use anyhow::{Context, bail, ensure};
use edgecut_graph::{DiskPartId, GlobalNodeId, ID_MAP_FILE, NodeTypeId, Part, node_file};
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// The ids of the nodes of some parts on disk.
#[derive(Debug)]
pub(crate) enum UserIds {
    Numbers(Vec<OfPart<i64>>),
    Texts(Vec<OfPart<ByteArray>>),
}

/// The ids of the nodes of a part on disk.
#[derive(Debug)]
pub(crate) struct OfPart<T> {
    /// The global id of the first node.
    first: u32,
    /// The ids in the order of the global ids.
    ids: Vec<T>,
}

/// A column of ids.
#[derive(Clone, Debug)]
pub(crate) enum UserColumn {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
}

impl UserIds {
    /// Reads the ids of the nodes of a type in the parts on disk that hold `nodes`, which are global ids. `root` is the
    /// folder of the parts, and `own` the part of this process. Returns `None` for a type whose ids are row numbers.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is not that of `META.json`, for a file with another number of rows than its part,
    /// and for ids that are numbers in one part and texts in another.
    pub(crate) fn open(
        root: &Path,
        own: &Part,
        node_type: NodeTypeId,
        nodes: impl Iterator<Item = u32>,
    ) -> anyhow::Result<Option<Self>> {
        let meta = own.meta();
        if !meta.node_types[node_type.index()].has_id_map {
            return Ok(None);
        }
        let book = meta.book_on_disk(node_type);
        let mut parts: BTreeSet<DiskPartId> = nodes.map(|node| book.owner(GlobalNodeId(node))).collect();
        if parts.is_empty() {
            // A process without nodes also writes a file, whose columns have the types of the others.
            parts.extend(own.parts_on_disk().take(1));
        }
        Self::of_parts(root, own, node_type, parts.into_iter()).map(Some)
    }

    /// Reads the ids of the nodes of a type in parts on disk, in ascending order.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(crate) fn of_parts(
        root: &Path,
        own: &Part,
        node_type: NodeTypeId,
        parts: impl Iterator<Item = DiskPartId>,
    ) -> anyhow::Result<Self> {
        let meta = own.meta();
        let of_type = &meta.node_types[node_type.index()];
        let book = meta.book_on_disk(node_type);
        let mut numbers = Vec::new();
        let mut texts = Vec::new();
        for part in parts {
            let name = node_file(part, &of_type.name, ID_MAP_FILE);
            let path = root.join(&name);
            let column = read(meta.open_file(root, &name)?)
                .with_context(|| format!("read the ids of nodes in {}", path.display()))?;
            let range = book.range(part);
            ensure!(
                column.len() == range.len(),
                "{}: it has {} rows, but the part has {} nodes: copy or partition it again",
                path.display(),
                column.len(),
                range.len()
            );
            match column {
                UserColumn::Numbers(ids) => numbers.push(OfPart { first: range.start, ids }),
                UserColumn::Texts(ids) => texts.push(OfPart { first: range.start, ids }),
            }
            ensure!(
                numbers.is_empty() || texts.is_empty(),
                "{}: the ids of the nodes are numbers in some parts and texts in others: partition the graph again",
                path.display()
            );
        }
        Ok(if texts.is_empty() { Self::Numbers(numbers) } else { Self::Texts(texts) })
    }

    /// Returns an empty column of the type of the ids.
    pub(crate) fn empty(&self) -> UserColumn {
        match self {
            Self::Numbers(_) => UserColumn::Numbers(Vec::new()),
            Self::Texts(_) => UserColumn::Texts(Vec::new()),
        }
    }

    /// Returns true if the part of a node, which is a global id, was read.
    pub(crate) fn has(&self, node: u32) -> bool {
        match self {
            Self::Numbers(parts) => position_of(parts, node).is_some(),
            Self::Texts(parts) => position_of(parts, node).is_some(),
        }
    }

    /// Returns the ids of nodes, which are global ids.
    ///
    /// # Errors
    /// Fails for a node in a part that was not read.
    pub(crate) fn of(&self, nodes: &[u32]) -> anyhow::Result<UserColumn> {
        Ok(match self {
            Self::Numbers(parts) => UserColumn::Numbers(ids_of(parts, nodes)?),
            Self::Texts(parts) => UserColumn::Texts(ids_of(parts, nodes)?),
        })
    }
}

/// Looks up the ids of nodes in parts whose first nodes ascend.
fn ids_of<T: Clone>(parts: &[OfPart<T>], nodes: &[u32]) -> anyhow::Result<Vec<T>> {
    let mut ids = Vec::with_capacity(nodes.len());
    for &node in nodes {
        let found = position_of(parts, node).with_context(|| format!("the id of node {node} was not read"))?;
        ids.push(parts[found.part].ids[found.row].clone());
    }
    Ok(ids)
}

/// The position of the id of a node.
struct Position {
    part: usize,
    row: usize,
}

/// Finds a node in parts whose first nodes ascend.
fn position_of<T>(parts: &[OfPart<T>], node: u32) -> Option<Position> {
    let part = parts.partition_point(|part| part.first <= node).checked_sub(1)?;
    let row = (node - parts[part].first) as usize;
    (row < parts[part].ids.len()).then_some(Position { part, row })
}

impl UserColumn {
    /// Returns the number of ids.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Numbers(ids) => ids.len(),
            Self::Texts(ids) => ids.len(),
        }
    }

    /// Appends ids of the same type.
    ///
    /// # Errors
    /// Fails for ids of the other type.
    pub(crate) fn extend(&mut self, more: &Self) -> anyhow::Result<()> {
        match (self, more) {
            (Self::Numbers(ids), Self::Numbers(more)) => ids.extend(more),
            (Self::Texts(ids), Self::Texts(more)) => ids.extend(more.iter().cloned()),
            _ => bail!("the ids of the nodes are numbers and texts"),
        }
        Ok(())
    }

    /// Returns the bytes of an id, which [`push`](Self::push) takes.
    pub(crate) fn bytes(&self, row: usize) -> Vec<u8> {
        match self {
            Self::Numbers(ids) => ids[row].to_le_bytes().to_vec(),
            Self::Texts(ids) => ids[row].data().to_vec(),
        }
    }

    /// Appends an id of the same type.
    ///
    /// # Errors
    /// Fails for other bytes than of a number.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Numbers(ids) => ids.push(i64::from_le_bytes(bytes.try_into().context("an id is no number")?)),
            Self::Texts(ids) => ids.push(ByteArray::from(bytes.to_vec())),
        }
        Ok(())
    }

    /// Returns the ids of some rows.
    pub(crate) fn rows(&self, rows: &[usize]) -> Self {
        match self {
            Self::Numbers(ids) => Self::Numbers(rows.iter().map(|&row| ids[row]).collect()),
            Self::Texts(ids) => Self::Texts(rows.iter().map(|&row| ids[row].clone()).collect()),
        }
    }

    /// Removes all ids.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Numbers(ids) => ids.clear(),
            Self::Texts(ids) => ids.clear(),
        }
    }

    /// Returns a row as text.
    pub(crate) fn text(&self, row: usize) -> String {
        match self {
            Self::Numbers(ids) => ids[row].to_string(),
            Self::Texts(ids) => String::from_utf8_lossy(ids[row].data()).into_owned(),
        }
    }

    /// Returns the field of a row in a CSV file.
    pub(crate) fn csv_field(&self, row: usize) -> String {
        csv_text(&self.text(row))
    }
}

/// Returns the field of a text in a CSV file.
pub(crate) fn csv_text(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Reads the first column of an id map.
fn read(file: File) -> anyhow::Result<UserColumn> {
    let reader = SerializedFileReader::new(file)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let is_text = columns.first().context("it has no columns")?.physical_type() == Type::BYTE_ARRAY;
    let mut column = if is_text { UserColumn::Texts(Vec::new()) } else { UserColumn::Numbers(Vec::new()) };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = group.metadata().num_rows().max(0) as usize;
        match (&mut column, group.get_column_reader(0)?) {
            (UserColumn::Numbers(ids), reader @ ColumnReader::Int64ColumnReader(_)) => {
                read_column::<Int64Type>(reader, rows, ids)?;
            }
            (UserColumn::Texts(ids), reader @ ColumnReader::ByteArrayColumnReader(_)) => {
                read_column::<ByteArrayType>(reader, rows, ids)?;
            }
            _ => bail!("its first column is neither INT64 nor BYTE_ARRAY"),
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

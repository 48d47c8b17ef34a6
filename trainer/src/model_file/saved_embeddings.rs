//! The embeddings of a saved model, read row by row.

use super::embedding_index::{EmbeddingIndex, shard_folder};
use super::file_header::FileHeader;
use super::shard_writer::SHARD_FORMAT;
use super::{ModelFileError, embedding_name, original_ids_name};
use crate::embeddings::EmbeddingTable;
use edgecut_dist_sampler::SetRow;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// About so many bytes of a table are in memory at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Rows that are not wanted are read together with those around them if they have no more bytes.
const GAP_BYTES: usize = 16 << 10;

/// The embeddings that a saved model reads: in memory, or still in their files. Each process takes the rows that it needs
/// from there, so that no process holds a whole table.
#[derive(Clone, Debug)]
pub struct SavedEmbeddings {
    contents: Contents,
}

#[derive(Clone, Debug)]
enum Contents {
    InMemory(Vec<EmbeddingTable>),
    InFiles { model: PathBuf, index: EmbeddingIndex },
}

/// Rows that are wanted of a table.
pub(crate) struct WantedRows<'a> {
    pub(crate) node_type: &'a str,
    pub(crate) dim: usize,
    pub(crate) num_nodes: usize,
    /// Original ids, ascending.
    pub(crate) nodes: &'a [u32],
    /// The shard that is looked at first: the one that held these nodes when the model was saved by as many processes.
    pub(crate) first_shard: usize,
}

impl SavedEmbeddings {
    pub(super) fn in_memory(tables: Vec<EmbeddingTable>) -> Self {
        Self { contents: Contents::InMemory(tables) }
    }

    pub(super) fn in_files(model: &Path, index: EmbeddingIndex) -> Self {
        Self { contents: Contents::InFiles { model: model.to_owned(), index } }
    }

    /// Reads all tables whole.
    ///
    /// # Errors
    /// [`ModelFileError`] if a file is missing or damaged.
    pub fn into_tables(self) -> Result<Vec<EmbeddingTable>, ModelFileError> {
        let entries = match &self.contents {
            Contents::InFiles { index, .. } => index.tables.clone(),
            Contents::InMemory(_) => Vec::new(),
        };
        if let Contents::InMemory(tables) = self.contents {
            return Ok(tables);
        }
        let mut tables = Vec::with_capacity(entries.len());
        for entry in entries {
            let nodes: Vec<u32> = (0..entry.num_nodes as u32).collect();
            let dim = entry.dim;
            let wanted = WantedRows {
                node_type: &entry.node_type,
                dim,
                num_nodes: entry.num_nodes,
                nodes: &nodes,
                first_shard: 0,
            };
            let mut values = vec![0.0; entry.num_nodes * dim];
            self.read_rows(&wanted, &mut |row, found| values[row * dim..][..dim].copy_from_slice(found))?;
            tables.push(EmbeddingTable { node_type: entry.node_type.clone(), dim, values });
        }
        Ok(tables)
    }

    /// Gives each wanted row once to `set`, by its position among the wanted ones.
    ///
    /// # Errors
    /// [`ModelFileError::Shard`] for a table of another size, rows that are in no file, or a damaged file;
    /// [`ModelFileError::MissingShards`] if files are missing that may hold some of the rows.
    pub(crate) fn read_rows(&self, wanted: &WantedRows<'_>, set: SetRow<'_>) -> Result<(), ModelFileError> {
        match &self.contents {
            Contents::InMemory(tables) => read_from_memory(tables, wanted, set),
            Contents::InFiles { model, index } => Files { model, index, wanted }.read(set),
        }
    }
}

fn read_from_memory(tables: &[EmbeddingTable], wanted: &WantedRows<'_>, set: SetRow<'_>) -> Result<(), ModelFileError> {
    let WantedRows { node_type, dim, num_nodes, nodes, .. } = *wanted;
    let table = tables.iter().find(|table| table.node_type == node_type);
    let held = table.map_or(0, |table| table.values.len());
    let Some(table) = table.filter(|_| held == num_nodes * dim) else {
        let what = format!("an embedding of {held} values was given for {num_nodes} nodes of {dim} values");
        return Err(ModelFileError::Shard { path: PathBuf::from("model"), what });
    };
    for (row, &node) in nodes.iter().enumerate() {
        set(row, &table.values[node as usize * dim..][..dim]);
    }
    Ok(())
}

/// The files of a model, and what is wanted of them.
struct Files<'a> {
    model: &'a Path,
    index: &'a EmbeddingIndex,
    wanted: &'a WantedRows<'a>,
}

impl Files<'_> {
    fn wrong(&self, what: String) -> ModelFileError {
        ModelFileError::Shard { path: self.model.to_owned(), what }
    }

    fn read(&self, set: SetRow<'_>) -> Result<(), ModelFileError> {
        let WantedRows { node_type, dim, num_nodes, nodes, first_shard } = *self.wanted;
        let number = self.index.tables.iter().position(|table| table.node_type == node_type);
        let Some(number) = number else {
            return Err(self.wrong(format!("it has no embedding of node type {node_type}")));
        };
        let table = &self.index.tables[number];
        if (table.num_nodes, table.dim) != (num_nodes, dim) {
            return Err(self.wrong(format!(
                "its embedding of node type {node_type} is for {} nodes of {} values, but the graph has {num_nodes} nodes of \
                 {dim} values",
                table.num_nodes, table.dim
            )));
        }
        let mut rows = Rows { nodes, found: vec![false; nodes.len()], left: nodes.len() };
        if self.index.save.is_empty() {
            self.read_shard(self.model, num_nodes, &mut rows, set)?;
        }
        let folder = shard_folder(self.model)?;
        let mut missing = Vec::new();
        let count = self.index.shards.len();
        for shard in (0..count).map(|i| &self.index.shards[(first_shard + i) % count]) {
            if rows.left == 0 || shard.rows[number] == 0 {
                continue;
            }
            let path = folder.join(&shard.file);
            match self.read_shard(&path, shard.rows[number], &mut rows, set) {
                Err(ModelFileError::Read { path, source }) if source.kind() == ErrorKind::NotFound => {
                    missing.push(path)
                }
                read => read?,
            }
        }
        let Some(lacking) = rows.found.iter().position(|found| !found) else { return Ok(()) };
        if missing.is_empty() {
            let left = rows.left;
            let node = nodes[lacking];
            return Err(self.wrong(format!(
                "its files hold no row of {left} nodes of type {node_type}, the first of which is {node}: it is not complete"
            )));
        }
        Err(ModelFileError::MissingShards {
            path: self.model.to_owned(),
            node_type: node_type.to_owned(),
            rows: rows.left,
            files: missing,
        })
    }

    /// Reads the wanted rows of one file, which holds `num_rows` of the table.
    fn read_shard(
        &self,
        path: &Path,
        num_rows: usize,
        rows: &mut Rows<'_>,
        set: SetRow<'_>,
    ) -> Result<(), ModelFileError> {
        let header = FileHeader::read(path)?;
        let WantedRows { node_type, dim, .. } = *self.wanted;
        let wrong = |what: String| ModelFileError::Shard { path: path.to_owned(), what };
        let tensor = |name: &str, dtype: Dtype, shape: &[usize]| {
            let missing = || ModelFileError::MissingTensor { path: path.to_owned(), tensor: name.to_owned() };
            let info = header.tensor(name).ok_or_else(missing)?;
            if info.dtype != dtype || info.shape != shape {
                let found = info.dtype;
                let found_shape = &info.shape;
                return Err(wrong(format!(
                    "tensor {name} is {found:?} of shape {found_shape:?}, expected {dtype:?} of shape {shape:?}"
                )));
            }
            Ok(info.clone())
        };
        let values = tensor(&embedding_name(node_type), Dtype::F32, &[num_rows, dim])?;
        let is_whole = self.index.save.is_empty();
        if !is_whole {
            let metadata = header.metadata();
            let entry = |key: &str| metadata.get(key).map(String::as_str);
            if entry("format") != Some(SHARD_FORMAT) || entry("save") != Some(self.index.save.as_str()) {
                return Err(wrong("it holds no embeddings of this model".into()));
            }
        }
        let ids_name = original_ids_name(node_type);
        let ids = (!is_whole).then(|| tensor(&ids_name, Dtype::U32, &[num_rows])).transpose()?;
        let mut shard = Shard { header: &header, dim, values, bytes: Vec::new(), row: vec![0.0; dim] };
        let rows_per_piece = (PIECE_BYTES / (dim * size_of::<f32>())).max(1);
        let mut last = None;
        for start in (0..num_rows).step_by(rows_per_piece) {
            let piece = start..num_rows.min(start + rows_per_piece);
            let nodes = match &ids {
                // A single file holds all rows in the order of the original ids.
                None => piece.clone().map(|row| row as u32).collect(),
                Some(ids) => shard.ids(ids, &piece)?,
            };
            if last >= nodes.first().copied() || !nodes.is_sorted_by(|a, b| a < b) {
                return Err(wrong(format!("the ids of node type {node_type} do not ascend")));
            }
            last = nodes.last().copied();
            let taken = rows.take(&nodes).map_err(|node| {
                wrong(format!("it holds a row of node {node} of type {node_type} that another file holds as well"))
            })?;
            shard.read(start, &taken, set)?;
            if rows.left == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// The rows that are wanted, and those that were found.
struct Rows<'a> {
    nodes: &'a [u32],
    found: Vec<bool>,
    left: usize,
}

/// A row of a piece of a file, and its position among those that are wanted.
struct Taken {
    in_piece: usize,
    wanted: usize,
}

impl Rows<'_> {
    /// The wanted ones of some nodes, which ascend.
    ///
    /// # Errors
    /// A node that was found before.
    fn take(&mut self, nodes: &[u32]) -> Result<Vec<Taken>, u32> {
        let mut taken = Vec::new();
        let Some(first) = nodes.first() else { return Ok(taken) };
        let mut wanted = self.nodes.partition_point(|node| node < first);
        for (in_piece, &node) in nodes.iter().enumerate() {
            while self.nodes.get(wanted).is_some_and(|&next| next < node) {
                wanted += 1;
            }
            if self.nodes.get(wanted) != Some(&node) {
                continue;
            }
            if std::mem::replace(&mut self.found[wanted], true) {
                return Err(node);
            }
            self.left -= 1;
            taken.push(Taken { in_piece, wanted });
        }
        Ok(taken)
    }
}

/// A table in an open file.
struct Shard<'a> {
    header: &'a FileHeader<'a>,
    dim: usize,
    values: TensorInfo,
    bytes: Vec<u8>,
    row: Vec<f32>,
}

impl Shard<'_> {
    /// The original ids of some rows.
    fn ids(&mut self, info: &TensorInfo, rows: &Range<usize>) -> Result<Vec<u32>, ModelFileError> {
        self.bytes.resize(rows.len() * size_of::<u32>(), 0);
        self.header.read_at(info, rows.start * size_of::<u32>(), &mut self.bytes)?;
        let (words, _) = self.bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Reads rows of the piece that begins at the row `start`. Rows that lie near each other are read together.
    fn read(&mut self, start: usize, taken: &[Taken], set: SetRow<'_>) -> Result<(), ModelFileError> {
        let row_bytes = self.dim * size_of::<f32>();
        let max_gap = GAP_BYTES / row_bytes + 1;
        for near in taken.chunk_by(|a, b| b.in_piece - a.in_piece <= max_gap) {
            let first = near[0].in_piece;
            let rows = near.last().map_or(0, |last| last.in_piece + 1 - first);
            self.bytes.resize(rows * row_bytes, 0);
            self.header.read_at(&self.values, (start + first) * row_bytes, &mut self.bytes)?;
            for taken in near {
                let (words, _) = self.bytes[(taken.in_piece - first) * row_bytes..][..row_bytes].as_chunks::<4>();
                self.row.iter_mut().zip(words).for_each(|(value, word)| *value = f32::from_le_bytes(*word));
                if let Some(column) = self.row.iter().position(|value| !value.is_finite()) {
                    let row = start + taken.in_piece;
                    let what = format!("row {row} of its embeddings holds {}", self.row[column]);
                    return Err(ModelFileError::Shard { path: self.header.path.to_owned(), what });
                }
                set(taken.wanted, &self.row);
            }
        }
        Ok(())
    }
}

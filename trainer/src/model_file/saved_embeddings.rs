//! The reader of the embeddings of a saved model, row by row.

use super::EmbeddingTable;
use super::embedding_index::{EmbeddingIndex, TableEntry, shard_folder};
use super::file_header::FileHeader;
use super::shard_writer::SHARD_FORMAT;
use super::{ModelFileError, ReadData, TrainedOn, embedding_name, original_ids_name};
use edgecut_dist_sampler::SetRow;
use edgecut_graph::Meta;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The approximate number of bytes of a table that are in memory at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The maximum number of unneeded bytes between two wanted rows that are read in one system call instead of two.
const GAP_BYTES: usize = 16 << 10;

/// The embeddings of a saved model, in memory or in their files. Each process reads only the rows that it needs, so
/// that no process holds a whole table.
#[derive(Clone, Debug)]
pub struct SavedEmbeddings {
    contents: Contents,
    trained_on: Option<TrainedOn>,
}

#[derive(Clone, Debug)]
enum Contents {
    InMemory(Vec<EmbeddingTable>),
    InFiles { model: PathBuf, index: EmbeddingIndex },
}

/// The size of the embeddings of a node type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingSize {
    /// The name of the node type.
    pub node_type: String,
    /// The number of nodes.
    pub num_nodes: usize,
    /// The number of values per node.
    pub dim: usize,
}

/// The rows of a table that a process needs.
pub(crate) struct WantedRows<'a> {
    pub(crate) node_type: &'a str,
    pub(crate) dim: usize,
    pub(crate) num_nodes: usize,
    /// The original ids of the rows' nodes, ascending.
    pub(crate) nodes: &'a [u32],
    /// The shard to read first. It holds these nodes if as many processes saved the model.
    pub(crate) first_shard: usize,
}

impl SavedEmbeddings {
    pub(super) fn in_memory(tables: Vec<EmbeddingTable>) -> Self {
        Self { contents: Contents::InMemory(tables), trained_on: None }
    }

    pub(super) fn in_files(model: &Path, index: EmbeddingIndex) -> Self {
        Self { contents: Contents::InFiles { model: model.to_owned(), index }, trained_on: None }
    }

    pub(super) fn of_data(mut self, trained_on: Option<TrainedOn>) -> Self {
        self.trained_on = trained_on;
        self
    }

    /// Checks that the rows of a type belong to the nodes of a graph.
    ///
    /// # Errors
    /// [`ModelFileError::OtherData`] if the nodes of the training have other ids.
    pub(crate) fn check_nodes(&self, meta: &Meta, node_type: &str) -> Result<(), ModelFileError> {
        if !self.has_other_nodes(meta, node_type) {
            return Ok(());
        }
        let path = match &self.contents {
            Contents::InMemory(_) => PathBuf::from("model"),
            Contents::InFiles { model, .. } => model.clone(),
        };
        let what = format!(
            "the nodes of type {node_type} are not those of its training: the table has other ids, or its rows are in \
             another order. Its embeddings belong to row numbers, so make the parts from the same rows in the same \
             order, or train a model for this graph"
        );
        Err(ModelFileError::OtherData { path, what })
    }

    /// Describes the first difference between the features of the training and those of a graph.
    pub(crate) fn other_data(&self, meta: &Meta) -> Option<String> {
        self.trained_on.as_ref().and_then(|trained_on| trained_on.difference(meta, ReadData::default()))
    }

    /// Returns true if the nodes of a type are not those of the training.
    pub(crate) fn has_other_nodes(&self, meta: &Meta, node_type: &str) -> bool {
        self.trained_on.as_ref().is_some_and(|trained_on| trained_on.has_other_nodes(meta, node_type))
    }

    /// Reads all tables completely into memory.
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

    /// Returns the sizes of the tables.
    pub fn sizes(&self) -> Vec<EmbeddingSize> {
        match &self.contents {
            Contents::InMemory(tables) => {
                let size = |table: &EmbeddingTable| EmbeddingSize {
                    node_type: table.node_type.clone(),
                    num_nodes: table.values.len() / table.dim.max(1),
                    dim: table.dim,
                };
                tables.iter().map(size).collect()
            }
            Contents::InFiles { index, .. } => {
                let size = |table: &TableEntry| EmbeddingSize {
                    node_type: table.node_type.clone(),
                    num_nodes: table.num_nodes,
                    dim: table.dim,
                };
                index.tables.iter().map(size).collect()
            }
        }
    }

    /// Reads the rows of nodes of a type, which are original ids in ascending order.
    ///
    /// # Errors
    /// [`ModelFileError`] if there is no such row, or a file is missing or damaged.
    pub fn rows(&self, size: &EmbeddingSize, nodes: &[u32]) -> Result<Vec<f32>, ModelFileError> {
        let EmbeddingSize { node_type, num_nodes, dim } = size;
        let wanted = WantedRows { node_type, dim: *dim, num_nodes: *num_nodes, nodes, first_shard: 0 };
        let mut values = vec![0.0; nodes.len() * dim];
        self.read_rows(&wanted, &mut |row, found| values[row * dim..][..*dim].copy_from_slice(found))?;
        Ok(values)
    }

    /// Calls `set` once for each wanted row, with its position in `wanted.nodes` and its values.
    ///
    /// # Errors
    /// [`ModelFileError::Shard`] if the table has another size, if no file holds a row, or if a file is damaged;
    /// [`ModelFileError::MissingShards`] if files that may hold some of the rows are missing.
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
        let what = format!(
            "its embedding of node type {node_type} has {held} values, but the graph needs {num_nodes} nodes of {dim} \
             values"
        );
        return Err(ModelFileError::Shard { path: PathBuf::from("model"), what });
    };
    for (row, &node) in nodes.iter().enumerate() {
        set(row, &table.values[node as usize * dim..][..dim]);
    }
    Ok(())
}

/// The files of a model, and the rows to read from them.
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
                "its embedding of node type {node_type} is for {} nodes of {} values, but the graph has {num_nodes} \
                 nodes of {dim} values",
                table.num_nodes, table.dim
            )));
        }
        let mut rows = Rows { nodes, found: vec![false; nodes.len()], left: nodes.len() };
        if self.index.save.is_empty() {
            self.read_shard(self.model, num_nodes, &mut rows, set)?;
        }
        // Shards that are missing are only an error if the others do not hold all wanted rows: a process does not need
        // the rows of other nodes' shards.
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
                "it is incomplete: its files lack the rows of {left} nodes of type {node_type}, the first of them is \
                 node {node}"
            )));
        }
        Err(ModelFileError::MissingShards {
            path: self.model.to_owned(),
            node_type: node_type.to_owned(),
            rows: rows.left,
            files: missing,
        })
    }

    /// Reads the wanted rows of one file, which holds `num_rows` rows of the table.
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
                return Err(wrong("it does not hold embeddings of this model".into()));
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
                // A model file that holds the tables itself has all rows in the order of the original ids.
                None => piece.clone().map(|row| row as u32).collect(),
                Some(ids) => shard.ids(ids, &piece)?,
            };
            if last >= nodes.first().copied() || !nodes.is_sorted_by(|a, b| a < b) {
                return Err(wrong(format!("the original ids of node type {node_type} are not in ascending order")));
            }
            last = nodes.last().copied();
            let taken = rows.take(&nodes).map_err(|node| {
                wrong(format!("it holds the row of node {node} of type {node_type}, which another file holds as well"))
            })?;
            shard.read(start, &taken, set)?;
            if rows.left == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// The wanted rows, and which of them were found.
struct Rows<'a> {
    nodes: &'a [u32],
    found: Vec<bool>,
    left: usize,
}

/// The position of a row in a piece of a file, and its position among the wanted rows.
struct Taken {
    in_piece: usize,
    wanted: usize,
}

impl Rows<'_> {
    /// Marks the wanted nodes among `nodes` as found and returns their positions. `nodes` must ascend.
    ///
    /// # Errors
    /// The node, if a wanted node was found before.
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
    /// Reads the original ids of some rows.
    fn ids(&mut self, info: &TensorInfo, rows: &Range<usize>) -> Result<Vec<u32>, ModelFileError> {
        self.bytes.resize(rows.len() * size_of::<u32>(), 0);
        self.header.read_at(info, rows.start * size_of::<u32>(), &mut self.bytes)?;
        let (words, _) = self.bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Reads rows of the piece that begins at row `start` and passes them to `set`. Rows near each other are read
    /// together.
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
                    let value = self.row[column];
                    let what = format!("row {row} of its embeddings holds {value}, expected finite values");
                    return Err(ModelFileError::Shard { path: self.header.path.to_owned(), what });
                }
                set(taken.wanted, &self.row);
            }
        }
        Ok(())
    }
}

//! The files with the embeddings of a saved model.

use super::embedding_index::{EmbeddingIndex, ShardEntry, shard_folder};
use super::file_header::FileHeader;
use super::row_ids::{IdKind, SavedIds};
use super::row_reader::RowReader;
use super::saved_embeddings::EmbeddingSize;
use super::shard_writer::SHARD_FORMAT;
use super::table_blocks::{ShardRows, check_kinds};
use super::wanted_rows::{Lookup, Rows, WantedRows};
use super::{ModelFileError, embedding_name, original_ids_name};
use edgecut_dist_sampler::SetRow;
use safetensors::Dtype;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The approximate number of bytes of a table that are in memory at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The files with the embeddings of a model.
#[derive(Clone, Debug)]
pub(super) struct ShardFiles {
    model: PathBuf,
    index: EmbeddingIndex,
    /// The names of the files whose checksums were compared, so that each file is hashed once.
    checked: Arc<Mutex<BTreeSet<String>>>,
}

/// The rows of a table in a file.
struct HeldRows<'a> {
    path: &'a Path,
    num_rows: usize,
    ids: IdKind,
    /// The entry of the file in the index; `None` if the model file itself has the rows.
    shard: Option<&'a ShardEntry>,
}

impl ShardFiles {
    pub(super) fn new(model: &Path, index: EmbeddingIndex) -> Self {
        Self { model: model.to_owned(), index, checked: Arc::default() }
    }

    /// Returns the path of the model.
    pub(super) fn model(&self) -> &Path {
        &self.model
    }

    pub(super) fn index(&self) -> &EmbeddingIndex {
        &self.index
    }

    /// Opens all files with rows of a table, whose ids are of a kind; `None` if ids are not read.
    ///
    /// # Errors
    /// [`ModelFileError::MissingShards`] if files are missing, and others if a file is damaged.
    pub(super) fn open_all(&self, size: &EmbeddingSize, ids: Option<IdKind>) -> Result<Vec<ShardRows>, ModelFileError> {
        let number = self.table_number(&size.node_type)?;
        if let Some(kind) = ids {
            check_kinds(&self.index, number, size, kind).map_err(|what| self.wrong(what))?;
        }
        if self.index.save.is_empty() {
            return Ok(vec![ShardRows::of_model(&self.model, size)?]);
        }
        let folder = shard_folder(&self.model)?;
        let mut shards = Vec::with_capacity(self.index.shards.len());
        let mut missing = Vec::new();
        let mut num_missing = 0;
        for shard in self.index.shards.iter().filter(|shard| shard.rows[number] > 0) {
            let path = folder.join(&shard.file);
            match FileHeader::read(&path) {
                Ok(header) => {
                    self.check_save(&header)?;
                    self.check_once(&header, shard)?;
                    shards.push(ShardRows::open(header, size, shard.rows[number], ids)?);
                }
                Err(ModelFileError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    num_missing += shard.rows[number];
                    missing.push(path);
                }
                Err(error) => return Err(error),
            }
        }
        if missing.is_empty() { Ok(shards) } else { Err(self.missing(&size.node_type, num_missing, missing)) }
    }

    /// Calls `set` once for each wanted row that is saved, with its position in `wanted.nodes` and its values. Returns the
    /// positions of the others, which are new nodes.
    pub(super) fn read_rows(&self, wanted: &WantedRows<'_>, set: SetRow<'_>) -> Result<Vec<usize>, ModelFileError> {
        let WantedRows { node_type, num_nodes, nodes, first_shard, .. } = *wanted;
        let number = self.table_number(node_type)?;
        let table = &self.index.tables[number];
        self.check_size(table, wanted)?;
        let is_by_ids = wanted.ids.is_some();
        // Nodes after the last row of the training are new.
        let num_known =
            if is_by_ids { nodes.len() } else { nodes.partition_point(|&node| (node as usize) < table.num_nodes) };
        let lookup = match &wanted.ids {
            Some(ids) => Lookup::TableIds(ids),
            None => Lookup::OriginalIds(&nodes[..num_known]),
        };
        let mut rows = Rows { lookup, found: vec![false; num_known], left: num_known };
        if self.index.save.is_empty() {
            let held = HeldRows { path: &self.model, num_rows: num_nodes, ids: IdKind::Unknown, shard: None };
            self.read_shard(held, wanted, &mut rows, set)?;
        }
        // Shards that are missing are only an error if the others do not hold all wanted rows: a process does not need
        // the rows of other nodes' shards.
        let folder = shard_folder(&self.model)?;
        let mut missing = Vec::new();
        let count = self.index.shards.len();
        for shard in (0..count).map(|i| &self.index.shards[(first_shard + i) % count]) {
            let num_rows = shard.rows[number];
            if rows.left == 0 || num_rows == 0 {
                continue;
            }
            let path = &folder.join(&shard.file);
            let held = HeldRows { path, num_rows, ids: shard.id_kind(number), shard: Some(shard) };
            match self.read_shard(held, wanted, &mut rows, set) {
                Err(ModelFileError::Read { path, source }) if source.kind() == ErrorKind::NotFound => {
                    missing.push(path)
                }
                read => read?,
            }
        }
        let Some(lacking) = rows.found.iter().position(|found| !found) else {
            return Ok((num_known..nodes.len()).collect());
        };
        if !missing.is_empty() {
            return Err(self.missing(node_type, rows.left, missing));
        }
        if is_by_ids {
            return Ok((0..num_known).filter(|&position| !rows.found[position]).collect());
        }
        let left = rows.left;
        let node = nodes[lacking];
        Err(self.wrong(format!(
            "it is incomplete: its files lack the rows of {left} nodes of type {node_type}, the first of them is node \
             {node}"
        )))
    }

    /// Reads the wanted rows of one file.
    fn read_shard(
        &self,
        held: HeldRows<'_>,
        wanted: &WantedRows<'_>,
        rows: &mut Rows<'_>,
        set: SetRow<'_>,
    ) -> Result<(), ModelFileError> {
        let HeldRows { path, num_rows, ids: kind, shard } = held;
        let header = FileHeader::read(path)?;
        let WantedRows { node_type, dim, .. } = *wanted;
        let wrong = |what: String| ModelFileError::content(path, what);
        let is_whole = self.index.save.is_empty();
        if !is_whole {
            self.check_save(&header)?;
        }
        if let Some(shard) = shard {
            self.check_once(&header, shard)?;
        }
        let values = header.expect(&embedding_name(node_type), Dtype::F32, &[num_rows, dim])?;
        let ids_name = original_ids_name(node_type);
        let ids = (!is_whole).then(|| header.expect(&ids_name, Dtype::U32, &[num_rows])).transpose()?;
        let mut table_ids = match rows.lookup {
            Lookup::OriginalIds(_) => None,
            Lookup::TableIds(_) => Some(SavedIds::open(&header, kind, node_type, num_rows)?),
        };
        let mut reader = RowReader::new(&header, values, dim);
        let rows_per_piece = (PIECE_BYTES / (dim * size_of::<f32>())).max(1);
        let mut last = None;
        for start in (0..num_rows).step_by(rows_per_piece) {
            let piece = start..num_rows.min(start + rows_per_piece);
            let nodes = match &ids {
                // A model file that holds the tables itself has all rows in the order of the original ids.
                None => piece.clone().map(|row| row as u32).collect(),
                Some(ids) => header.words::<4>(ids, &piece)?.into_iter().map(u32::from_le_bytes).collect::<Vec<u32>>(),
            };
            if last >= nodes.first().copied() || !nodes.is_sorted_by(|a, b| a < b) {
                return Err(wrong(format!("the original ids of node type {node_type} are not in ascending order")));
            }
            last = nodes.last().copied();
            let hashes = match &mut table_ids {
                None => Vec::new(),
                Some(table_ids) => table_ids.hashes(&header, &piece)?,
            };
            let taken = rows.take(&nodes, &hashes).map_err(|node| {
                wrong(format!("it holds the row of node {node} of type {node_type}, which another file holds as well"))
            })?;
            reader.read(start, &taken, set)?;
            if rows.left == 0 {
                break;
            }
        }
        Ok(())
    }

    fn table_number(&self, node_type: &str) -> Result<usize, ModelFileError> {
        let number = self.index.table(node_type);
        number.ok_or_else(|| self.wrong(format!("it has no embedding of node type {node_type}")))
    }

    /// Checks that a table has the size that is wanted.
    fn check_size(&self, table: &EmbeddingSize, wanted: &WantedRows<'_>) -> Result<(), ModelFileError> {
        let WantedRows { node_type, dim, num_nodes, .. } = *wanted;
        let has_other_count = table.num_nodes != num_nodes && wanted.ids.is_none();
        if table.dim == dim && (!has_other_count || wanted.may_differ) {
            return Ok(());
        }
        let may_follow = table.dim == dim && self.index.id_kind(node_type) != IdKind::Unknown;
        let remedy = if may_follow {
            ". If these rows are the same and others follow, choose their start (`new_embeddings=mean`)"
        } else {
            ""
        };
        Err(self.wrong(format!(
            "its embedding of node type {node_type} is for {} nodes of {} values, but the graph has {num_nodes} nodes \
             of {dim} values{remedy}",
            table.num_nodes, table.dim
        )))
    }

    /// Checks that a file has embeddings of the model.
    fn check_save(&self, header: &FileHeader) -> Result<(), ModelFileError> {
        let metadata = header.metadata();
        let entry = |key: &str| metadata.get(key).map(String::as_str);
        if entry("format") == Some(SHARD_FORMAT) && entry("save") == Some(self.index.save.as_str()) {
            return Ok(());
        }
        Err(ModelFileError::content(&header.path, "it does not hold embeddings of this model"))
    }

    /// Compares a file with its checksum, if the index lists one and this was not done before.
    fn check_once(&self, header: &FileHeader, shard: &ShardEntry) -> Result<(), ModelFileError> {
        let Some(expected) = &shard.xxh3 else { return Ok(()) };
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !checked.contains(&shard.file) {
            header.check(expected)?;
            checked.insert(shard.file.clone());
        }
        Ok(())
    }

    fn wrong(&self, what: String) -> ModelFileError {
        ModelFileError::content(&self.model, what)
    }

    fn missing(&self, node_type: &str, rows: usize, files: Vec<PathBuf>) -> ModelFileError {
        ModelFileError::MissingShards { path: self.model.clone(), node_type: node_type.to_owned(), rows, files }
    }
}

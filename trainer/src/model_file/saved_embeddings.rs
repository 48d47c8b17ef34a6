//! The reader of the embeddings of a saved model, row by row.

use super::EmbeddingTable;
use super::embedding_index::{EmbeddingIndex, ShardEntry, TableEntry, shard_folder};
use super::file_header::FileHeader;
use super::new_embeddings::{MatchedRows, NewEmbeddings};
use super::row_ids::{IdKind, PositionsById, SavedIds};
use super::shard_writer::SHARD_FORMAT;
use super::table_blocks::{BlockRows, ShardRows, TableBlocks, check_kinds};
use super::{ModelFileError, ReadData, TrainedOn, embedding_name, original_ids_name};
use edgecut_dist_sampler::SetRow;
use edgecut_graph::Meta;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The approximate number of bytes of a table that are in memory at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The maximum number of unneeded bytes between two wanted rows that are read in one system call instead of two.
const GAP_BYTES: usize = 16 << 10;

/// The rows of a block when a whole table is read.
const ROWS_AT_ONCE: usize = 1 << 12;

/// The embeddings of a saved model, in memory or in their files. Each process reads only the rows that it needs, so
/// that no process holds a whole table.
#[derive(Clone, Debug)]
pub struct SavedEmbeddings {
    contents: Contents,
    trained_on: Option<TrainedOn>,
    new_embeddings: Option<NewEmbeddings>,
    /// The random seed of the rows of new nodes.
    seed: u64,
    /// The receiver of the matches on rank 0.
    tell: fn(&MatchedRows),
}

#[derive(Clone, Debug)]
enum Contents {
    InMemory(Vec<EmbeddingTable>),
    InFiles { model: PathBuf, index: EmbeddingIndex, checked: CheckedShards },
}

/// The names of the shards whose checksums were compared, so that each file is hashed once.
type CheckedShards = Arc<Mutex<BTreeSet<String>>>;

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
#[derive(Debug)]
pub(crate) struct WantedRows<'a> {
    pub(crate) node_type: &'a str,
    pub(crate) dim: usize,
    pub(crate) num_nodes: usize,
    /// The original ids of the rows' nodes, ascending.
    pub(crate) nodes: &'a [u32],
    /// The shard to read first. It holds these nodes if as many processes saved the model.
    pub(crate) first_shard: usize,
    /// The positions of the nodes by the ids of their table, to find rows by these ids instead of original ids.
    pub(crate) ids: Option<PositionsById>,
    /// True if the table may be for another number of nodes.
    pub(crate) may_differ: bool,
}

impl SavedEmbeddings {
    pub(super) fn in_memory(tables: Vec<EmbeddingTable>) -> Self {
        Self::new(Contents::InMemory(tables))
    }

    pub(super) fn in_files(model: &Path, index: EmbeddingIndex) -> Self {
        Self::new(Contents::InFiles { model: model.to_owned(), index, checked: CheckedShards::default() })
    }

    fn new(contents: Contents) -> Self {
        Self { contents, trained_on: None, new_embeddings: None, seed: 0, tell: |_| {} }
    }

    pub(super) fn of_data(mut self, trained_on: Option<TrainedOn>) -> Self {
        self.trained_on = trained_on;
        self
    }

    /// Sets the start of nodes that have no saved rows. With `None`, loading fails for a graph none of whose nodes has a
    /// row, and for a graph of arrays with another number of nodes, because these are probably not the graph of the training.
    pub fn with_new_embeddings(mut self, start: Option<NewEmbeddings>) -> Self {
        self.new_embeddings = start;
        self
    }

    /// Sets the random seed of [`NewEmbeddings::Random`] in predictions.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets a function that rank 0 calls for each node type when its rows are loaded.
    pub fn on_match(mut self, tell: fn(&MatchedRows)) -> Self {
        self.tell = tell;
        self
    }

    /// Tells the match of a node type.
    pub(crate) fn tell(&self, matched: &MatchedRows) {
        (self.tell)(matched);
    }

    /// Returns the start of nodes that have no saved rows, if it was set.
    pub(crate) fn new_embeddings(&self) -> Option<NewEmbeddings> {
        self.new_embeddings
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn path(&self) -> PathBuf {
        match &self.contents {
            Contents::InMemory(_) => PathBuf::from("model"),
            Contents::InFiles { model, .. } => model.clone(),
        }
    }

    fn id_kind(&self, node_type: &str) -> IdKind {
        match &self.contents {
            Contents::InMemory(_) => IdKind::Unknown,
            Contents::InFiles { index, .. } => index.id_kind(node_type),
        }
    }

    /// Returns true if the nodes of a type find their rows by the ids of their table, and false if row numbers do: they are
    /// the ids, or the table of the training had the same ids in the same order.
    ///
    /// # Errors
    /// [`ModelFileError::OtherData`] if the nodes have other ids than in the training, and the file does not say which, or if
    /// the ids are of a table on one side and row numbers of arrays on the other.
    pub(crate) fn is_matched_by_ids(&self, meta: &Meta, node_type: &str) -> Result<bool, ModelFileError> {
        let kind = self.id_kind(node_type);
        if kind == IdKind::Unknown {
            return self.check_nodes(meta, node_type).map(|()| false);
        }
        let has_id_map = meta.node_types.iter().any(|nodes| nodes.name == node_type && nodes.has_id_map);
        match kind {
            IdKind::Rows if has_id_map => return Err(self.ids_of_arrays(node_type, "here", "in its training")),
            IdKind::Numbers | IdKind::Texts if !has_id_map && !meta.has_transforms => {
                return Err(self.ids_of_arrays(node_type, "in its training", "here"));
            }
            IdKind::Rows | IdKind::TableRows if !has_id_map => return Ok(false),
            IdKind::Unknown | IdKind::Rows | IdKind::TableRows | IdKind::Numbers | IdKind::Texts => {}
        }
        Ok(!self.trained_on.as_ref().is_some_and(|trained_on| trained_on.has_same_nodes(meta, node_type)))
    }

    /// Returns true if rows can be matched with a graph that has another number of nodes.
    pub(crate) fn may_differ(&self, meta: &Meta, node_type: &str) -> bool {
        // The rows of a table without other ids are the ids of its edges. Arrays may be of any other graph.
        match self.id_kind(node_type) {
            IdKind::Unknown => false,
            IdKind::Rows => self.new_embeddings.is_some(),
            IdKind::TableRows | IdKind::Numbers | IdKind::Texts => meta.has_transforms || self.new_embeddings.is_some(),
        }
    }

    /// Returns the error of nodes that have ids of a table on one side, and row numbers of arrays on the other. A number is
    /// another node on each side.
    fn ids_of_arrays(&self, node_type: &str, of_table: &str, of_arrays: &str) -> ModelFileError {
        let what = format!(
            "the nodes of type {node_type} have ids of a table {of_table}, and are row numbers of arrays {of_arrays}, so that \
             no saved row is known to be of a node: load the model for parts of the same kind, or train a model for this graph"
        );
        ModelFileError::OtherData { path: self.path(), what }
    }

    /// Returns the error of a graph none of whose nodes has a saved row.
    pub(crate) fn no_known_nodes(&self, node_type: &str) -> ModelFileError {
        let what = format!(
            "no node of type {node_type} has the id of a saved row, so this is probably not the graph of its training: load \
             the model for that graph, or choose the start of new nodes (`new_embeddings=mean`)"
        );
        ModelFileError::OtherData { path: self.path(), what }
    }

    /// Returns the error of a graph whose ids cannot be read.
    pub(crate) fn unreadable_ids(&self, node_type: &str) -> ModelFileError {
        let what =
            format!("the ids of the nodes of type {node_type} cannot be read: set a reader of ids for the graph");
        ModelFileError::OtherData { path: self.path(), what }
    }

    /// Returns true if row numbers are compared, and the nodes of a type have other features, labels, splits or times than in
    /// the training.
    pub(crate) fn has_other_content(&self, meta: &Meta, node_type: &str) -> bool {
        self.trained_on.as_ref().is_some_and(|trained_on| trained_on.has_other_content(meta, node_type))
    }

    /// Returns the first values of nodes without a saved row; `None` if they keep their initial values. Nodes that start from
    /// their neighbors have the mean first.
    ///
    /// # Errors
    /// [`ModelFileError::Shard`] if the mean is asked for, and the file does not say it.
    pub(crate) fn first_values(
        &self,
        size: &EmbeddingSize,
        start: NewEmbeddings,
    ) -> Result<Option<Vec<f32>>, ModelFileError> {
        let mean = match (&self.contents, start) {
            (_, NewEmbeddings::Random) => return Ok(None),
            (_, NewEmbeddings::Zero) => return Ok(Some(vec![0.0; size.dim])),
            (Contents::InMemory(_), NewEmbeddings::Mean | NewEmbeddings::Neighbors) => None,
            (Contents::InFiles { index, .. }, NewEmbeddings::Mean | NewEmbeddings::Neighbors) => {
                index.mean(&size.node_type)
            }
        };
        mean.map(Some).ok_or_else(|| {
            let what = format!(
                "it does not say the mean of the embeddings of node type {}: start new nodes at zero (`new_embeddings=zero`)",
                size.node_type
            );
            ModelFileError::Shard { path: self.path(), what }
        })
    }

    /// Checks that the rows of a type belong to the nodes of a graph.
    ///
    /// # Errors
    /// [`ModelFileError::OtherData`] if the nodes of the training have other ids.
    fn check_nodes(&self, meta: &Meta, node_type: &str) -> Result<(), ModelFileError> {
        if !self.has_other_nodes(meta, node_type) {
            return Ok(());
        }
        let what = format!(
            "the nodes of type {node_type} are not those of its training: the table has other ids, or its rows are in \
             another order. The file does not say the ids of its embeddings, so make the parts from the same rows in the \
             same order, or train a model for this graph"
        );
        Err(ModelFileError::OtherData { path: self.path(), what })
    }

    /// Describes the first difference between the features of the training and of a graph.
    pub(crate) fn other_data(&self, meta: &Meta) -> Option<String> {
        self.trained_on.as_ref().and_then(|trained_on| trained_on.difference(meta, ReadData::default()))
    }

    /// Returns true if a type has other nodes than in the training.
    pub(crate) fn has_other_nodes(&self, meta: &Meta, node_type: &str) -> bool {
        self.trained_on.as_ref().is_some_and(|trained_on| trained_on.has_other_nodes(meta, node_type))
    }

    /// Reads all tables completely into memory.
    ///
    /// # Errors
    /// [`ModelFileError`] if a file is missing or damaged.
    pub fn into_tables(self) -> Result<Vec<EmbeddingTable>, ModelFileError> {
        if let Contents::InMemory(tables) = self.contents {
            return Ok(tables);
        }
        let mut tables = Vec::new();
        for size in self.sizes() {
            let mut values = Vec::with_capacity(size.num_nodes * size.dim);
            let mut blocks = self.blocks(&size, false)?;
            while let Some(block) = blocks.next_block(ROWS_AT_ONCE)? {
                values.extend(block.values);
            }
            tables.push(EmbeddingTable { node_type: size.node_type, dim: size.dim, values });
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

    /// Reads a table in blocks, in the order of the original ids. `with_ids` also reads the ids that the nodes had in the table of
    /// the training, unless they were row numbers.
    ///
    /// # Errors
    /// [`ModelFileError`] if there is no such table, or a file is missing or damaged.
    pub fn blocks(&self, size: &EmbeddingSize, with_ids: bool) -> Result<TableBlocks<'_>, ModelFileError> {
        let rows = match &self.contents {
            Contents::InMemory(tables) => {
                BlockRows::Memory(values_of(tables, &size.node_type, size.num_nodes, size.dim)?)
            }
            Contents::InFiles { model, index, checked } => {
                let kind = self.id_kind(&size.node_type);
                let ids = Some(kind).filter(|kind| with_ids && matches!(kind, IdKind::Numbers | IdKind::Texts));
                BlockRows::Files { shards: open_shards(model, index, checked, size, ids)?, ids }
            }
        };
        Ok(TableBlocks::new(self.path(), size.clone(), rows))
    }

    /// Calls `set` once for each wanted row that is saved, with its position in `wanted.nodes` and its values. Returns the
    /// positions of the others, which are new nodes.
    ///
    /// # Errors
    /// [`ModelFileError::Shard`] if the table has another size, if no file holds a row that must exist, or if a file is
    /// damaged; [`ModelFileError::MissingShards`] if files that may hold some of the rows are missing.
    pub(crate) fn read_rows(&self, wanted: &WantedRows<'_>, set: SetRow<'_>) -> Result<Vec<usize>, ModelFileError> {
        match &self.contents {
            Contents::InMemory(tables) => read_from_memory(tables, wanted, set).map(|()| Vec::new()),
            Contents::InFiles { model, index, checked } => Files { model, index, checked, wanted }.read(set),
        }
    }
}

fn read_from_memory(tables: &[EmbeddingTable], wanted: &WantedRows<'_>, set: SetRow<'_>) -> Result<(), ModelFileError> {
    let WantedRows { node_type, dim, num_nodes, nodes, .. } = *wanted;
    let values = values_of(tables, node_type, num_nodes, dim)?;
    for (row, &node) in nodes.iter().enumerate() {
        set(row, &values[node as usize * dim..][..dim]);
    }
    Ok(())
}

/// Returns the values of a table in memory.
///
/// # Errors
/// [`ModelFileError::Shard`] for a table of another size.
fn values_of<'a>(
    tables: &'a [EmbeddingTable],
    node_type: &str,
    num_nodes: usize,
    dim: usize,
) -> Result<&'a [f32], ModelFileError> {
    let values = tables.iter().find(|table| table.node_type == node_type).map_or(&[][..], |table| &table.values);
    if values.len() == num_nodes * dim {
        return Ok(values);
    }
    let held = values.len();
    let what = format!(
        "its embedding of node type {node_type} has {held} values, but the graph needs {num_nodes} nodes of {dim} values"
    );
    Err(ModelFileError::Shard { path: PathBuf::from("model"), what })
}

/// Compares a shard with its checksum, if the index lists one and this was not done before.
fn check_once(
    checked: &Mutex<BTreeSet<String>>,
    header: &FileHeader,
    shard: &ShardEntry,
) -> Result<(), ModelFileError> {
    let Some(expected) = &shard.xxh3 else { return Ok(()) };
    let mut checked = checked.lock().unwrap_or_else(PoisonError::into_inner);
    if !checked.contains(&shard.file) {
        header.check(expected)?;
        checked.insert(shard.file.clone());
    }
    Ok(())
}

/// Opens all files with rows of a table, whose ids are of a kind; `None` if ids are not read.
///
/// # Errors
/// [`ModelFileError::MissingShards`] if files are missing, and others if a file is damaged.
fn open_shards(
    model: &Path,
    index: &EmbeddingIndex,
    checked: &Mutex<BTreeSet<String>>,
    size: &EmbeddingSize,
    ids: Option<IdKind>,
) -> Result<Vec<ShardRows>, ModelFileError> {
    let node_type = &size.node_type;
    let Some(number) = index.table(node_type) else {
        let what = format!("it has no embedding of node type {node_type}");
        return Err(ModelFileError::Shard { path: model.to_owned(), what });
    };
    if let Some(kind) = ids {
        check_kinds(index, number, size, kind)
            .map_err(|what| ModelFileError::Shard { path: model.to_owned(), what })?;
    }
    if index.save.is_empty() {
        return Ok(vec![ShardRows::of_model(model, size)?]);
    }
    let folder = shard_folder(model)?;
    let mut shards = Vec::with_capacity(index.shards.len());
    let mut missing = Vec::new();
    let mut num_missing = 0;
    for shard in index.shards.iter().filter(|shard| shard.rows[number] > 0) {
        let path = folder.join(&shard.file);
        match FileHeader::read(&path) {
            Ok(header) => {
                check_save(&header, index)?;
                check_once(checked, &header, shard)?;
                shards.push(ShardRows::open(header, size, shard.rows[number], ids)?);
            }
            Err(ModelFileError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                num_missing += shard.rows[number];
                missing.push(path);
            }
            Err(error) => return Err(error),
        }
    }
    if missing.is_empty() {
        return Ok(shards);
    }
    Err(ModelFileError::MissingShards {
        path: model.to_owned(),
        node_type: node_type.clone(),
        rows: num_missing,
        files: missing,
    })
}

/// Checks that a file has embeddings of the model.
fn check_save(header: &FileHeader, index: &EmbeddingIndex) -> Result<(), ModelFileError> {
    let metadata = header.metadata();
    let entry = |key: &str| metadata.get(key).map(String::as_str);
    if entry("format") == Some(SHARD_FORMAT) && entry("save") == Some(index.save.as_str()) {
        return Ok(());
    }
    let what = "it does not hold embeddings of this model".into();
    Err(ModelFileError::Shard { path: header.path.clone(), what })
}

/// The files of a model, and the rows to read from them.
struct Files<'a> {
    model: &'a Path,
    index: &'a EmbeddingIndex,
    checked: &'a Mutex<BTreeSet<String>>,
    wanted: &'a WantedRows<'a>,
}

impl Files<'_> {
    fn wrong(&self, what: String) -> ModelFileError {
        ModelFileError::Shard { path: self.model.to_owned(), what }
    }

    fn read(&self, set: SetRow<'_>) -> Result<Vec<usize>, ModelFileError> {
        let WantedRows { node_type, dim, num_nodes, nodes, first_shard, .. } = *self.wanted;
        let Some(number) = self.index.table(node_type) else {
            return Err(self.wrong(format!("it has no embedding of node type {node_type}")));
        };
        let table = &self.index.tables[number];
        let is_by_ids = self.wanted.ids.is_some();
        let has_other_count = table.num_nodes != num_nodes && !is_by_ids;
        if table.dim != dim || (has_other_count && !self.wanted.may_differ) {
            let may_follow = table.dim == dim && self.index.id_kind(node_type) != IdKind::Unknown;
            let remedy = if may_follow {
                ". If these rows are the same and others follow, choose their start (`new_embeddings=mean`)"
            } else {
                ""
            };
            return Err(self.wrong(format!(
                "its embedding of node type {node_type} is for {} nodes of {} values, but the graph has {num_nodes} \
                 nodes of {dim} values{remedy}",
                table.num_nodes, table.dim
            )));
        }
        // Nodes after the last row of the training are new.
        let num_known =
            if is_by_ids { nodes.len() } else { nodes.partition_point(|&node| (node as usize) < table.num_nodes) };
        let known = &nodes[..num_known];
        let lookup = self.wanted.ids.as_ref().map_or(Lookup::OriginalIds(known), Lookup::TableIds);
        let mut rows = Rows { lookup, found: vec![false; num_known], left: num_known };
        if self.index.save.is_empty() {
            let held = HeldRows { num_rows: num_nodes, ids: IdKind::Unknown, shard: None };
            self.read_shard(self.model, held, &mut rows, set)?;
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
            let held = HeldRows { num_rows: shard.rows[number], ids: shard.id_kind(number), shard: Some(shard) };
            match self.read_shard(&path, held, &mut rows, set) {
                Err(ModelFileError::Read { path, source }) if source.kind() == ErrorKind::NotFound => {
                    missing.push(path)
                }
                read => read?,
            }
        }
        let new_ids = (num_known..nodes.len()).collect();
        let Some(lacking) = rows.found.iter().position(|found| !found) else { return Ok(new_ids) };
        if missing.is_empty() && is_by_ids {
            return Ok((0..num_known).filter(|&position| !rows.found[position]).collect());
        }
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

    /// Reads the wanted rows of one file.
    fn read_shard(
        &self,
        path: &Path,
        held: HeldRows<'_>,
        rows: &mut Rows<'_>,
        set: SetRow<'_>,
    ) -> Result<(), ModelFileError> {
        let header = FileHeader::read(path)?;
        let WantedRows { node_type, dim, .. } = *self.wanted;
        let num_rows = held.num_rows;
        let wrong = |what: String| ModelFileError::Shard { path: path.to_owned(), what };
        let is_whole = self.index.save.is_empty();
        if !is_whole {
            check_save(&header, self.index)?;
        }
        if let Some(shard) = held.shard {
            check_once(self.checked, &header, shard)?;
        }
        let values = header.expect(&embedding_name(node_type), Dtype::F32, &[num_rows, dim])?;
        let ids_name = original_ids_name(node_type);
        let ids = (!is_whole).then(|| header.expect(&ids_name, Dtype::U32, &[num_rows])).transpose()?;
        let mut table_ids = match rows.lookup {
            Lookup::OriginalIds(_) => None,
            Lookup::TableIds(_) => Some(SavedIds::open(&header, held.ids, node_type, num_rows)?),
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
}

/// The rows of a table in a file.
struct HeldRows<'a> {
    num_rows: usize,
    ids: IdKind,
    /// The entry of the file in the index; `None` if the model file itself has the rows.
    shard: Option<&'a ShardEntry>,
}

/// The wanted rows, and which of them were found.
struct Rows<'a> {
    lookup: Lookup<'a>,
    found: Vec<bool>,
    left: usize,
}

/// The search for the nodes of saved rows among the wanted nodes.
#[derive(Clone, Copy)]
enum Lookup<'a> {
    /// By their original ids, which ascend.
    OriginalIds(&'a [u32]),
    /// By the ids of their table.
    TableIds(&'a PositionsById),
}

/// The position of a row in a piece of a file, and its position among the wanted rows.
pub(super) struct Taken {
    pub(super) in_piece: usize,
    pub(super) wanted: usize,
}

impl Rows<'_> {
    /// Marks the wanted nodes among `nodes` as found and returns their positions. `nodes` are original ids, which must
    /// ascend, and `hashes` those of the nodes' ids in their table, for a lookup by these.
    ///
    /// # Errors
    /// The node, if a wanted node was found before.
    fn take(&mut self, nodes: &[u32], hashes: &[u128]) -> Result<Vec<Taken>, u32> {
        let mut taken = Vec::new();
        match self.lookup {
            Lookup::OriginalIds(wanted) => {
                let Some(first) = nodes.first() else { return Ok(taken) };
                let mut position = wanted.partition_point(|node| node < first);
                for (in_piece, &node) in nodes.iter().enumerate() {
                    while wanted.get(position).is_some_and(|&next| next < node) {
                        position += 1;
                    }
                    if wanted.get(position) == Some(&node) {
                        taken.push(Taken { in_piece, wanted: position });
                    }
                }
            }
            Lookup::TableIds(positions) => {
                for (in_piece, hash) in hashes.iter().enumerate() {
                    if let Some(&position) = positions.get(hash) {
                        taken.push(Taken { in_piece, wanted: position as usize });
                    }
                }
            }
        }
        for row in &taken {
            if std::mem::replace(&mut self.found[row.wanted], true) {
                return Err(nodes[row.in_piece]);
            }
        }
        self.left -= taken.len();
        Ok(taken)
    }
}

/// A reader of the rows of a table in an open file.
pub(super) struct RowReader<'a> {
    header: &'a FileHeader,
    dim: usize,
    values: TensorInfo,
    bytes: Vec<u8>,
    row: Vec<f32>,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(header: &'a FileHeader, values: TensorInfo, dim: usize) -> Self {
        Self { header, dim, values, bytes: Vec::new(), row: vec![0.0; dim] }
    }

    /// Reads rows of the piece that begins at row `start` and passes them to `set`. Rows near each other are read
    /// together.
    pub(super) fn read(&mut self, start: usize, taken: &[Taken], set: SetRow<'_>) -> Result<(), ModelFileError> {
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
                    return Err(ModelFileError::Shard { path: self.header.path.clone(), what });
                }
                set(taken.wanted, &self.row);
            }
        }
        Ok(())
    }
}

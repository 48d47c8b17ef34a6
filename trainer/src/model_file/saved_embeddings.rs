//! The reader of the embeddings of a saved model, row by row.

use super::EmbeddingTable;
use super::embedding_index::EmbeddingIndex;
use super::new_embeddings::{MatchedRows, NewEmbeddings};
use super::row_ids::IdKind;
use super::shard_files::ShardFiles;
use super::table_blocks::{BlockRows, TableBlocks};
use super::wanted_rows::WantedRows;
use super::{ModelFileError, ReadData, TrainedOn};
use edgecut_dist_sampler::{DistEmbedding, SetRow};
use edgecut_graph::Meta;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
    InFiles(ShardFiles),
}

/// The size of the embeddings of a node type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingSize {
    /// The name of the node type.
    pub node_type: String,
    /// The number of nodes.
    pub num_nodes: usize,
    /// The number of values per node.
    pub dim: usize,
}

impl EmbeddingSize {
    pub(crate) fn of(node_type: &str, table: &DistEmbedding) -> Self {
        Self { node_type: node_type.to_owned(), num_nodes: table.num_nodes(), dim: table.dim() }
    }
}

impl SavedEmbeddings {
    pub(super) fn in_memory(tables: Vec<EmbeddingTable>) -> Self {
        Self::new(Contents::InMemory(tables))
    }

    pub(super) fn in_files(model: &Path, index: EmbeddingIndex) -> Self {
        Self::new(Contents::InFiles(ShardFiles::new(model, index)))
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
            Contents::InFiles(files) => files.model().to_owned(),
        }
    }

    fn id_kind(&self, node_type: &str) -> IdKind {
        match &self.contents {
            Contents::InMemory(_) => IdKind::Unknown,
            Contents::InFiles(files) => files.index().id_kind(node_type),
        }
    }

    /// Returns true if the nodes of a type find their rows by the ids of their table, and false if row numbers do: they are
    /// the ids, or the table of the training had the same ids in the same order.
    ///
    /// # Errors
    /// [`ModelFileError::Content`] if the nodes have other ids than in the training, and the file does not say which, or if
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
        ModelFileError::content(self.path(), what)
    }

    /// Returns the error of a graph none of whose nodes has a saved row.
    pub(crate) fn no_known_nodes(&self, node_type: &str) -> ModelFileError {
        let what = format!(
            "no node of type {node_type} has the id of a saved row, so this is probably not the graph of its training: load \
             the model for that graph, or choose the start of new nodes (`new_embeddings=mean`)"
        );
        ModelFileError::content(self.path(), what)
    }

    /// Returns the error of a graph whose ids cannot be read.
    pub(crate) fn unreadable_ids(&self, node_type: &str) -> ModelFileError {
        let what =
            format!("the ids of the nodes of type {node_type} cannot be read: set a reader of ids for the graph");
        ModelFileError::content(self.path(), what)
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
    /// [`ModelFileError::Content`] if the mean is asked for, and the file does not say it.
    pub(crate) fn first_values(
        &self,
        size: &EmbeddingSize,
        start: NewEmbeddings,
    ) -> Result<Option<Vec<f32>>, ModelFileError> {
        let mean = match (&self.contents, start) {
            (_, NewEmbeddings::Random) => return Ok(None),
            (_, NewEmbeddings::Zero) => return Ok(Some(vec![0.0; size.dim])),
            (Contents::InMemory(_), NewEmbeddings::Mean | NewEmbeddings::Neighbors) => None,
            (Contents::InFiles(files), NewEmbeddings::Mean | NewEmbeddings::Neighbors) => {
                files.index().mean(&size.node_type)
            }
        };
        mean.map(Some).ok_or_else(|| {
            let what = format!(
                "it does not say the mean of the embeddings of node type {}: start new nodes at zero (`new_embeddings=zero`)",
                size.node_type
            );
            ModelFileError::content(self.path(), what)
        })
    }

    /// Checks that the rows of a type belong to the nodes of a graph.
    ///
    /// # Errors
    /// [`ModelFileError::Content`] if the nodes of the training have other ids.
    fn check_nodes(&self, meta: &Meta, node_type: &str) -> Result<(), ModelFileError> {
        if !self.has_other_nodes(meta, node_type) {
            return Ok(());
        }
        let what = format!(
            "the nodes of type {node_type} are not those of its training: the table has other ids, or its rows are in \
             another order. The file does not say the ids of its embeddings, so make the parts from the same rows in the \
             same order, or train a model for this graph"
        );
        Err(ModelFileError::content(self.path(), what))
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
        let tables = match &self.contents {
            Contents::InMemory(tables) => tables,
            Contents::InFiles(files) => return files.index().tables.clone(),
        };
        let mut sizes = Vec::with_capacity(tables.len());
        for EmbeddingTable { node_type, dim, values } in tables {
            let num_nodes = values.len() / (*dim).max(1);
            sizes.push(EmbeddingSize { node_type: node_type.clone(), num_nodes, dim: *dim });
        }
        sizes
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
            Contents::InFiles(files) => {
                let kind = self.id_kind(&size.node_type);
                let ids = Some(kind).filter(|kind| with_ids && matches!(kind, IdKind::Numbers | IdKind::Texts));
                BlockRows::Files { shards: files.open_all(size, ids)?, ids }
            }
        };
        Ok(TableBlocks::new(self.path(), size.clone(), rows))
    }

    /// Calls `set` once for each wanted row that is saved, with its position in `wanted.nodes` and its values. Returns the
    /// positions of the others, which are new nodes.
    ///
    /// # Errors
    /// [`ModelFileError::Content`] if the table has another size, if no file holds a row that must exist, or if a file is
    /// damaged; [`ModelFileError::MissingShards`] if files that may hold some of the rows are missing.
    pub(crate) fn read_rows(&self, wanted: &WantedRows<'_>, set: SetRow<'_>) -> Result<Vec<usize>, ModelFileError> {
        match &self.contents {
            Contents::InMemory(tables) => read_from_memory(tables, wanted, set).map(|()| Vec::new()),
            Contents::InFiles(files) => files.read_rows(wanted, set),
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
/// [`ModelFileError::Content`] for a table of another size.
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
    Err(ModelFileError::content("model", what))
}

//! The reader of a whole table of a saved model, block by block.

use super::embedding_index::EmbeddingIndex;
use super::file_header::FileHeader;
use super::row_ids::{IdKind, SavedIds};
use super::row_reader::{RowReader, Taken};
use super::saved_embeddings::EmbeddingSize;
use super::{ModelFileError, embedding_name, original_ids_name};
use edgecut_graph::{TableIds, TextIds};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The number of original ids that are read at once.
const IDS_AT_ONCE: usize = 1 << 16;

/// Rows of a table, whose nodes follow each other.
#[derive(Debug)]
pub struct TableBlock {
    /// The original ids of the nodes.
    pub nodes: Range<u32>,
    /// The values of all rows, end to end.
    pub values: Vec<f32>,
    /// The ids that the nodes had in the table of the training; `None` if they were row numbers, or if the file does not say
    /// them.
    pub ids: Option<TableIds>,
}

/// The rows of a table in the order of the original ids. Each file is read once, and a block is in memory at a time.
pub struct TableBlocks<'a> {
    model: PathBuf,
    size: EmbeddingSize,
    /// The first node of the next block.
    next: u32,
    rows: BlockRows<'a>,
}

/// The places of the rows of a table.
pub(super) enum BlockRows<'a> {
    Memory(&'a [f32]),
    Files { shards: Vec<ShardRows>, ids: Option<IdKind> },
}

/// The rows of a table in a file, of which some are taken.
pub(super) struct ShardRows {
    header: FileHeader,
    values: TensorInfo,
    /// The original ids; `None` for a file with all rows in their order.
    originals: Option<TensorInfo>,
    ids: Option<SavedIds>,
    num_rows: usize,
    /// The number of rows whose original ids were read.
    num_read: usize,
    /// The last of these.
    last: Option<u32>,
    /// The original ids that were read, but not taken.
    ahead: Vec<u32>,
}

/// The next rows of a file.
struct Run {
    first: usize,
    nodes: Vec<u32>,
}

impl<'a> TableBlocks<'a> {
    pub(super) fn new(model: PathBuf, size: EmbeddingSize, rows: BlockRows<'a>) -> Self {
        Self { model, size, next: 0, rows }
    }

    /// Returns an empty list of the ids of blocks, which tells their kind; `None` if blocks have no ids.
    pub fn no_ids(&self) -> Option<TableIds> {
        match &self.rows {
            BlockRows::Memory(_) => None,
            BlockRows::Files { ids, .. } => BlockIds::new(*ids, 0).finish(),
        }
    }

    /// Reads the next `num_rows` rows, or fewer at the end; `None` after the last one.
    ///
    /// # Errors
    /// [`ModelFileError`] if a row is missing or in two files, or if a file is damaged.
    pub fn next_block(&mut self, num_rows: usize) -> Result<Option<TableBlock>, ModelFileError> {
        let EmbeddingSize { node_type, num_nodes, dim } = &self.size;
        let dim = *dim;
        let nodes = self.next..(*num_nodes as u32).min(self.next.saturating_add(num_rows as u32));
        if nodes.is_empty() {
            return self.check_end().map(|()| None);
        }
        self.next = nodes.end;
        let (shards, kind) = match &mut self.rows {
            BlockRows::Memory(values) => {
                let values = values[nodes.start as usize * dim..nodes.end as usize * dim].to_vec();
                return Ok(Some(TableBlock { nodes, values, ids: None }));
            }
            BlockRows::Files { shards, ids } => (shards, *ids),
        };
        let mut found = vec![false; nodes.len()];
        let mut values = vec![0.0; nodes.len() * dim];
        let mut ids = BlockIds::new(kind, nodes.len());
        for shard in shards {
            while let Some(run) = shard.take_below(nodes.end, node_type)? {
                let positions: Vec<usize> = run.nodes.iter().map(|node| (node - nodes.start) as usize).collect();
                for (&position, node) in positions.iter().zip(&run.nodes) {
                    if std::mem::replace(&mut found[position], true) {
                        let what = format!(
                            "it holds the row of node {node} of type {node_type}, which another file holds as well: copy the \
                             files of the model again"
                        );
                        return Err(ModelFileError::content(&shard.header.path, what));
                    }
                }
                shard.read_values(&run, dim, &positions, &mut values)?;
                if let Some(saved) = &shard.ids {
                    ids.set(saved.read(&shard.header, &(run.first..run.first + run.nodes.len()))?, &positions);
                }
            }
        }
        if let Some(lacking) = found.iter().position(|found| !found) {
            let node = nodes.start + lacking as u32;
            let what = format!("it is incomplete: its files lack the row of node {node} of type {node_type}");
            return Err(ModelFileError::content(&self.model, what));
        }
        Ok(Some(TableBlock { nodes, values, ids: ids.finish() }))
    }

    /// Checks that no row is left.
    fn check_end(&self) -> Result<(), ModelFileError> {
        let BlockRows::Files { shards, .. } = &self.rows else { return Ok(()) };
        for shard in shards {
            if shard.num_read < shard.num_rows || !shard.ahead.is_empty() {
                let EmbeddingSize { node_type, num_nodes, .. } = &self.size;
                let what = format!("it holds rows of type {node_type} past the last of {num_nodes} nodes");
                return Err(ModelFileError::content(&shard.header.path, what));
            }
        }
        Ok(())
    }
}

impl ShardRows {
    /// Finds the rows of a table in a file of the model, whose ids are of this kind; `None` if ids are not read.
    ///
    /// # Errors
    /// [`ModelFileError`] if a tensor is missing or has another type or shape.
    pub(super) fn open(
        header: FileHeader,
        size: &EmbeddingSize,
        num_rows: usize,
        ids: Option<IdKind>,
    ) -> Result<Self, ModelFileError> {
        let node_type = &size.node_type;
        let values = header.expect(&embedding_name(node_type), Dtype::F32, &[num_rows, size.dim])?;
        let originals = header.expect(&original_ids_name(node_type), Dtype::U32, &[num_rows])?;
        let ids = ids.map(|kind| SavedIds::open(&header, kind, node_type, num_rows)).transpose()?;
        Ok(Self {
            header,
            values,
            originals: Some(originals),
            ids,
            num_rows,
            num_read: 0,
            last: None,
            ahead: Vec::new(),
        })
    }

    /// Finds the rows of a table in a model file that holds all of them.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(super) fn of_model(path: &Path, size: &EmbeddingSize) -> Result<Self, ModelFileError> {
        let EmbeddingSize { node_type, num_nodes, dim } = size;
        let header = FileHeader::read(path)?;
        let values = header.expect(&embedding_name(node_type), Dtype::F32, &[*num_nodes, *dim])?;
        Ok(Self {
            header,
            values,
            originals: None,
            ids: None,
            num_rows: *num_nodes,
            num_read: 0,
            last: None,
            ahead: Vec::new(),
        })
    }

    /// Takes rows whose original ids are less than `end`, or returns `None` if the next row is another one.
    fn take_below(&mut self, end: u32, node_type: &str) -> Result<Option<Run>, ModelFileError> {
        if self.ahead.is_empty() && self.num_read < self.num_rows {
            self.read_ahead(node_type)?;
        }
        let num_taken = self.ahead.partition_point(|&node| node < end);
        if num_taken == 0 {
            return Ok(None);
        }
        let first = self.num_read - self.ahead.len();
        let nodes = self.ahead.drain(..num_taken).collect();
        Ok(Some(Run { first, nodes }))
    }

    fn read_ahead(&mut self, node_type: &str) -> Result<(), ModelFileError> {
        let piece = self.num_read..self.num_rows.min(self.num_read + IDS_AT_ONCE);
        self.ahead = match &self.originals {
            None => piece.clone().map(|row| row as u32).collect(),
            Some(originals) => self.header.words::<4>(originals, &piece)?.into_iter().map(u32::from_le_bytes).collect(),
        };
        if self.last >= self.ahead.first().copied() || !self.ahead.is_sorted_by(|a, b| a < b) {
            let what = format!("the original ids of node type {node_type} are not in ascending order");
            return Err(ModelFileError::content(&self.header.path, what));
        }
        self.last = self.ahead.last().copied();
        self.num_read = piece.end;
        Ok(())
    }

    /// Reads the values of some rows to their positions in a block.
    fn read_values(
        &self,
        run: &Run,
        dim: usize,
        positions: &[usize],
        values: &mut [f32],
    ) -> Result<(), ModelFileError> {
        let mut reader = RowReader::new(&self.header, self.values.clone(), dim);
        let taken: Vec<Taken> =
            positions.iter().enumerate().map(|(in_piece, &wanted)| Taken { in_piece, wanted }).collect();
        reader.read(run.first, &taken, &mut |position, row| values[position * dim..][..dim].copy_from_slice(row))
    }
}

/// The ids of the rows of a block.
enum BlockIds {
    None,
    Numbers(Vec<i64>),
    Texts(Vec<Vec<u8>>),
}

impl BlockIds {
    fn new(kind: Option<IdKind>, num_rows: usize) -> Self {
        match kind {
            Some(IdKind::Numbers) => Self::Numbers(vec![0; num_rows]),
            Some(IdKind::Texts) => Self::Texts(vec![Vec::new(); num_rows]),
            _ => Self::None,
        }
    }

    fn set(&mut self, found: TableIds, positions: &[usize]) {
        match (self, found) {
            (Self::Numbers(all), TableIds::Numbers(found)) => {
                positions.iter().zip(found).for_each(|(&at, id)| all[at] = id);
            }
            (Self::Texts(all), TableIds::Texts(found)) => {
                positions.iter().enumerate().for_each(|(row, &at)| all[at] = found.get(row).to_vec());
            }
            _ => {}
        }
    }

    fn finish(self) -> Option<TableIds> {
        match self {
            Self::None => None,
            Self::Numbers(numbers) => Some(TableIds::Numbers(numbers)),
            Self::Texts(texts) => {
                let mut joined = TextIds::default();
                texts.iter().for_each(|text| joined.push(text));
                Some(TableIds::Texts(joined))
            }
        }
    }
}

/// Checks that the files of a model have ids of one kind.
///
/// # Errors
/// Describes files with other ids.
pub(super) fn check_kinds(
    index: &EmbeddingIndex,
    table: usize,
    size: &EmbeddingSize,
    kind: IdKind,
) -> Result<(), String> {
    let differs = index.shards.iter().any(|shard| shard.rows[table] > 0 && shard.id_kind(table) != kind);
    if differs {
        return Err(format!("the ids of node type {} are numbers in some files, texts in others", size.node_type));
    }
    Ok(())
}

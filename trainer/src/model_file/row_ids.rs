//! The ids by which the rows of saved embeddings find their nodes.

use super::file_header::FileHeader;
use super::{ModelFileError, table_id_ends_name, table_ids_name};
use edgecut_dist_sampler::{DistGraph, SampleError};
use edgecut_graph::{NodeTypeId, TableIds, TextIds};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// The ids of the rows of a saved table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum IdKind {
    /// The file does not say which ids the nodes had. Files of earlier versions do not.
    #[default]
    Unknown,
    /// The row numbers of arrays.
    Rows,
    /// Ids of a table that are its row numbers.
    #[serde(rename = "table_rows")]
    TableRows,
    /// Whole numbers of a table.
    Numbers,
    /// Texts of a table.
    Texts,
}

/// The positions of nodes by the hashes of their ids. A hash of 128 bits stands for an id, so that a position takes the
/// same memory for long texts.
pub(crate) type PositionsById = HashMap<u128, u32>;

/// Returns the positions of the nodes of a type that a process holds, in ascending order of their original ids, by the ids
/// of their table. A table whose ids are its row numbers has these as ids. Returns `None` if the ids cannot be read,
/// because the graph has no reader for them.
///
/// # Errors
/// The errors of [`DistGraph::read_table_ids`].
pub(crate) fn positions_by_id(graph: &DistGraph, node_type: NodeTypeId) -> Result<Option<PositionsById>, SampleError> {
    let part = graph.part();
    let nodes = part.nodes(node_type);
    let ids = graph.read_table_ids(node_type)?;
    if ids.is_none() && part.meta().node_types[node_type.index()].has_id_map {
        return Ok(None);
    }
    let mut hasher = IdHasher::default();
    let mut positions = PositionsById::with_capacity(nodes.original_ids.len());
    for position in 0..nodes.original_ids.len() {
        let row = nodes.row_at(position);
        let hash = match &ids {
            None => hasher.of_number(i64::from(nodes.original_ids[row])),
            Some(TableIds::Numbers(numbers)) => hasher.of_number(numbers[row]),
            Some(TableIds::Texts(texts)) => xxh3_128(texts.get(row)),
        };
        positions.insert(hash, position as u32);
    }
    Ok(Some(positions))
}

/// A hasher of ids. A number has the hash of its text, because tables of another format may have it as a text.
#[derive(Default)]
struct IdHasher(String);

impl IdHasher {
    fn of_number(&mut self, number: i64) -> u128 {
        self.0.clear();
        // Writing to a text cannot fail.
        let _ = write!(self.0, "{number}");
        xxh3_128(self.0.as_bytes())
    }
}

/// A reader of the ids of a table's rows in a file.
pub(super) struct SavedIds {
    kind: IdKind,
    /// Original ids or numbers, or the bytes of all texts.
    ids: TensorInfo,
    /// The end of each text.
    ends: Option<TensorInfo>,
    hasher: IdHasher,
}

impl SavedIds {
    /// Finds the ids of a table with `num_rows` rows.
    ///
    /// # Errors
    /// [`ModelFileError`] if a tensor is missing or has another type or shape.
    pub(super) fn open(
        header: &FileHeader,
        kind: IdKind,
        node_type: &str,
        num_rows: usize,
    ) -> Result<Self, ModelFileError> {
        let name = table_ids_name(node_type);
        let mut ends = None;
        let ids = match kind {
            IdKind::Unknown | IdKind::Rows | IdKind::TableRows => {
                header.expect(&super::original_ids_name(node_type), Dtype::U32, &[num_rows])?
            }
            IdKind::Numbers => header.expect(&name, Dtype::I64, &[num_rows])?,
            IdKind::Texts => {
                ends = Some(header.expect(&table_id_ends_name(node_type), Dtype::U64, &[num_rows])?);
                let num_bytes = header.tensor(&name).and_then(|info| info.shape.first().copied()).unwrap_or(0);
                header.expect(&name, Dtype::U8, &[num_bytes])?
            }
        };
        Ok(Self { kind, ids, ends, hasher: IdHasher::default() })
    }

    /// Reads the hashes of the ids of some rows.
    ///
    /// # Errors
    /// [`ModelFileError`] if the file cannot be read, or if the texts do not follow each other.
    pub(super) fn hashes(&mut self, header: &FileHeader, rows: &Range<usize>) -> Result<Vec<u128>, ModelFileError> {
        Ok(match self.read(header, rows)? {
            TableIds::Numbers(numbers) => numbers.into_iter().map(|number| self.hasher.of_number(number)).collect(),
            TableIds::Texts(texts) => (0..texts.num_texts()).map(|at| xxh3_128(texts.get(at))).collect(),
        })
    }

    /// Reads the ids of some rows.
    ///
    /// # Errors
    /// As for [`hashes`](Self::hashes).
    pub(super) fn read(&self, header: &FileHeader, rows: &Range<usize>) -> Result<TableIds, ModelFileError> {
        match self.kind {
            IdKind::Unknown | IdKind::Rows | IdKind::TableRows => {
                let words = header.words::<4>(&self.ids, rows)?;
                Ok(TableIds::Numbers(words.iter().map(|&word| i64::from(u32::from_le_bytes(word))).collect()))
            }
            IdKind::Numbers => {
                let words = header.words::<8>(&self.ids, rows)?;
                Ok(TableIds::Numbers(words.iter().map(|&word| i64::from_le_bytes(word)).collect()))
            }
            IdKind::Texts => self.read_texts(header, rows).map(TableIds::Texts),
        }
    }

    fn read_texts(&self, header: &FileHeader, rows: &Range<usize>) -> Result<TextIds, ModelFileError> {
        let mut texts = TextIds::default();
        let Some(ends) = &self.ends else { return Ok(texts) };
        let num_bytes = self.ids.shape.first().map_or(0, |&bytes| bytes as u64);
        // The texts of these rows begin where the text of the row before ends.
        let before = header.words::<8>(ends, &(rows.start.saturating_sub(1)..rows.start))?;
        let start = before.first().map_or(0, |&word| u64::from_le_bytes(word));
        let ends: Vec<u64> = header.words::<8>(ends, rows)?.into_iter().map(u64::from_le_bytes).collect();
        let last = ends.last().copied().unwrap_or(start);
        if ends.first().is_some_and(|&first| first < start) || !ends.is_sorted() || last > num_bytes {
            let what = format!("the ids of rows {rows:?} do not follow each other: the file is damaged, copy it again");
            return Err(ModelFileError::content(&header.path, what));
        }
        let mut bytes = vec![0; (last - start) as usize];
        header.read_at(&self.ids, start as usize, &mut bytes)?;
        let mut from = start;
        for end in ends {
            texts.push(&bytes[(from - start) as usize..(end - start) as usize]);
            from = end;
        }
        Ok(texts)
    }
}

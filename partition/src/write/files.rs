//! The files of all parts, written in parallel, each in pieces.

use super::{Files, SplitRows};
use crate::in_edges::InEdges;
use crate::renumber::Renumbering;
use crate::{PartitionError, Progress};
use edgecut_graph::{
    Dataset, EdgeTypeMeta, Features, FileMeta, GraphError, NpyElement, NpyWriter, PartitionId, Split, edge_dir,
    node_dir, part_dir,
};
use rayon::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// About this many bytes are gathered at a time, for each file that is being written.
const PIECE_BYTES: usize = 1 << 20;

/// What is written: a dataset in its new numbering.
pub(super) struct Parts<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) types: &'a [Renumbering],
    pub(super) splits: &'a [SplitRows],
    pub(super) edges: &'a [InEdges],
    pub(super) edge_types: &'a [EdgeTypeMeta],
}

/// Writes the files of all parts below `dir`, and returns their sizes and checksums.
pub(super) fn write_all(
    parts: &Parts,
    num_parts: u32,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<Files, PartitionError> {
    let jobs: Vec<Job> = (0..num_parts).flat_map(|part| parts.jobs(part)).collect();
    for job in &jobs {
        if let Some(parent) = dir.join(&job.name).parent() {
            std::fs::create_dir_all(parent).map_err(|e| GraphError::io(parent, e))?;
        }
    }
    let meter = Meter { progress, done: AtomicU64::new(0), total: jobs.iter().map(|j| j.content.bytes()).sum() };
    let write = |job: &Job| Ok((job.name.clone(), job.content.write(&dir.join(&job.name), &meter)?));
    // Collected in order, so that the error is the same one whichever thread fails first.
    let written: Vec<Result<(String, FileMeta), PartitionError>> = jobs.par_iter().map(write).collect();
    written.into_iter().collect()
}

impl<'a> Parts<'a> {
    fn jobs(&self, part: u32) -> Vec<Job<'a>> {
        let root = part_dir(PartitionId(part));
        let mut jobs = Vec::new();
        for ((nodes, t), splits) in self.dataset.node_types.iter().zip(self.types).zip(self.splits) {
            let ids = &t.original[t.range(part)];
            let mut add = |file: &str, content| {
                jobs.push(Job { name: format!("{root}/{}/{file}.npy", node_dir(&nodes.name)), content });
            };
            add("original_ids", Content::Ids(ids));
            if let Some(features) = &nodes.features {
                add("features", Content::Features(features, ids));
            }
            if let Some(labels) = &nodes.labels {
                add("labels", Content::Labels(labels, ids));
            }
            for (split, rows) in Split::ALL.iter().zip(splits) {
                add(split.name(), Content::Ids(&rows[part as usize]));
            }
        }
        for (edges, meta) in self.edges.iter().zip(self.edge_types) {
            let slice = edges.of_part(part, self.types);
            let dir = edge_dir(meta);
            jobs.push(Job { name: format!("{root}/{dir}/indptr.npy"), content: Content::Indptr(slice.indptr) });
            jobs.push(Job { name: format!("{root}/{dir}/indices.npy"), content: Content::Ids(slice.indices) });
        }
        jobs
    }
}

struct Job<'a> {
    name: String,
    content: Content<'a>,
}

enum Content<'a> {
    /// As they are.
    Ids(&'a [u32]),
    /// Rows of the whole matrix, by original id.
    Features(&'a Features, &'a [u32]),
    /// Entries of the whole array, by original id.
    Labels(&'a [i64], &'a [u32]),
    /// Less the first one.
    Indptr(&'a [u64]),
}

impl Content<'_> {
    /// The bytes of data, without headers.
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Ids(ids) => size_of_val(*ids),
            Self::Features(features, ids) => ids.len() * features.dim() * features.dtype().size(),
            Self::Labels(_, ids) => ids.len() * size_of::<i64>(),
            Self::Indptr(indptr) => size_of_val(*indptr),
        };
        bytes as u64
    }

    fn write(&self, path: &Path, meter: &Meter) -> Result<FileMeta, PartitionError> {
        match *self {
            Self::Ids(ids) => write_pieces(path, &[ids.len()], ids.chunks(PIECE_BYTES / 4), meter),
            Self::Features(Features::F32 { values, dim }, ids) => gather(path, values, *dim, ids, meter),
            Self::Features(Features::F16 { values, dim }, ids) => gather(path, values, *dim, ids, meter),
            Self::Labels(labels, ids) => {
                let pieces = ids.chunks(PIECE_BYTES / 8);
                let pieces = pieces.map(|ids| ids.iter().map(|&id| labels[id as usize]).collect::<Vec<i64>>());
                write_pieces(path, &[ids.len()], pieces, meter)
            }
            Self::Indptr(indptr) => {
                let pieces = indptr.chunks(PIECE_BYTES / 8);
                let pieces = pieces.map(|piece| piece.iter().map(|end| end - indptr[0]).collect::<Vec<u64>>());
                write_pieces(path, &[indptr.len()], pieces, meter)
            }
        }
    }
}

/// Writes the rows `ids` of a row-major matrix.
fn gather<T: NpyElement>(
    path: &Path,
    values: &[T],
    dim: usize,
    ids: &[u32],
    meter: &Meter,
) -> Result<FileMeta, PartitionError> {
    let rows_per_piece = (PIECE_BYTES / (dim * size_of::<T>())).max(1);
    let pieces = ids.chunks(rows_per_piece).map(|ids| {
        let mut piece = Vec::with_capacity(ids.len() * dim);
        ids.iter().for_each(|&id| piece.extend_from_slice(&values[id as usize * dim..(id as usize + 1) * dim]));
        piece
    });
    write_pieces(path, &[ids.len(), dim], pieces, meter)
}

fn write_pieces<T: NpyElement, P: AsRef<[T]>>(
    path: &Path,
    shape: &[usize],
    pieces: impl Iterator<Item = P>,
    meter: &Meter,
) -> Result<FileMeta, PartitionError> {
    let mut writer = NpyWriter::create(path, shape)?;
    for piece in pieces {
        let piece = piece.as_ref();
        writer.write(piece)?;
        meter.add(size_of_val(piece))?;
    }
    Ok(writer.finish()?)
}

struct Meter<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    total: u64,
}

impl Meter<'_> {
    /// # Errors
    /// [`PartitionError::Cancelled`].
    fn add(&self, bytes: usize) -> Result<(), PartitionError> {
        let done = self.done.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.progress.written(done, self.total);
        if self.progress.cancelled() { Err(PartitionError::Cancelled) } else { Ok(()) }
    }
}

//! The files of all parts, written in parallel and in pieces.

use super::edge_files::{attribute_files, held_out_files};
use super::hotness::RankedNodes;
use super::id_files::SelectedTexts;
use super::in_edges::RenumberedInEdges;
use super::renumber::{Renumbering, SplitRows};
use super::{InEdges, WriteError, WriteOptions, WriteProgress};
use crate::dataset::{EdgeIds, NodeData, NodeLabel, Split, Targets};
use crate::memory::{Buffer, FeatureDtype, Features};
use crate::npy::{FileMeta, NpyElement, NpyWriter};
use crate::part::{EdgeTypeMeta, edge_dir, label_dir, node_dir, part_dir};
use crate::{DiskPartId, GraphError, parallel};
use bytemuck::Pod;
use half::f16;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The approximate number of bytes gathered at a time for each file.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// The sizes and checksums of files by path.
pub(crate) type Files = BTreeMap<String, FileMeta>;

/// A writer of files in a folder that reports progress.
pub(crate) struct FileWriter<'a> {
    dir: &'a Path,
    meter: Meter<'a>,
}

impl<'a> FileWriter<'a> {
    /// Creates a writer for all files of a dataset.
    pub(super) fn new(
        dir: &'a Path,
        progress: &'a dyn WriteProgress,
        node_types: &[NodeData],
        edge_types: &[InEdges],
        options: &WriteOptions,
    ) -> Self {
        let num_parts = options.num_parts;
        let edge_bytes = |edges: &InEdges| edge_bytes(edges, &node_types[edges.src_type], num_parts);
        let bytes = node_types.iter().map(node_bytes).chain(edge_types.iter().map(edge_bytes));
        Self::of_bytes(dir, progress, bytes.sum::<usize>() as u64, options.is_synced)
    }

    /// Creates a writer for about `total` bytes.
    pub(crate) fn of_bytes(dir: &'a Path, progress: &'a dyn WriteProgress, total: u64, is_synced: bool) -> Self {
        let meter = Meter { progress, done: AtomicU64::new(0), total: AtomicU64::new(total), is_synced };
        Self { dir, meter }
    }

    /// Adds bytes to the total that progress reports count to, for files whose size was not known before.
    pub(crate) fn expect(&self, bytes: usize) {
        self.meter.total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes the files of `jobs` in parallel, and returns their sizes and checksums.
    pub(crate) fn write(&self, jobs: Vec<Job>) -> Result<Files, WriteError> {
        let write = |job: usize| {
            let path = self.dir.join(&jobs[job].name);
            // Right before the first file of the folder: an empty folder is not known to be ours if this process dies.
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|e| GraphError::io(parent, e))?;
            }
            jobs[job].content.write(&path, &self.meter)
        };
        let written = parallel::try_collect(jobs.len(), &write)?;
        Ok(jobs.into_iter().map(|job| job.name).zip(written).collect())
    }
}

/// Returns the number of data bytes in the files of a node type.
fn node_bytes(nodes: &NodeData) -> usize {
    let row = size_of::<u32>()
        + nodes.features.as_ref().map_or(0, |features| features.dtype().row_bytes(features.dim()))
        + nodes.labels.as_ref().map_or(0, |_| size_of::<i64>())
        + nodes.targets.as_ref().map_or(0, |targets| targets.dim * size_of::<f32>())
        + nodes.times.as_ref().map_or(0, |_| size_of::<i64>());
    let in_splits: usize = Split::ALL.iter().map(|&split| nodes.splits.get(split).len()).sum();
    let of_more_labels = nodes.more_labels.iter().map(|label| label_bytes(nodes, label));
    nodes.num_nodes * row + in_splits * size_of::<u32>() + of_more_labels.sum::<usize>()
}

/// Returns the number of data bytes in the files of a label after the first one.
fn label_bytes(nodes: &NodeData, label: &NodeLabel) -> usize {
    let row = label.labels.as_ref().map_or(0, |_| size_of::<i64>())
        + label.targets.as_ref().map_or(0, |targets| targets.dim * size_of::<f32>());
    let in_splits: usize = Split::ALL.iter().map(|&split| label.splits.get(split).len()).sum();
    nodes.num_nodes * row + in_splits * size_of::<u32>()
}

/// Returns the number of data bytes in the files of an edge type.
fn edge_bytes(edges: &InEdges, src_type: &NodeData, num_parts: u32) -> usize {
    let attributes = &edges.attributes;
    let edge = size_of::<u32>()
        + attributes.features.as_ref().map_or(0, |features| features.dtype().row_bytes(features.dim()))
        + attributes.weights.as_ref().map_or(0, |_| size_of::<f32>())
        + attributes.times.as_ref().map_or(0, |_| size_of::<i64>())
        + attributes.labels.as_ref().map_or(0, |labels| labels.values.kind().bytes() + size_of::<u8>())
        + src_type.times.as_ref().map_or(0, |_| size_of::<i64>());
    let indptr = (edges.rows.num_rows() + num_parts as usize) * size_of::<u64>();
    let held_out_edge = 2 * size_of::<u32>() + if edges.held_out.has_times() { size_of::<i64>() } else { 0 };
    let held_out: usize = edges.held_out.lists().iter().map(|(_, list)| list.len() * held_out_edge).sum();
    let negatives = edges.held_out.lists().map(|(_, list)| list.negatives.as_ref().map_or(0, |n| n.stored_bytes()));
    let ids = attributes.ids.as_ref().map_or(0, EdgeIds::stored_bytes) as usize;
    indptr + edges.num_edges() * edge + ids + held_out + negatives.iter().sum::<usize>()
}

/// Returns the node files of all parts. `splits` and `more_splits`, of the labels after the first one, are by type.
pub(super) fn node_jobs<'a>(
    node_types: &'a [NodeData],
    types: &'a [Renumbering],
    splits: &'a [SplitRows],
    more_splits: &'a [Vec<SplitRows>],
    num_parts: u32,
) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for part in 0..num_parts {
        let root = part_dir(DiskPartId(part));
        for (at, (nodes, t)) in node_types.iter().zip(types).enumerate() {
            let ids = &t.original[t.range(part)];
            let rows = Selection::Nodes(ids);
            let dir = format!("{root}/{}", node_dir(&nodes.name));
            jobs.push(Job::new(format!("{dir}/original_ids.npy"), Content::Ids(ids)));
            if let Some(features) = &nodes.features {
                jobs.push(Job::new(format!("{dir}/features.npy"), Content::Features(vec![features], rows)));
            }
            if let Some(times) = &nodes.times {
                jobs.push(Job::new(format!("{dir}/times.npy"), Content::Whole(vec![&times[..]], rows)));
            }
            let first = LabelFiles { labels: &nodes.labels, targets: &nodes.targets, splits: &splits[at] };
            jobs.extend(first.jobs(&dir, part, rows));
            for (label, splits) in nodes.more_labels.iter().zip(&more_splits[at]) {
                let dir = format!("{root}/{}", label_dir(&nodes.name, &label.name));
                let files = LabelFiles { labels: &label.labels, targets: &label.targets, splits };
                jobs.extend(files.jobs(&dir, part, rows));
            }
        }
    }
    jobs
}

/// A label of nodes in the files of parts.
struct LabelFiles<'a> {
    labels: &'a Option<Buffer<i64>>,
    targets: &'a Option<Targets>,
    splits: &'a SplitRows,
}

impl<'a> LabelFiles<'a> {
    /// Returns the files of a part in the folder `dir`.
    fn jobs(&self, dir: &str, part: u32, rows: Selection<'a>) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        if let Some(labels) = self.labels {
            jobs.push(Job::new(format!("{dir}/labels.npy"), Content::Whole(vec![&labels[..]], rows)));
        }
        if let Some(Targets { values, dim, .. }) = self.targets {
            let content = Content::Floats(vec![&values[..]], Some(*dim), rows);
            jobs.push(Job::new(format!("{dir}/targets.npy"), content));
        }
        for (split, rows) in Split::ALL.iter().zip(self.splits) {
            jobs.push(Job::new(format!("{dir}/{}.npy", split.name()), Content::Ids(&rows[part as usize])));
        }
        jobs
    }
}

/// Returns the files of the ranked nodes of all parts. `names` has the name of each node type with features. `ranked` is by
/// part, from `first` on, and by type.
pub(crate) fn hotness_jobs<'a>(names: &[Option<&str>], first: u32, ranked: &'a [Vec<RankedNodes>]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for (part, of_part) in (first..).zip(ranked) {
        let root = part_dir(DiskPartId(part));
        for (name, of_type) in names.iter().zip(of_part) {
            let Some(name) = name else { continue };
            let dir = node_dir(name);
            jobs.push(Job { name: format!("{root}/{dir}/hot_nodes.npy"), content: Content::Ids(&of_type.nodes) });
            jobs.push(Job { name: format!("{root}/{dir}/hotness.npy"), content: Content::Ids(&of_type.counts) });
        }
    }
    jobs
}

/// Returns the edge files of all parts.
pub(super) fn edge_jobs<'a>(
    edges: &'a [RenumberedInEdges],
    edge_types: &[EdgeTypeMeta],
    node_types: &'a [NodeData],
    types: &'a [Renumbering],
    num_parts: u32,
) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for part in 0..num_parts {
        let root = part_dir(DiskPartId(part));
        for (edges, meta) in edges.iter().zip(edge_types) {
            let slice = edges.of_part(part, types);
            let dir = edge_dir(meta);
            let mut add = |file: &str, content| jobs.push(Job { name: format!("{root}/{dir}/{file}.npy"), content });
            add("indptr", Content::Indptr(slice.indptr));
            add("indices", Content::Ids(slice.indices));
            for (file, content) in attribute_files(&[&edges.attributes], edges.positions(&slice)) {
                add(file, content);
            }
            if let Some(times) = &node_types[edges.src_type].times {
                let original = &types[edges.src_type].original;
                add("src_times", Content::SourceTimes { times, original, sources: slice.indices });
            }
            if let Some(held_out) = &edges.held_out {
                for (file, content) in held_out_files(held_out, part as usize, meta.held_out_has_times) {
                    add(&file, content);
                }
            }
        }
    }
    jobs
}

/// A file to write.
pub(crate) struct Job<'a> {
    name: String,
    content: Content<'a>,
}

impl<'a> Job<'a> {
    /// Describes a file by its path below the folder of all parts.
    pub(crate) fn new(name: String, content: Content<'a>) -> Self {
        Self { name, content }
    }
}

/// The content of a file. Arrays that rows are selected from are given in pieces, which are counted end to end.
pub(crate) enum Content<'a> {
    /// Ids or counts, written unchanged.
    Ids(&'a [u32]),
    /// Sources followed by destinations, written as two rows.
    Edges(&'a [u32]),
    /// Ids in rows of this length, written unchanged.
    Rows(&'a [u32], usize),
    /// Times, written unchanged.
    Times(&'a [i64]),
    /// Selection of feature matrices of one type.
    Features(Vec<&'a Features>, Selection<'a>),
    /// Entries of integer arrays.
    Whole(Vec<&'a [i64]>, Selection<'a>),
    /// Entries of byte arrays.
    Bytes(Vec<&'a [u8]>, Selection<'a>),
    /// Entries of float arrays, or rows of matrices with this number of columns.
    Floats(Vec<&'a [f32]>, Option<usize>, Selection<'a>),
    /// The ends of texts that are written end to end.
    TextEnds(SelectedTexts<'a>),
    /// The bytes of these texts.
    TextBytes(SelectedTexts<'a>),
    /// The times of nodes given by global id.
    SourceTimes { times: &'a [i64], original: &'a [u32], sources: &'a [u32] },
    /// Offsets, written relative to the first one.
    Indptr(&'a [u64]),
}

/// A selection of rows of arrays.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    /// Selection of nodes, by original id.
    Nodes(&'a [u32]),
    /// Selection of nodes or edges, by their position in the arrays.
    Rows(&'a [u64]),
}

impl Content<'_> {
    fn write(&self, path: &Path, meter: &Meter) -> Result<FileMeta, WriteError> {
        match self {
            Self::Ids(ids) => write_pieces(path, &[ids.len()], ids.chunks(PIECE_BYTES / 4), meter),
            Self::Edges(ends) => write_pieces(path, &[2, ends.len() / 2], ends.chunks(PIECE_BYTES / 4), meter),
            &Self::Rows(ids, width) => {
                write_pieces(path, &[ids.len() / width, width], ids.chunks(PIECE_BYTES / 4), meter)
            }
            Self::Times(times) => write_pieces(path, &[times.len()], times.chunks(PIECE_BYTES / 8), meter),
            Self::Features(pieces, rows) => {
                let Some(first) = pieces.first() else { return gather::<f32>(path, &[], None, *rows, meter) };
                let width = Some(first.stored_width());
                match first.dtype() {
                    FeatureDtype::F32 => gather::<f32>(path, &stored(pieces), width, *rows, meter),
                    FeatureDtype::F16 => gather::<f16>(path, &stored(pieces), width, *rows, meter),
                    FeatureDtype::Bf16 => gather::<u16>(path, &stored(pieces), width, *rows, meter),
                    FeatureDtype::Int8 => gather::<u8>(path, &stored(pieces), width, *rows, meter),
                }
            }
            Self::Whole(pieces, rows) => gather(path, pieces, None, *rows, meter),
            Self::Bytes(pieces, rows) => gather(path, pieces, None, *rows, meter),
            Self::Floats(pieces, dim, rows) => gather(path, pieces, *dim, *rows, meter),
            Self::TextEnds(texts) => texts.write_ends(path, meter),
            Self::TextBytes(texts) => texts.write_bytes(path, meter),
            Self::SourceTimes { times, original, sources } => {
                let time = |&source: &u32| times[original[source as usize] as usize];
                let pieces = sources.chunks(PIECE_BYTES / 8);
                let pieces = pieces.map(|piece| piece.iter().map(time).collect::<Vec<i64>>());
                write_pieces(path, &[sources.len()], pieces, meter)
            }
            Self::Indptr(indptr) => {
                let pieces = indptr.chunks(PIECE_BYTES / 8);
                let pieces = pieces.map(|piece| piece.iter().map(|end| end - indptr[0]).collect::<Vec<u64>>());
                write_pieces(path, &[indptr.len()], pieces, meter)
            }
        }
    }
}

/// Returns the values of features as stored.
fn stored<'a, T: Pod>(pieces: &[&'a Features]) -> Vec<&'a [T]> {
    pieces.iter().map(|features| bytemuck::cast_slice(features.bytes())).collect()
}

/// Writes selected rows of row-major matrices, or, without `dim`, selected entries of arrays.
fn gather<T: NpyElement>(
    path: &Path,
    pieces: &[&[T]],
    dim: Option<usize>,
    rows: Selection,
    meter: &Meter,
) -> Result<FileMeta, WriteError> {
    match rows {
        Selection::Nodes(ids) => gather_at(path, pieces, dim, ids, |&id| id as usize, meter),
        Selection::Rows(positions) => gather_at(path, pieces, dim, positions, |&position| position as usize, meter),
    }
}

fn gather_at<T: NpyElement, R: Sync>(
    path: &Path,
    arrays: &[&[T]],
    dim: Option<usize>,
    rows: &[R],
    index: impl Fn(&R) -> usize + Sync + Send,
    meter: &Meter,
) -> Result<FileMeta, WriteError> {
    let columns = dim.unwrap_or(1);
    let rows_per_piece = (PIECE_BYTES / (columns * size_of::<T>())).max(1);
    let pieces = rows.chunks(rows_per_piece).map(|rows| {
        let mut piece = Vec::with_capacity(rows.len() * columns);
        for row in rows {
            let mut start = index(row) * columns;
            let mut array = 0;
            while start >= arrays[array].len() {
                start -= arrays[array].len();
                array += 1;
            }
            piece.extend_from_slice(&arrays[array][start..start + columns]);
        }
        piece
    });
    let shape: Vec<usize> = std::iter::once(rows.len()).chain(dim).collect();
    write_pieces(path, &shape, pieces, meter)
}

pub(super) fn write_pieces<T: NpyElement, P: AsRef<[T]> + Send + Sync>(
    path: &Path,
    shape: &[usize],
    mut pieces: impl Iterator<Item = P> + Send,
    meter: &Meter,
) -> Result<FileMeta, WriteError> {
    let mut writer = NpyWriter::create(path, shape)?;
    let mut next = pieces.next();
    while let Some(piece) = next {
        let piece = piece.as_ref();
        let mut write = || -> Result<(), WriteError> {
            writer.write(piece)?;
            meter.add(size_of_val(piece))
        };
        // The next piece is gathered while this one is written. With few parts there are few files, but there may be
        // many cores.
        let (written, gathered) = parallel::join(&mut write, || pieces.next());
        written?;
        next = gathered;
    }
    Ok(if meter.is_synced { writer.finish()? } else { writer.finish_unsynced()? })
}

/// The progress over all files, shared by the writing threads.
pub(super) struct Meter<'a> {
    progress: &'a dyn WriteProgress,
    done: AtomicU64,
    total: AtomicU64,
    /// See [`WriteOptions::is_synced`].
    is_synced: bool,
}

impl Meter<'_> {
    /// Counts written bytes and reports progress.
    ///
    /// # Errors
    /// [`WriteError::Cancelled`] if the caller asked to stop.
    fn add(&self, bytes: usize) -> Result<(), WriteError> {
        let done = self.done.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.progress.written(done, self.total.load(Ordering::Relaxed).max(done));
        if self.progress.cancelled() { Err(WriteError::Cancelled) } else { Ok(()) }
    }
}

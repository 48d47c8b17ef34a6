//! Arrays in pieces.

use super::metadata::Chunks;
use crate::memory::{FeatureDtype, Features, Workspace};
use crate::npy::npy_shape;
use crate::readers::npy_folder::{Integers, mask_ids, read_features, read_labels, read_times, read_weights};
use crate::readers::row_count::RowCount;
use crate::{GraphError, parallel};
use std::path::{Path, PathBuf};

/// The ends of the edges of a type.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) src: Vec<u32>,
    pub(super) dst: Vec<u32>,
}

/// Returns the `.npy` files of an array, each with its number of rows. Relative paths start at `folder`.
fn pieces(folder: &Path, chunks: &Chunks) -> Result<Vec<(PathBuf, usize)>, GraphError> {
    if chunks.format.name != "numpy" {
        let why = format!(
            "the format of {:?} is {:?}, but attributes are read from numpy files: `python -m edgecut.convert FOLDER OUT` converts Parquet",
            chunks.data, chunks.format.name
        );
        return Err(GraphError::format(folder.join(super::METADATA_FILE), why));
    }
    let piece = |path: &PathBuf| {
        let path = folder.join(path);
        let rows = npy_shape(&path)?.0.first().copied().unwrap_or(0);
        Ok((path, rows))
    };
    chunks.data.iter().map(piece).collect()
}

/// Checks that all pieces together have a row per item.
fn check_total(folder: &Path, pieces: &[(PathBuf, usize)], rows: RowCount) -> Result<(), GraphError> {
    let total: usize = pieces.iter().map(|(_, rows)| rows).sum();
    let first = pieces.first().map_or_else(|| folder.join(super::METADATA_FILE), |(path, _)| path.clone());
    if total != rows.number {
        return Err(GraphError::format(first, format!("all files of this array have {total} rows, but {rows}")));
    }
    Ok(())
}

/// Reads features.
pub(super) fn features(folder: &Path, chunks: &Chunks, rows: RowCount) -> Result<Option<Features>, GraphError> {
    let pieces = pieces(folder, chunks)?;
    check_total(folder, &pieces, rows)?;
    let mut read = Vec::with_capacity(pieces.len());
    for (path, num_rows) in &pieces {
        read.extend(read_features(&Workspace::default(), path, RowCount::nodes(*num_rows))?);
    }
    let Some(first) = read.first() else { return Ok(None) };
    let dim = first.dim();
    let dtype = first.dtype();
    if let Some(at) = read.iter().position(|piece| piece.dim() != dim || piece.dtype() != dtype) {
        let why =
            format!("it has {} columns of {}, but the first file {dim} of {dtype}", read[at].dim(), read[at].dtype());
        return Err(GraphError::format(&pieces[at].0, why));
    }
    if read.len() == 1 && dtype != FeatureDtype::Int8 {
        return Ok(read.pop());
    }
    Ok(Some(Features::concat(dim, dtype, read)))
}

/// Reads an array of classes, -1 for none.
pub(super) fn labels(folder: &Path, chunks: &Chunks, rows: RowCount) -> Result<Vec<i64>, GraphError> {
    joined(folder, chunks, rows, |path, rows| {
        Ok(read_labels(&Workspace::default(), path, rows)?.map_or(Vec::new(), |labels| labels.to_vec()))
    })
}

/// Reads times.
pub(super) fn times(folder: &Path, chunks: &Chunks, rows: RowCount) -> Result<Vec<i64>, GraphError> {
    joined(folder, chunks, rows, |path, rows| {
        Ok(read_times(&Workspace::default(), path, rows)?.map_or(Vec::new(), |times| times.to_vec()))
    })
}

/// Reads weights.
pub(super) fn weights(folder: &Path, chunks: &Chunks, rows: RowCount) -> Result<Vec<f32>, GraphError> {
    joined(folder, chunks, rows, |path, rows| {
        Ok(read_weights(&Workspace::default(), path, rows)?.map_or(Vec::new(), |weights| weights.to_vec()))
    })
}

/// Reads a mask, and returns the positions where it is true.
pub(super) fn mask(folder: &Path, chunks: &Chunks, rows: RowCount) -> Result<Vec<u32>, GraphError> {
    let pieces = pieces(folder, chunks)?;
    check_total(folder, &pieces, rows)?;
    let mut ids = Vec::new();
    let mut start = 0;
    for (path, num_rows) in pieces {
        let of_piece = mask_ids(&path, RowCount::nodes(num_rows))?;
        ids.extend(of_piece.into_iter().map(|row| start + row));
        start += num_rows as u32;
    }
    Ok(ids)
}

fn joined<T>(
    folder: &Path,
    chunks: &Chunks,
    rows: RowCount,
    read: impl Fn(&Path, RowCount) -> Result<Vec<T>, GraphError>,
) -> Result<Vec<T>, GraphError> {
    let pieces = pieces(folder, chunks)?;
    check_total(folder, &pieces, rows)?;
    let mut values = Vec::with_capacity(rows.number);
    for (path, num_rows) in pieces {
        values.extend(read(&path, RowCount::nodes(num_rows))?);
    }
    Ok(values)
}

/// Reads the ends of edges between nodes of two types, from CSV files or `.npy` arrays of pairs.
pub(super) fn ends(folder: &Path, chunks: &Chunks, counts: [RowCount; 2]) -> Result<Ends, GraphError> {
    let read = |at: usize| {
        let path = folder.join(&chunks.data[at]);
        match chunks.format.name.as_str() {
            "csv" => csv_ends(&path, chunks.format.delimiter.as_deref().unwrap_or(" "), counts),
            "numpy" => numpy_ends(&path, counts),
            other => {
                let why = format!(
                    "the format {other:?} of edges is not read: `python -m edgecut.convert FOLDER OUT` converts Parquet"
                );
                Err(GraphError::format(&path, why))
            }
        }
    };
    let mut all = Ends::default();
    for piece in parallel::try_collect(chunks.data.len(), &read)? {
        all.src.extend(piece.src);
        all.dst.extend(piece.dst);
    }
    Ok(all)
}

fn csv_ends(path: &Path, delimiter: &str, counts: [RowCount; 2]) -> Result<Ends, GraphError> {
    let text = std::fs::read_to_string(path).map_err(|error| GraphError::io(path, error))?;
    let mut ends = Ends::default();
    for (line, number) in text.lines().zip(1..) {
        let wrong = |why: String| GraphError::format(path, format!("line {number}: {why}"));
        let mut fields = line.split(delimiter);
        let (Some(src), Some(dst), None) = (fields.next(), fields.next(), fields.next()) else {
            return Err(wrong(format!("{line:?} is not a pair of ids with the delimiter {delimiter:?}")));
        };
        let id = |field: &str, count: RowCount| match field.trim().parse::<u32>() {
            Ok(id) if (id as usize) < count.number => Ok(id),
            Ok(id) => Err(wrong(format!("node {id} is out of range: {count}"))),
            Err(_) => Err(wrong(format!("{field:?} is not an id"))),
        };
        ends.src.push(id(src, counts[0])?);
        ends.dst.push(id(dst, counts[1])?);
    }
    Ok(ends)
}

fn numpy_ends(path: &Path, counts: [RowCount; 2]) -> Result<Ends, GraphError> {
    let (shape, ids) = Integers::open(path)?;
    let [num_edges, 2] = shape[..] else {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [number of edges, 2]")));
    };
    let ids = ids.to_i64(0..2 * num_edges)?;
    let mut ends = Ends::default();
    for edge in 0..num_edges {
        for (end, list) in [&mut ends.src, &mut ends.dst].into_iter().enumerate() {
            let id = ids[2 * edge + end];
            if !(0..counts[end].number as i64).contains(&id) {
                return Err(GraphError::format(
                    path,
                    format!("edge {edge}: node {id} is out of range: {}", counts[end]),
                ));
            }
            list.push(id as u32);
        }
    }
    Ok(ends)
}

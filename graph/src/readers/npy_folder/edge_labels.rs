//! The labels and splits of edges in a folder of `.npy` arrays.

use super::files::{EDGE_LABELS_FILE, EDGE_TARGETS_FILE};
use super::integers::Integers;
use super::read::{checked_mask, is_mask, read_labels, split_file};
use super::targets::read_targets;
use crate::GraphError;
use crate::dataset::{EdgeLabelValues, EdgeLabels, NO_SPLIT, Split};
use crate::memory::Workspace;
use crate::readers::row_count::RowCount;
use crate::readers::splits::count_classes;
use std::path::Path;

/// The start of the names of the files of splits.
pub(super) const SPLIT_PREFIX: &str = "edge_";

/// The number of positions that are read at a time.
const PIECE: usize = 1 << 16;

/// Reads the labels of `edges` from the files in `folder`, if they exist.
pub(super) fn read_edge_labels(
    space: &Workspace,
    folder: &Path,
    edges: RowCount,
) -> Result<Option<EdgeLabels>, GraphError> {
    let labels_file = folder.join(EDGE_LABELS_FILE);
    let targets_file = folder.join(EDGE_TARGETS_FILE);
    let classes = read_labels(space, &labels_file, edges)?;
    let targets = read_targets(space, &targets_file, edges)?;
    let values = match (classes, targets) {
        (None, None) => {
            for split in Split::ALL {
                if let Some(path) = split_file(folder, split, SPLIT_PREFIX)? {
                    let why = format!(
                        "the labels of these edges are missing: save {EDGE_LABELS_FILE} or {EDGE_TARGETS_FILE}"
                    );
                    return Err(GraphError::format(path, why));
                }
            }
            return Ok(None);
        }
        (Some(_), Some(_)) => {
            let why = format!("there is also {EDGE_LABELS_FILE}: edges have either classes or targets");
            return Err(GraphError::format(targets_file, why));
        }
        (Some(of_edges), None) => {
            let num_classes = count_classes(&labels_file, &of_edges, "edge")?;
            EdgeLabelValues::Classes { of_edges, num_classes }
        }
        (None, Some(targets)) => EdgeLabelValues::Targets(targets),
    };
    let mut splits = vec![NO_SPLIT; edges.number];
    for split in Split::ALL {
        let Some(path) = split_file(folder, split, SPLIT_PREFIX)? else { continue };
        if is_mask(&path) {
            let mask = checked_mask(&path, edges)?;
            let listed = (0..mask.len()).filter(|&edge| mask[edge] == 1);
            listed.into_iter().try_for_each(|edge| add_to_split(&mut splits, edge, split, &path))?;
        } else {
            add_list(&mut splits, split, &path, edges)?;
        }
    }
    let mut stored = space.growing()?;
    stored.append(splits)?;
    Ok(Some(EdgeLabels { values, splits: stored.finish()? }))
}

/// Adds the edges to a split whose positions are in a file, which is read in pieces.
fn add_list(splits: &mut [u8], split: Split, path: &Path, edges: RowCount) -> Result<(), GraphError> {
    let (shape, ids) = Integers::open(path)?;
    if !matches!(shape[..], [_] | [_, 1]) {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected a list of positions of edges")));
    }
    for start in (0..ids.len()).step_by(PIECE) {
        for (id, at) in ids.to_i64(start..ids.len().min(start + PIECE))?.into_iter().zip(start..) {
            if !(0..edges.number as i64).contains(&id) {
                let why = format!("entry {at} is edge {id}, which is out of range: {edges}");
                return Err(GraphError::format(path, why));
            }
            add_to_split(splits, id as usize, split, path)?;
        }
    }
    Ok(())
}

/// Adds an edge, which is in the file `path`, to a split. Edges without a label are left out when all of the dataset is known.
fn add_to_split(splits: &mut [u8], edge: usize, split: Split, path: &Path) -> Result<(), GraphError> {
    let why = match Split::of_code(splits[edge]) {
        Some(other) if other == split => format!("edge {edge} is listed twice"),
        Some(other) => format!("edge {edge} is also in the {} split", other.name()),
        None => {
            splits[edge] = split.code();
            return Ok(());
        }
    };
    Err(GraphError::format(path, why))
}

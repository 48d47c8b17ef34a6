//! Export of graphs to folders of `.npy` arrays.

use super::edge_labels::SPLIT_PREFIX;
use super::files::{
    EDGE_INDEX_FILE, EDGE_LABELS_FILE, EDGE_TARGETS_FILE, TARGETS_FILE, TEST_EDGE_FILE, TEST_NEGATIVE_FILE,
    TEST_SHARED_FILE, TEST_TIME_FILE, VALID_EDGE_FILES, VALID_NEGATIVE_FILES, VALID_SHARED_FILES, VALID_TIME_FILES,
};
use crate::dataset::{Dataset, EdgeLabelValues, EdgeLabels, EdgeList, GivenNegatives, Split, Targets};
use crate::memory::{FeatureDtype, Features};
use crate::npy::{NpyElement, NpyWriter};
use crate::{EdgeTypeId, GraphError, NodeTypeId, parallel};
use edgecut_output::OutputFile;
use std::io::ErrorKind;
use std::path::Path;

/// Writes a homogeneous dataset to `folder` in the layout that [`read_npy_folder`](super::read_npy_folder) reads.
/// Creates the folder if necessary. Ids, labels, times and counts are `int64`, weights and targets are `float32`, and
/// features keep their type, `float32` or `float16`. Existing files of another graph are replaced or removed, without
/// affecting maps of them. `edge_index.npy` is removed first and written last, so that a partly written folder does not load.
///
/// # Errors
/// [`GraphError::Dataset`] if there are several node or edge types, or several labels, and any I/O error.
pub fn export_npy(dataset: &Dataset, folder: &Path) -> Result<(), GraphError> {
    if dataset.node_types.len() != 1 || dataset.edge_types.len() != 1 {
        let why = "it has several node or edge types; only a homogeneous graph can be exported".into();
        return Err(GraphError::Dataset { dataset: dataset.name.clone(), why });
    }
    if !dataset.node_types[0].more_labels.is_empty() {
        let why = "its nodes have several labels; only one label can be exported".into();
        return Err(GraphError::Dataset { dataset: dataset.name.clone(), why });
    }
    std::fs::create_dir_all(folder).map_err(|e| GraphError::io(folder, e))?;
    remove(folder, EDGE_INDEX_FILE)?;
    let nodes = dataset.nodes(NodeTypeId(0));
    replace(folder, "num_nodes.npy", &[], &[nodes.num_nodes as i64])?;
    write_features(folder, "x.npy", nodes.features.as_ref())?;
    write_list(folder, "y.npy", nodes.labels.as_deref())?;
    match &nodes.targets {
        Some(Targets { values, dim, .. }) => replace(folder, TARGETS_FILE, &[nodes.num_nodes, *dim], values)?,
        None => remove(folder, TARGETS_FILE)?,
    }
    write_list(folder, "node_time.npy", nodes.times.as_deref())?;
    for alternative in ["train_mask.npy", "valid_mask.npy", "val_mask.npy", "test_mask.npy", "val_idx.npy"] {
        remove(folder, alternative)?;
    }
    for split in Split::ALL {
        let ids = nodes.splits.get(split);
        replace_with(folder, &format!("{}_idx.npy", split.name()), &[ids.len()], pieces(ids))?;
    }
    let edges = dataset.edges(EdgeTypeId(0));
    write_features(folder, "edge_attr.npy", edges.attributes.features.as_ref())?;
    write_list(folder, "edge_weight.npy", edges.attributes.weights.as_deref())?;
    write_list(folder, "edge_time.npy", edges.attributes.times.as_deref())?;
    write_edge_labels(folder, edges.attributes.labels.as_ref())?;
    let [valid_file, other_valid_file] = VALID_EDGE_FILES;
    remove(folder, other_valid_file)?;
    let [valid_time_file, other_valid_time_file] = VALID_TIME_FILES;
    remove(folder, other_valid_time_file)?;
    for name in VALID_NEGATIVE_FILES.iter().chain(&VALID_SHARED_FILES).chain(&[TEST_NEGATIVE_FILE, TEST_SHARED_FILE]) {
        remove(folder, name)?;
    }
    write_negatives(folder, [VALID_NEGATIVE_FILES[0], VALID_SHARED_FILES[0]], &edges.held_out.valid)?;
    write_negatives(folder, [TEST_NEGATIVE_FILE, TEST_SHARED_FILE], &edges.held_out.test)?;
    for (file, time_file, EdgeList { src, dst, times, .. }) in
        [(valid_file, valid_time_file, &edges.held_out.valid), (TEST_EDGE_FILE, TEST_TIME_FILE, &edges.held_out.test)]
    {
        if src.is_empty() {
            remove(folder, file)?;
            remove(folder, time_file)?;
        } else {
            write_edge_index(folder, file, src, dst)?;
            write_list(folder, time_file, times.as_deref())?;
        }
    }
    write_edge_index(folder, EDGE_INDEX_FILE, &edges.src, &edges.dst)
}

/// Writes the labels of edges, or removes those of another graph.
fn write_edge_labels(folder: &Path, labels: Option<&EdgeLabels>) -> Result<(), GraphError> {
    let values = labels.map(|labels| &labels.values);
    write_list(folder, EDGE_LABELS_FILE, values.and_then(|values| Some(&values.classes()?[..])))?;
    match values.and_then(EdgeLabelValues::targets) {
        Some(Targets { values, dim, .. }) => replace(folder, EDGE_TARGETS_FILE, &[values.len() / dim, *dim], values)?,
        None => remove(folder, EDGE_TARGETS_FILE)?,
    }
    for stem in ["train", "valid", "val", "test"] {
        remove(folder, &format!("{SPLIT_PREFIX}{stem}_idx.npy"))?;
        remove(folder, &format!("{SPLIT_PREFIX}{stem}_mask.npy"))?;
    }
    let Some(labels) = labels else { return Ok(()) };
    for split in Split::ALL {
        let mask: Vec<u8> = labels.splits.iter().map(|&code| u8::from(code == split.code())).collect();
        replace(folder, &format!("{SPLIT_PREFIX}{}_mask.npy", split.name()), &[mask.len()], &mask)?;
    }
    Ok(())
}

fn write_negatives(folder: &Path, [of_each, shared]: [&str; 2], list: &EdgeList) -> Result<(), GraphError> {
    match &list.negatives {
        None => Ok(()),
        Some(GivenNegatives::OfEach { num, dst }) => replace_with(folder, of_each, &[list.len(), *num], pieces(dst)),
        Some(GivenNegatives::Shared { src, dst }) => write_edge_index(folder, shared, src, dst),
    }
}

fn write_edge_index(folder: &Path, name: &str, src: &[u32], dst: &[u32]) -> Result<(), GraphError> {
    replace_with(folder, name, &[2, src.len()], pieces(src).chain(pieces(dst)))
}

/// Returns ids as `int64`, in pieces.
fn pieces(ids: &[u32]) -> impl Iterator<Item = Vec<i64>> {
    ids.chunks(PIECE).map(|piece| parallel::map(piece, |&id| i64::from(id)))
}

/// The number of ids that are converted at a time.
const PIECE: usize = 1 << 20;

fn write_features(folder: &Path, name: &str, features: Option<&Features>) -> Result<(), GraphError> {
    match features {
        Some(Features::F32 { values, dim }) => replace(folder, name, &[values.len() / dim, *dim], values),
        Some(Features::F16 { values, dim }) => replace(folder, name, &[values.len() / dim, *dim], values),
        // NumPy has no such types.
        Some(features) => match features.to_dtype(FeatureDtype::F32) {
            Ok(features) => write_features(folder, name, Some(&features)),
            Err(error) => Err(GraphError::format(folder.join(name), error.to_string())),
        },
        None => remove(folder, name),
    }
}

fn write_list<T: NpyElement>(folder: &Path, name: &str, values: Option<&[T]>) -> Result<(), GraphError> {
    match values {
        Some(values) => replace(folder, name, &[values.len()], values),
        None => remove(folder, name),
    }
}

/// Removes a file that another graph may have left.
fn remove(folder: &Path, name: &str) -> Result<(), GraphError> {
    let path = folder.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(GraphError::io(path, error)),
        _ => Ok(()),
    }
}

/// Writes to a temporary file and renames it, because the old file may be mapped, even by this dataset itself.
fn replace<T: NpyElement>(folder: &Path, name: &str, shape: &[usize], values: &[T]) -> Result<(), GraphError> {
    replace_with(folder, name, shape, std::iter::once(values))
}

fn replace_with<T: NpyElement, P: AsRef<[T]>>(
    folder: &Path,
    name: &str,
    shape: &[usize],
    pieces: impl Iterator<Item = P>,
) -> Result<(), GraphError> {
    let path = folder.join(name);
    let output = OutputFile::create(&path).map_err(|e| GraphError::io(&path, e))?;
    let mut writer = NpyWriter::create(output.temporary(), shape)?;
    for piece in pieces {
        writer.write(piece.as_ref())?;
    }
    writer.finish()?;
    output.commit().map_err(|e| GraphError::io(&path, e))
}

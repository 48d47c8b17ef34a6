//! Graphs as folders of `.npy` arrays, as PyG and DGL users save them.

use super::attributes::{read_features, read_times};
use super::edges::EdgeFiles;
use super::files::{EDGE_INDEX_FILE, EDGE_TARGETS_FILE, EDGES_FOLDER, NODES_FOLDER, TARGETS_FILE, only_file};
use super::integers::{Integers, little_endian, read_mask};
use super::targets::read_targets;
use crate::dataset::{Dataset, NodeData, Split, Splits};
use crate::memory::{Buffer, Workspace};
use crate::npy::{NpyElement, StoredArray, npy_shape};
use crate::parallel;
use crate::readers::row_count::RowCount;
use crate::readers::splits::{checked_split, count_classes};
use crate::scan::first_position;
use crate::{DEFAULT_NODE_TYPE, DEFAULT_RELATION, GraphError, NodeTypeId};
use edgecut_settings::suggestion;
use std::path::{Path, PathBuf};

/// Reads a homogeneous graph from a folder of `.npy` arrays.
///
/// | file | shape | type |
/// |---|---|---|
/// | `edge_index.npy` | `[2, E]`, row 0 sources, row 1 destinations | whole numbers |
/// | `edge_attr.npy` | `[E, F]`, edge features; optional | floats |
/// | `edge_weight.npy` | `[E]` or `[E, 1]`, finite, not negative; optional | floats |
/// | `edge_time.npy` | `[E]` or `[E, 1]`, in any unit; optional | whole numbers |
/// | `edge_label.npy` | `[E]` or `[E, 1]`, the classes of edges, -1 or NaN if unlabeled; optional | whole numbers or floats |
/// | `edge_target.npy` | `[E]` or `[E, T]`, numbers to predict for edges, NaN if unknown, in place of `edge_label.npy`; optional | whole numbers, `bool` or floats |
/// | `edge_train_idx.npy`, `edge_valid_idx.npy` or `edge_val_idx.npy`, `edge_test_idx.npy` | the positions of labeled edges in `edge_index.npy`, in any order, each in at most one of them; each optional | whole numbers |
/// | `edge_train_mask.npy`, `edge_valid_mask.npy` or `edge_val_mask.npy`, `edge_test_mask.npy` | `[E]`, instead of positions | `bool`, or whole numbers 0 and 1 |
/// | `valid_edge_index.npy` or `val_edge_index.npy`, `test_edge_index.npy` | `[2, n]`, held-out edges; each optional | whole numbers |
/// | `valid_neg.npy` or `val_neg.npy`, `test_neg.npy` | `[n, K]`, negative destinations of each held-out edge; optional | whole numbers |
/// | `valid_edge_neg.npy` or `val_edge_neg.npy`, `test_edge_neg.npy` | `[2, M]`, negative pairs of all held-out edges of the split, in place of the former; optional | whole numbers |
/// | `valid_edge_time.npy` or `val_edge_time.npy`, `test_edge_time.npy` | `[n]` or `[n, 1]`, the times of the held-out edges; optional | whole numbers |
/// | `x.npy` | `[N, F]`; optional | floats |
/// | `y.npy` | `[N]` or `[N, 1]`, -1 or NaN if unlabeled; optional | whole numbers or floats |
/// | `targets.npy` | `[N]` or `[N, T]`, NaN if unknown, in place of `y.npy`; optional | whole numbers, `bool` or floats |
/// | `train_idx.npy`, `valid_idx.npy` or `val_idx.npy`, `test_idx.npy` | node ids in any order; each optional | whole numbers |
/// | `train_mask.npy`, `valid_mask.npy` or `val_mask.npy`, `test_mask.npy` | `[N]`, instead of ids | `bool`, or whole numbers 0 and 1 |
/// | `node_time.npy` | `[N]` or `[N, 1]`, in any unit; optional | whole numbers |
/// | `num_nodes.npy` | one number; optional | whole number |
///
/// Whole numbers are `int64`, `uint64`, `int32`, `uint32` or `uint8`. Floats are `float32`, `float16` or `float64`,
/// which is converted to `float32`. Without `num_nodes.npy`, the number of nodes is the number of rows of the first
/// array that exists among `x`, `y`, `targets`, the masks and `node_time`. Without these, it is one more than the largest id in
/// `edge_index` and the held-out edges, which must be below 17 ids per end of an edge and 65,536 in addition. As in PyG, messages flow from source to destination. Edges keep their order.
/// Mapped files must not change while the dataset is in use.
///
/// ```
/// use edgecut_graph::readers::read_npy_folder;
/// use edgecut_graph::write_npy;
/// # let dir = tempfile::tempdir()?;
/// # let folder = dir.path();
/// write_npy(&folder.join("edge_index.npy"), &[2, 3], &[0_i64, 1, 2, 1, 2, 0])?;
/// write_npy(&folder.join("y.npy"), &[3], &[0_i64, 1, 0])?;
/// let triangle = read_npy_folder("triangle", folder)?;
/// assert_eq!((triangle.num_edges(), triangle.node_types[0].num_classes), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails for a missing or damaged array, a wrong shape or type, inconsistent counts, ids out of range,
/// duplicate nodes in a split, edges in two splits, features that are not finite, and weights that are negative
/// or not finite. Each error names the file, and the entry counted from 0.
pub fn read_npy_folder(name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    read_npy_folder_in(&Workspace::default(), name, folder)
}

/// Like [`read_npy_folder`], with the arrays of edges, and arrays of a type that is converted, in `space`.
pub(in crate::readers) fn read_npy_folder_in(
    space: &Workspace,
    name: &str,
    folder: &Path,
) -> Result<Dataset, GraphError> {
    let edges = EdgeFiles::open(folder)?;
    let count = match said_count(folder)? {
        Some(count) => count,
        None => CountInFile { count: edges.count_nodes()?, path: folder.join(EDGE_INDEX_FILE) },
    };
    let nodes = RowCount::nodes(count.check("the graph")?);
    let edge_type = edges.read(space, [NodeTypeId(0); 2], DEFAULT_RELATION, [nodes; 2])?;
    let node_type = node_type(space, folder, DEFAULT_NODE_TYPE, nodes)?;
    Ok(Dataset { name: name.into(), node_types: vec![node_type], edge_types: vec![edge_type] })
}

/// Reads a heterogeneous graph from a folder of `.npy` arrays with one folder per type.
///
/// `nodes/TYPE/` contains the node files of [`read_npy_folder`]: `x.npy`, `y.npy` or `targets.npy`, the splits, `node_time.npy`, and
/// `num_nodes.npy`, which is required only without any other array that has a row per node. `edges/SRC__REL__DST/`
/// contains the edge files, for edges from nodes of type SRC to nodes of type DST, with ids from 0 within their types.
/// Types are in the order of their names.
///
/// # Errors
/// As [`read_npy_folder`], and for an edge type of an unknown node type or with an invalid folder name.
pub fn read_npy_types(name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    read_npy_types_in(&Workspace::default(), name, folder)
}

/// Like [`read_npy_types`], with the arrays of edges, and arrays of a type that is converted, in `space`.
pub(in crate::readers) fn read_npy_types_in(
    space: &Workspace,
    name: &str,
    folder: &Path,
) -> Result<Dataset, GraphError> {
    let mut node_types = Vec::new();
    for (type_name, dir) in folders(&folder.join(NODES_FOLDER))? {
        let Some(said) = said_count(&dir)? else {
            let why = "the number of nodes is unknown: save x.npy, y.npy or num_nodes.npy";
            return Err(GraphError::format(dir, why));
        };
        let num_nodes = said.check(&format!("type {type_name}"))?;
        node_types.push(node_type(space, &dir, &type_name, RowCount::nodes_of_type(num_nodes, &type_name))?);
    }
    let mut edge_types = Vec::new();
    for (triple, dir) in folders(&folder.join(EDGES_FOLDER))? {
        let fields: Vec<&str> = triple.split("__").collect();
        let [src, relation, dst] = fields[..] else {
            return Err(GraphError::format(dir, "its name is not an edge type like author__writes__paper"));
        };
        let find = |wanted: &str| match node_types.iter().position(|nodes: &NodeData| nodes.name == wanted) {
            Some(position) => Ok(position),
            None => {
                let hint = suggestion(wanted, node_types.iter().map(|nodes| nodes.name.as_str()));
                Err(GraphError::format(&dir, format!("there is no node type {wanted} in {NODES_FOLDER}/{hint}")))
            }
        };
        let from = find(src)?;
        let to = find(dst)?;
        let counts = [from, to].map(|t| RowCount::nodes_of_type(node_types[t].num_nodes, &node_types[t].name));
        let types = [from, to].map(|t| NodeTypeId(t as u16));
        edge_types.push(EdgeFiles::open(&dir)?.read(space, types, relation, counts)?);
    }
    Ok(Dataset { name: name.into(), node_types, edge_types })
}

/// Returns the names and paths of the folders in `dir`, sorted by name.
pub(super) fn folders(dir: &Path) -> Result<Vec<(String, PathBuf)>, GraphError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| GraphError::io(dir, e))? {
        let entry = entry.map_err(|e| GraphError::io(dir, e))?;
        if entry.path().is_dir() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(GraphError::format(dir, "it contains no folders, expected one per type"));
    }
    Ok(found)
}

/// Reads all files about the nodes of one type.
fn node_type(space: &Workspace, folder: &Path, name: &str, nodes: RowCount) -> Result<NodeData, GraphError> {
    let labels_file = folder.join("y.npy");
    let labels = read_labels(space, &labels_file, nodes)?;
    let num_classes = labels.as_deref().map_or(Ok(0), |labels| count_classes(&labels_file, labels, "node"))?;
    let targets_file = folder.join(TARGETS_FILE);
    let mut data = NodeData {
        name: name.into(),
        num_nodes: nodes.number,
        features: read_features(space, &folder.join("x.npy"), nodes)?,
        num_classes,
        labels,
        times: read_times(space, &folder.join("node_time.npy"), nodes)?,
        targets: read_targets(space, &targets_file, nodes)?,
        ..NodeData::default()
    };
    if data.labels.is_some() && data.targets.is_some() {
        return Err(GraphError::format(targets_file, "there is also y.npy: nodes have either classes or targets"));
    }
    data.splits = read_splits(folder, nodes)?;
    Ok(data)
}

/// A number of nodes, and the file that determines it.
pub(super) struct CountInFile {
    count: i64,
    path: PathBuf,
}

impl CountInFile {
    /// Checks the number, for the nodes `of` a graph or a type.
    pub(super) fn check(self, of: &str) -> Result<usize, GraphError> {
        match self.count {
            ..=0 => Err(GraphError::format(self.path, format!("{of} has no nodes"))),
            1..=0xffff_ffff => Ok(self.count as usize),
            count => Err(GraphError::format(self.path, format!("{count} nodes are more than 2^32 - 1"))),
        }
    }
}

/// Returns the number of nodes from the first file in `folder` that determines it.
pub(super) fn said_count(folder: &Path) -> Result<Option<CountInFile>, GraphError> {
    let count_path = folder.join("num_nodes.npy");
    if count_path.exists() {
        let (_, number) = Integers::open(&count_path)?;
        if number.len() != 1 {
            return Err(GraphError::format(count_path, format!("it has {} numbers, expected one", number.len())));
        }
        return Ok(Some(CountInFile { count: number.get(0)?, path: count_path }));
    }
    let Some(path) = per_node_files(folder).into_iter().find(|path| path.exists()) else { return Ok(None) };
    let (shape, _) = npy_shape(&path)?;
    Ok(Some(CountInFile { count: shape.first().map_or(0, |&rows| rows as i64), path }))
}

/// Returns the paths of the files that have one row per node.
fn per_node_files(folder: &Path) -> Vec<PathBuf> {
    ["x", "y", "targets", "train_mask", "valid_mask", "val_mask", "test_mask", "node_time"]
        .iter()
        .map(|stem| folder.join(format!("{stem}.npy")))
        .collect()
}

/// Reads classes from `path`, one for each of `rows`, if the file exists.
pub(in crate::readers) fn read_labels(
    space: &Workspace,
    path: &Path,
    rows: RowCount,
) -> Result<Option<Buffer<i64>>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    let item = rows.item();
    match shape[..] {
        [_] | [_, 1] => {}
        [_, columns] => {
            let why = format!(
                "it has {columns} columns; expected one class per {item}; several labels are {} in a folder of arrays",
                if item == "edge" { EDGE_TARGETS_FILE } else { TARGETS_FILE }
            );
            return Err(GraphError::format(path, why));
        }
        _ => return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [num_{item}s]"))),
    }
    rows.check_rows(path, shape[0])?;
    let labels = match little_endian(&dtype).as_str() {
        "<f4" => classes::<f32>(space, path, item)?,
        "<f8" => classes::<f64>(space, path, item)?,
        _ => Integers::open(path)?.1.into_i64(space)?,
    };
    let class = |label: i64| (-1..=i64::from(i32::MAX)).contains(&label);
    if let Some(at) = first_position(&labels, |label| !class(label)) {
        let why = format!("{item} {at} has label {}, which is not a class: 0, 1, 2 and so on, or -1", labels[at]);
        return Err(GraphError::format(path, why));
    }
    Ok(Some(labels))
}

/// Reads floats as classes, and NaN as -1 (unlabeled).
fn classes<T: NpyElement + Into<f64>>(space: &Workspace, path: &Path, item: &str) -> Result<Buffer<i64>, GraphError> {
    let array = StoredArray::<T>::open(path)?;
    let not_whole = |v: T| {
        let value: f64 = v.into();
        !value.is_nan() && value.fract() != 0.0
    };
    let wrong = array.find_in_pieces(0..array.len(), |start, piece| {
        first_position(piece, not_whole).map(|at| (start + at, piece[at].into()))
    })?;
    if let Some((at, value)) = wrong {
        return Err(GraphError::format(path, format!("{item} {at} has label {value}, which is not a class")));
    }
    array.convert_to(space, "converting labels", |&v| {
        let value: f64 = v.into();
        if value.is_nan() { -1 } else { value as i64 }
    })
}

/// Reads the splits of the nodes from the files in `folder`.
pub(in crate::readers) fn read_splits(folder: &Path, nodes: RowCount) -> Result<Splits, GraphError> {
    let mut splits = Splits::default();
    for split in Split::ALL {
        let Some(path) = split_file(folder, split, "")? else { continue };
        let ids = if is_mask(&path) { mask_ids(&path, nodes)? } else { index_ids(&path, nodes)? };
        splits.set(split, checked_split(&path, ids)?);
    }
    Ok(splits)
}

/// Returns the file in `folder` of ids or of a mask of a split, if there is one. Its name starts with `prefix`.
pub(super) fn split_file(folder: &Path, split: Split, prefix: &str) -> Result<Option<PathBuf>, GraphError> {
    let stems: &[&str] = if split == Split::Valid { &["valid", "val"] } else { &[split.name()] };
    let names = stems.iter().flat_map(|stem| ["idx", "mask"].map(|form| format!("{prefix}{stem}_{form}.npy")));
    only_file(names.map(|name| folder.join(name)))
}

/// Returns true if a file of a split holds a mask and not ids.
pub(super) fn is_mask(path: &Path) -> bool {
    path.to_string_lossy().ends_with("_mask.npy")
}

pub(in crate::readers) fn mask_ids(path: &Path, nodes: RowCount) -> Result<Vec<u32>, GraphError> {
    let mask = checked_mask(path, nodes)?;
    Ok(parallel::filter_map(mask.len(), |node| (mask[node] == 1).then_some(node as u32)))
}

/// Returns the entries of a mask, one for each of `rows`.
pub(super) fn checked_mask(path: &Path, rows: RowCount) -> Result<Vec<u8>, GraphError> {
    let item = rows.item();
    let (shape, mask) = read_mask(path, item)?;
    match shape[..] {
        [found] | [found, 1] => rows.check_rows(path, found)?,
        [_, columns] => {
            let why = format!("it holds {columns} masks; save one of its columns, such as mask[:, 0]");
            return Err(GraphError::format(path, why));
        }
        _ => return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [num_{item}s]"))),
    }
    Ok(mask)
}

fn index_ids(path: &Path, nodes: RowCount) -> Result<Vec<u32>, GraphError> {
    let (shape, ids) = Integers::open(path)?;
    if !matches!(shape[..], [_] | [_, 1]) {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected a list of node ids")));
    }
    if let Some(checked) = ids.to_checked_ids(0..ids.len(), nodes.number)? {
        return Ok(checked);
    }
    let at = ids.position(|id| !(0..nodes.number as i64).contains(&id))?.unwrap_or_default();
    let why = format!("entry {at} is node {}, which is out of range: {nodes}", ids.get(at)?);
    Err(GraphError::format(path, why))
}

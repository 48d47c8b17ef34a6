//! A graph as a folder of `.npy` arrays, the way PyG and DGL users have it at hand.

use super::node_ids::{Integers, read_mask};
use super::splits::{checked_split, count_classes};
use crate::scan::first_position;
use crate::{
    Buffer, DEFAULT_NODE_TYPE, Dataset, EdgeData, EdgeTypeId, Features, GraphError, NodeData, NodeTypeId, NpyElement,
    Split, Splits, map_npy, npy_shape, write_npy,
};
use rayon::prelude::*;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file that makes a folder a `.npy` folder.
pub(super) const EDGE_INDEX_FILE: &str = "edge_index.npy";
/// The folders that hold a folder per type.
pub(super) const NODES_FOLDER: &str = "nodes";
pub(super) const EDGES_FOLDER: &str = "edges";

/// Reads a homogeneous graph from a folder of `.npy` arrays.
///
/// | file | shape | type |
/// |---|---|---|
/// | `edge_index.npy` | `[2, E]`, row 0 sources, row 1 destinations | whole numbers |
/// | `x.npy` | `[N, F]`; optional | `float32`, `float16`: mapped; `float64`: converted |
/// | `y.npy` | `[N]` or `[N, 1]`, -1 or NaN where unlabelled; optional | whole numbers or floats |
/// | `train_idx.npy`, `valid_idx.npy` or `val_idx.npy`, `test_idx.npy` | node ids in any order; each optional | whole numbers |
/// | `train_mask.npy`, `valid_mask.npy` or `val_mask.npy`, `test_mask.npy` | `[N]`, in place of ids | `bool`, `uint8` |
/// | `num_nodes.npy` | one number; optional | whole number |
///
/// Whole numbers are `int64`, `uint64`, `int32`, `uint32` or `uint8`. Without `num_nodes.npy` the number of nodes is
/// the number of rows of `x`, else of `y`, else of a mask, else one more than the largest id in `edge_index`.
/// As in PyG, messages flow from source to destination. Edges keep their order. Mapped files must not change while
/// the dataset is in use.
///
/// # Errors
/// A missing, damaged or Fortran-ordered array, another shape or type, counts that contradict each other, ids out of
/// range, a node twice in a split, a split node without label, and features that are not finite. Each names the file,
/// and the entry counted from 0.
pub fn read_npy_folder(name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    let edge_path = folder.join(EDGE_INDEX_FILE);
    let edge_index = open_edge_index(&edge_path)?;
    let largest = || (edge_index.max().map_or(0, |largest| largest.saturating_add(1)), edge_path.clone());
    let num_nodes = node_count(said_count(folder)?.unwrap_or_else(largest))?;
    let (src, dst) = edges(&edge_path, &edge_index, [num_nodes; 2])?;
    Ok(Dataset::homogeneous(name, node_type(folder, DEFAULT_NODE_TYPE, num_nodes)?, src, dst))
}

/// Reads a heterogeneous graph from a folder of `.npy` arrays, a folder per type.
///
/// `nodes/TYPE/` holds the files of [`read_npy_folder`] that are about nodes: `x.npy`, `y.npy`, the splits, and
/// `num_nodes.npy`, which only a type without any other needs. `edges/SRC__REL__DST/edge_index.npy` are edges from nodes
/// of type SRC to nodes of type DST, ids from 0 within their types. Types are taken in the order of their names.
///
/// # Errors
/// As [`read_npy_folder`], an edge type of an unknown node type, and a folder whose name is none.
pub fn read_npy_types(name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    let mut node_types = Vec::new();
    for (type_name, dir) in folders(&folder.join(NODES_FOLDER))? {
        let Some(said) = said_count(&dir)? else {
            let why = "nothing in it says how many nodes there are: save x.npy, y.npy or num_nodes.npy";
            return Err(GraphError::format(dir, why));
        };
        node_types.push(node_type(&dir, &type_name, node_count(said)?)?);
    }
    let mut edge_types = Vec::new();
    for (triple, dir) in folders(&folder.join(EDGES_FOLDER))? {
        let fields: Vec<&str> = triple.split("__").collect();
        let [src, relation, dst] = fields[..] else {
            return Err(GraphError::format(dir, "its name is not that of an edge type, such as author__writes__paper"));
        };
        let find = |wanted: &str| match node_types.iter().position(|nodes: &NodeData| nodes.name == wanted) {
            Some(position) => Ok(position),
            None => Err(GraphError::format(&dir, format!("there is no node type {wanted} in {NODES_FOLDER}/"))),
        };
        let (from, to) = (find(src)?, find(dst)?);
        let path = dir.join(EDGE_INDEX_FILE);
        let counts = [from, to].map(|t| node_types[t].num_nodes);
        let (sources, destinations) = edges(&path, &open_edge_index(&path)?, counts)?;
        let (src_type, dst_type) = (NodeTypeId(from as u16), NodeTypeId(to as u16));
        edge_types.push(EdgeData::new(src_type, relation, dst_type, sources, destinations));
    }
    Ok(Dataset { name: name.into(), node_types, edge_types })
}

/// The folders in a folder, by name.
fn folders(dir: &Path) -> Result<Vec<(String, PathBuf)>, GraphError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| GraphError::io(dir, e))? {
        let entry = entry.map_err(|e| GraphError::io(dir, e))?;
        if entry.path().is_dir() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(GraphError::format(dir, "it has no folder in it, expected one per type")),
        false => Ok(found),
    }
}

/// All that a folder holds about the nodes of one type.
fn node_type(folder: &Path, name: &str, num_nodes: usize) -> Result<NodeData, GraphError> {
    let labels = read_labels(&folder.join("y.npy"), num_nodes)?;
    Ok(NodeData {
        name: name.into(),
        num_nodes,
        features: read_features(&folder.join("x.npy"), num_nodes)?,
        num_classes: labels.as_deref().map_or(0, count_classes),
        splits: read_splits(folder, num_nodes, labels.as_ref())?,
        labels,
        times: None,
    })
}

fn open_edge_index(path: &Path) -> Result<Integers, GraphError> {
    let (shape, edge_index) = Integers::map(path)?;
    match shape[..] {
        [2, _] => Ok(edge_index),
        [_, 2] => {
            let why = format!("its shape is {shape:?}, expected [2, E]; save numpy.ascontiguousarray(edge_index.T)");
            Err(GraphError::format(path, why))
        }
        _ => Err(GraphError::format(path, format!("its shape is {shape:?}, expected [2, E]"))),
    }
}

/// The number of nodes, from the first file in `folder` that tells it.
fn said_count(folder: &Path) -> Result<Option<(i64, PathBuf)>, GraphError> {
    let count_path = folder.join("num_nodes.npy");
    if count_path.exists() {
        let (_, number) = Integers::map(&count_path)?;
        if number.len() != 1 {
            return Err(GraphError::format(count_path, format!("it has {} numbers, expected one", number.len())));
        }
        return Ok(Some((number.get(0), count_path)));
    }
    let Some(path) = per_node_files(folder).into_iter().find(|path| path.exists()) else { return Ok(None) };
    let (shape, _) = npy_shape(&path)?;
    Ok(Some((shape.first().map_or(0, |&rows| rows as i64), path)))
}

fn node_count((count, path): (i64, PathBuf)) -> Result<usize, GraphError> {
    match count {
        ..=0 => Err(GraphError::format(path, "the graph has no nodes")),
        1..=0xffff_ffff => Ok(count as usize),
        _ => Err(GraphError::format(path, format!("{count} nodes are more than 2^32 - 1"))),
    }
}

fn per_node_files(folder: &Path) -> Vec<PathBuf> {
    ["x", "y", "train_mask", "valid_mask", "val_mask", "test_mask"]
        .iter()
        .map(|stem| folder.join(format!("{stem}.npy")))
        .collect()
}

/// Sources and destinations, of which there are `counts` nodes.
fn edges(path: &Path, edge_index: &Integers, counts: [usize; 2]) -> Result<(Buffer<u32>, Buffer<u32>), GraphError> {
    let num_edges = edge_index.len() / 2;
    let ids = |range, end| edge_index.to_checked_ids(range, counts[end]);
    if let (Some(src), Some(dst)) = (ids(0..num_edges, 0), ids(num_edges..2 * num_edges, 1)) {
        return Ok((src.into(), dst.into()));
    }
    let legal = |at: usize| (0..counts[at / num_edges] as i64).contains(&edge_index.get(at));
    let at = (0..2 * num_edges).find(|&at| !legal(at)).unwrap_or(0);
    let (end, num_nodes) = (["source", "destination"][at / num_edges], counts[at / num_edges]);
    let why = format!(
        "the {end} of edge {} is node {}, which is out of range: the graph has {num_nodes} nodes",
        at % num_edges,
        edge_index.get(at)
    );
    Err(GraphError::format(path, why))
}

fn read_features(path: &Path, num_nodes: usize) -> Result<Option<Features>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    let [rows, dim] = shape[..] else {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [num_nodes, num_features]")));
    };
    check_rows(path, rows, num_nodes)?;
    let features = match dtype.as_str() {
        "<f4" => Features::F32 { values: map_npy(path)?.1, dim },
        "<f2" => Features::F16 { values: map_npy(path)?.1, dim },
        "<f8" => {
            let (_, values) = map_npy::<f64>(path)?;
            Features::F32 { values: values.par_iter().map(|&v| v as f32).collect::<Vec<_>>().into(), dim }
        }
        other => {
            let why = format!("its type is {other}, expected floats; save it through .astype(numpy.float32)");
            return Err(GraphError::format(path, why));
        }
    };
    if dim == 0 {
        return Ok(None);
    }
    if let Some((row, column)) = features.first_not_finite() {
        let why = format!("feature {column} of node {row} is NaN or infinite, or too large for 32 bits");
        return Err(GraphError::format(path, why));
    }
    Ok(Some(match features {
        // Mapped again, because a fresh map has no pages in memory: it may be long before they are used.
        Features::F32 { dim, .. } if dtype == "<f4" => Features::F32 { values: map_npy(path)?.1, dim },
        Features::F16 { dim, .. } => Features::F16 { values: map_npy(path)?.1, dim },
        converted => converted,
    }))
}

fn check_rows(path: &Path, rows: usize, num_nodes: usize) -> Result<(), GraphError> {
    if rows != num_nodes {
        return Err(GraphError::format(path, format!("it has {rows} rows, but the graph has {num_nodes} nodes")));
    }
    Ok(())
}

fn read_labels(path: &Path, num_nodes: usize) -> Result<Option<Buffer<i64>>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    match shape[..] {
        [_] | [_, 1] => {}
        [_, columns] => {
            let why = format!("it has {columns} columns; a node has one class here, multi-task labels are not read");
            return Err(GraphError::format(path, why));
        }
        _ => return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [num_nodes]"))),
    }
    check_rows(path, shape[0], num_nodes)?;
    let labels = match dtype.as_str() {
        "<f4" => classes(path, &map_npy::<f32>(path)?.1)?,
        "<f8" => classes(path, &map_npy::<f64>(path)?.1)?,
        _ => Integers::map(path)?.1.into_i64(),
    };
    let class = |label: i64| (-1..=i64::from(i32::MAX)).contains(&label);
    if let Some(node) = first_position(&labels, |label| !class(label)) {
        let why = format!("node {node} has label {}, which is no class: 0, 1, 2 and so on, or -1", labels[node]);
        return Err(GraphError::format(path, why));
    }
    Ok(Some(labels))
}

/// Floats that are classes, with NaN for "unlabelled".
fn classes<T: Copy + Into<f64> + Sync>(path: &Path, values: &[T]) -> Result<Buffer<i64>, GraphError> {
    let not_whole = |v: f64| !v.is_nan() && v.fract() != 0.0;
    if let Some(node) = first_position(values, |v| not_whole(v.into())) {
        let value: f64 = values[node].into();
        return Err(GraphError::format(path, format!("node {node} has label {value}, which is no class")));
    }
    let class = |&v: &T| {
        let value: f64 = v.into();
        if value.is_nan() { -1 } else { value as i64 }
    };
    Ok(values.par_iter().map(class).collect::<Vec<_>>().into())
}

fn read_splits(folder: &Path, num_nodes: usize, labels: Option<&Buffer<i64>>) -> Result<Splits, GraphError> {
    let mut splits = Splits::default();
    for split in Split::ALL {
        let stems: &[&str] = if split == Split::Valid { &["valid", "val"] } else { &[split.name()] };
        let names = stems.iter().flat_map(|stem| [format!("{stem}_idx.npy"), format!("{stem}_mask.npy")]);
        let found: Vec<PathBuf> = names.map(|name| folder.join(name)).filter(|path| path.exists()).collect();
        let path = match &found[..] {
            [] => continue,
            [path] => path,
            [one, other, ..] => {
                let why = format!("{} is there as well; keep one of them", other.display());
                return Err(GraphError::format(one, why));
            }
        };
        let is_mask = path.to_string_lossy().ends_with("_mask.npy");
        let ids = if is_mask { mask_ids(path, num_nodes)? } else { index_ids(path, num_nodes)? };
        splits.set(split, checked_split(path, ids, labels)?);
    }
    Ok(splits)
}

fn mask_ids(path: &Path, num_nodes: usize) -> Result<Vec<u32>, GraphError> {
    let (shape, ids) = read_mask(path)?;
    match shape[..] {
        [rows] | [rows, 1] => check_rows(path, rows, num_nodes)?,
        [_, columns] => {
            let why = format!("it holds {columns} masks; save one of its columns, such as mask[:, 0]");
            return Err(GraphError::format(path, why));
        }
        _ => return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [num_nodes]"))),
    }
    Ok(ids)
}

fn index_ids(path: &Path, num_nodes: usize) -> Result<Vec<u32>, GraphError> {
    let (shape, ids) = Integers::map(path)?;
    if !matches!(shape[..], [_] | [_, 1]) {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected a list of node ids")));
    }
    if let Some(at) = ids.position(|id| !(0..num_nodes as i64).contains(&id)) {
        let why = format!("entry {at} is node {}, which is out of range: the graph has {num_nodes} nodes", ids.get(at));
        return Err(GraphError::format(path, why));
    }
    Ok(ids.to_ids(0..ids.len()))
}

/// Writes a homogeneous dataset to `folder`, which is made, as [`read_npy_folder`] reads it: `edge_index.npy`, `y.npy`,
/// `num_nodes.npy` and the three `*_idx.npy` as `int64`, `x.npy` as `float32` (`float16` stays). Files of
/// another graph that are there already are replaced or removed, which leaves maps of them intact. `edge_index.npy`
/// goes first and comes last, so that a folder that is only partly written does not load.
///
/// # Errors
/// [`GraphError::Dataset`] for several node or edge types, and any I/O error.
pub fn export_npy(dataset: &Dataset, folder: &Path) -> Result<(), GraphError> {
    if dataset.node_types.len() != 1 || dataset.edge_types.len() != 1 {
        let why = "it has several node or edge types; only a homogeneous graph can be exported".into();
        return Err(GraphError::Dataset { dataset: dataset.name.clone(), why });
    }
    std::fs::create_dir_all(folder).map_err(|e| GraphError::io(folder, e))?;
    remove(folder, EDGE_INDEX_FILE)?;
    let nodes = dataset.nodes(NodeTypeId(0));
    replace(folder, "num_nodes.npy", &[], &[nodes.num_nodes as i64])?;
    match &nodes.features {
        Some(Features::F32 { values, dim }) => replace(folder, "x.npy", &[nodes.num_nodes, *dim], values)?,
        Some(Features::F16 { values, dim }) => replace(folder, "x.npy", &[nodes.num_nodes, *dim], values)?,
        None => remove(folder, "x.npy")?,
    }
    match &nodes.labels {
        Some(labels) => replace(folder, "y.npy", &[nodes.num_nodes], labels)?,
        None => remove(folder, "y.npy")?,
    }
    for alternative in ["train_mask.npy", "valid_mask.npy", "val_mask.npy", "test_mask.npy", "val_idx.npy"] {
        remove(folder, alternative)?;
    }
    for split in Split::ALL {
        let ids: Vec<i64> = nodes.splits.get(split).iter().map(|&id| i64::from(id)).collect();
        replace(folder, &format!("{}_idx.npy", split.name()), &[ids.len()], &ids)?;
    }
    let edges = dataset.edges(EdgeTypeId(0));
    let mut edge_index = Vec::with_capacity(2 * edges.src.len());
    for end in [&edges.src, &edges.dst] {
        edge_index.par_extend(end.par_iter().map(|&id| i64::from(id)));
    }
    replace(folder, EDGE_INDEX_FILE, &[2, edges.src.len()], &edge_index)
}

/// Removes what another graph may have left.
fn remove(folder: &Path, name: &str) -> Result<(), GraphError> {
    let path = folder.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(GraphError::io(path, error)),
        _ => Ok(()),
    }
}

/// Writes beside the old file and renames, because the old one may be mapped, by this very dataset too.
fn replace<T: NpyElement>(folder: &Path, name: &str, shape: &[usize], values: &[T]) -> Result<(), GraphError> {
    let new = folder.join(format!("{name}.new"));
    write_npy(&new, shape, values)?;
    let path = folder.join(name);
    std::fs::rename(&new, &path).map_err(|e| GraphError::io(path, e))
}

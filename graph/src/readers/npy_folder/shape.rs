//! The sizes of graphs in folders of `.npy` arrays, from their headers.

use super::files::{
    EDGE_INDEX_FILE, EDGE_LABELS_FILE, EDGE_TARGETS_FILE, EDGES_FOLDER, NODES_FOLDER, TARGETS_FILE, TEST_EDGE_FILE,
    TEST_NEGATIVE_FILE, TEST_SHARED_FILE, VALID_EDGE_FILES, VALID_NEGATIVE_FILES, VALID_SHARED_FILES,
};
use super::read::{folders, said_count};
use super::targets::target_dim;
use crate::GraphError;
use crate::memory::FeatureDtype;
use crate::npy::npy_shape;
use crate::readers::{EdgeShape, GraphShape, NodeShape};
use std::path::Path;

/// Returns the sizes of the homogeneous graph in `folder`, as [`read_npy_folder`](super::read_npy_folder) reads it. The ids
/// of the edges are read if no other array determines the number of nodes.
pub(in crate::readers) fn npy_folder_shape(folder: &Path) -> Result<GraphShape, GraphError> {
    let num_nodes = match said_count(folder)? {
        Some(said) => said.check("the graph")? as u64,
        None => super::EdgeFiles::open(folder)?.count_nodes()? as u64,
    };
    let nodes = node_shape(folder, crate::DEFAULT_NODE_TYPE, num_nodes)?;
    Ok(GraphShape { node_types: vec![nodes], edge_types: vec![edge_shape(folder, [0; 2])?], unpacked_bytes: 0 })
}

/// Returns the sizes of the graph in `folder`, as [`read_npy_types`](super::read_npy_types) reads it.
pub(in crate::readers) fn npy_types_shape(folder: &Path) -> Result<GraphShape, GraphError> {
    let mut shape = GraphShape::default();
    for (name, dir) in folders(&folder.join(NODES_FOLDER))? {
        let num_nodes = said_count(&dir)?.map_or(Ok(0), |said| said.check(&format!("type {name}")))?;
        shape.node_types.push(node_shape(&dir, &name, num_nodes as u64)?);
    }
    for (triple, dir) in folders(&folder.join(EDGES_FOLDER))? {
        // The reader explains names that are wrong.
        let fields: Vec<&str> = triple.split("__").collect();
        let find = |wanted: Option<&&str>| {
            shape.node_types.iter().position(|nodes| Some(&nodes.name.as_str()) == wanted).unwrap_or(0)
        };
        let ends = [find(fields.first()), find(fields.last())];
        shape.edge_types.push(edge_shape(&dir, ends)?);
    }
    Ok(shape)
}

fn node_shape(folder: &Path, name: &str, num_nodes: u64) -> Result<NodeShape, GraphError> {
    let has = |stem: &str| folder.join(stem).with_extension("npy").exists();
    let mut num_in_splits = 0;
    let mut has_masks = false;
    for stem in ["train", "valid", "val", "test"] {
        num_in_splits += num_rows(folder, &format!("{stem}_idx.npy"))?;
        has_masks |= has(&format!("{stem}_mask"));
    }
    Ok(NodeShape {
        name: name.into(),
        num_nodes,
        features: feature_shape(&folder.join("x.npy"))?,
        has_labels: has("y"),
        target_dim: target_dim(&folder.join(TARGETS_FILE), "node")?,
        has_times: has("node_time"),
        // Masks of different splits have no node in common.
        num_in_splits: if has_masks { num_nodes } else { num_in_splits },
    })
}

pub(in crate::readers) fn edge_shape(folder: &Path, [src_type, dst_type]: [usize; 2]) -> Result<EdgeShape, GraphError> {
    let has = |name: &str| folder.join(name).exists();
    let columns = |name: &str| -> Result<u64, GraphError> {
        let path = folder.join(name);
        if !path.exists() {
            return Ok(0);
        }
        Ok(npy_shape(&path)?.0.iter().skip(1).map(|&n| n as u64).product())
    };
    let (shape, _) = npy_shape(&folder.join(EDGE_INDEX_FILE))?;
    let mut num_held_out = 0;
    for name in VALID_EDGE_FILES.iter().chain(&VALID_SHARED_FILES).chain(&[TEST_EDGE_FILE, TEST_SHARED_FILE]) {
        num_held_out += columns(name)?;
    }
    for name in VALID_NEGATIVE_FILES.iter().chain(&[TEST_NEGATIVE_FILE]) {
        // One id each, and not two.
        num_held_out += (num_rows(folder, name)? * columns(name)?).div_ceil(2);
    }
    Ok(EdgeShape {
        src_type,
        dst_type,
        num_edges: shape.get(1).map_or(0, |&n| n as u64),
        features: feature_shape(&folder.join("edge_attr.npy"))?,
        has_weights: has("edge_weight.npy"),
        has_times: has("edge_time.npy"),
        label_bytes: label_bytes(folder)?,
        id_bytes: 0,
        num_held_out,
    })
}

/// Returns the bytes of the label and the split of each edge, 0 without labels.
fn label_bytes(folder: &Path) -> Result<u64, GraphError> {
    let of_class = if folder.join(EDGE_LABELS_FILE).exists() { size_of::<i64>() as u64 } else { 0 };
    let of_targets = target_dim(&folder.join(EDGE_TARGETS_FILE), "edge")? * size_of::<f32>();
    let bytes = of_class + of_targets as u64;
    Ok(if bytes > 0 { bytes + 1 } else { 0 })
}

/// Returns the number of rows of an array, or 0 if it does not exist.
pub(in crate::readers) fn num_rows(folder: &Path, name: &str) -> Result<u64, GraphError> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(0);
    }
    Ok(npy_shape(&path)?.0.first().map_or(0, |&n| n as u64))
}

pub(in crate::readers) fn feature_shape(path: &Path) -> Result<Option<(usize, FeatureDtype)>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    let dtype = if dtype.ends_with("f2") { FeatureDtype::F16 } else { FeatureDtype::F32 };
    Ok(shape.get(1).filter(|&&dim| dim > 0).map(|&dim| (dim, dtype)))
}

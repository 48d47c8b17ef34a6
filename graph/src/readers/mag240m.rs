//! The arrays of MAG240M, OGB's large-scale challenge for nodes.

use super::npy_folder::{
    EdgeFiles, Integers, edge_shape, feature_shape, num_rows, read_features, read_labels, read_splits, read_times,
};
use super::row_count::RowCount;
use super::shape::{GraphShape, NodeShape};
use super::splits::count_classes;
use crate::dataset::{Dataset, NodeData};
use crate::memory::Workspace;
use crate::npy::npy_shape;
use crate::{GraphError, NodeTypeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder that identifies this layout, together with `paper/` in it.
pub(super) const PROCESSED_FOLDER: &str = "processed";

/// The folder of an edge type and its names.
struct Relation {
    names: [String; 3],
    dir: PathBuf,
}

/// Reads MAG240M as OGB unpacks it, from `folder/processed/`.
///
/// | file | content |
/// |---|---|
/// | `SRC___REL___DST/edge_index.npy` | `[2, E]`, edges with ids from 0 within their types |
/// | `TYPE/node_feat.npy` | `[N, F]`, features; optional |
/// | `TYPE/node_label.npy` | `[N]`, classes, NaN if unlabeled; optional |
/// | `TYPE/node_year.npy` | `[N]`, times; optional |
/// | `TYPE/train_idx.npy`, `valid_idx.npy`, `test_idx.npy` | splits; optional |
///
/// OGB stores the splits and the numbers of nodes as PyTorch files, which are not read. Save the splits as arrays. A
/// type without an array has one node more than the largest id of its edges. Types are in the order of their names.
///
/// ```
/// use edgecut_graph::readers::read_mag240m;
/// use edgecut_graph::write_npy;
/// # let dir = tempfile::tempdir()?;
/// # let folder = dir.path();
/// let edges = folder.join("processed/author___writes___paper");
/// std::fs::create_dir_all(&edges)?;
/// write_npy(&edges.join("edge_index.npy"), &[2, 2], &[0_i64, 3, 1, 0])?;
/// let graph = read_mag240m("mag240m", folder)?;
/// assert_eq!((graph.node_types[0].num_nodes, graph.node_types[1].num_nodes), (4, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`read_npy_types`](super::read_npy_types).
pub fn read_mag240m(name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    read_mag240m_in(&Workspace::default(), name, folder)
}

/// Like [`read_mag240m`], with the arrays of edges, and arrays of a type that is converted, in `space`.
pub(super) fn read_mag240m_in(space: &Workspace, name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    let root = folder.join(PROCESSED_FOLDER);
    let relations = relations(&root)?;
    let counts = counts_by_edges(&relations)?;
    let mut node_types = Vec::with_capacity(counts.len());
    for (node_type, by_edges) in counts {
        node_types.push(read_nodes(space, &root, node_type, by_edges)?);
    }
    let mut edge_types = Vec::with_capacity(relations.len());
    for Relation { names: [src, relation, dst], dir } in &relations {
        let find = |wanted: &str| node_types.iter().position(|nodes: &NodeData| nodes.name == wanted).unwrap_or(0);
        let ends = [find(src), find(dst)];
        let counts = ends.map(|t| RowCount::nodes_of_type(node_types[t].num_nodes, &node_types[t].name));
        edge_types.push(EdgeFiles::open(dir)?.read(space, ends.map(|t| NodeTypeId(t as u16)), relation, counts)?);
    }
    Ok(Dataset { name: name.into(), node_types, edge_types })
}

/// Returns the sizes of MAG240M. The ids of edges are read, because they determine the number of nodes of some types.
pub(super) fn mag240m_shape(folder: &Path) -> Result<GraphShape, GraphError> {
    let root = folder.join(PROCESSED_FOLDER);
    let relations = relations(&root)?;
    let mut shape = GraphShape::default();
    for (name, by_edges) in counts_by_edges(&relations)? {
        let dir = root.join(name);
        let mut num_in_splits = 0;
        for split in ["train", "valid", "test"] {
            num_in_splits += num_rows(&dir, &format!("{split}_idx.npy"))?;
        }
        shape.node_types.push(NodeShape {
            name: name.to_owned(),
            num_nodes: count_nodes(&dir, by_edges)? as u64,
            features: feature_shape(&dir.join("node_feat.npy"))?,
            has_labels: dir.join("node_label.npy").exists(),
            target_dim: 0,
            has_times: dir.join("node_year.npy").exists(),
            num_in_splits,
        });
    }
    for Relation { names: [src, _, dst], dir } in &relations {
        let find = |wanted: &str| shape.node_types.iter().position(|nodes| nodes.name == wanted).unwrap_or(0);
        let ends = [find(src), find(dst)];
        shape.edge_types.push(edge_shape(dir, ends)?);
    }
    Ok(shape)
}

/// Returns the number of nodes of each type that the edges name.
fn counts_by_edges(relations: &[Relation]) -> Result<BTreeMap<&str, usize>, GraphError> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for Relation { names: [src, _, dst], dir } in relations {
        let largest = largest_ids(&dir.join("edge_index.npy"))?;
        for (node_type, largest) in [src, dst].into_iter().zip(largest) {
            let count = counts.entry(node_type).or_default();
            *count = (*count).max(usize::try_from(largest.saturating_add(1)).unwrap_or(0));
        }
    }
    Ok(counts)
}

/// Returns the number of rows of the arrays of a type, or the number of nodes that its edges name.
fn count_nodes(dir: &Path, by_edges: usize) -> Result<usize, GraphError> {
    let files = ["node_feat", "node_label", "node_year"].map(|stem| dir.join(stem).with_extension("npy"));
    match files.iter().find(|path| path.exists()) {
        Some(path) => Ok(npy_shape(path)?.0.first().copied().unwrap_or(0)),
        None => Ok(by_edges),
    }
}

/// Returns the edge types, in the order of their folders.
fn relations(root: &Path) -> Result<Vec<Relation>, GraphError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).map_err(|error| GraphError::io(root, error))? {
        let dir = entry.map_err(|error| GraphError::io(root, error))?.path();
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names: Vec<String> = name.split("___").map(str::to_owned).collect();
        if let Ok(names) = <[String; 3]>::try_from(names) {
            found.push(Relation { names, dir });
        }
    }
    found.sort_by(|a, b| a.names.cmp(&b.names));
    if found.is_empty() {
        return Err(GraphError::format(root, "it contains no edge type, such as author___writes___paper"));
    }
    Ok(found)
}

/// Returns the largest source and the largest destination.
fn largest_ids(path: &Path) -> Result<[i64; 2], GraphError> {
    let (shape, ends) = Integers::open(path)?;
    let [2, num_edges] = shape[..] else {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [2, number of edges]")));
    };
    let largest = |range| Ok(ends.max_of(range)?.unwrap_or(-1));
    Ok([largest(0..num_edges)?, largest(num_edges..2 * num_edges)?])
}

fn read_nodes(space: &Workspace, root: &Path, name: &str, by_edges: usize) -> Result<NodeData, GraphError> {
    let dir = root.join(name);
    let [feature_file, label_file, year_file] =
        ["node_feat", "node_label", "node_year"].map(|n| dir.join(n).with_extension("npy"));
    let num_nodes = count_nodes(&dir, by_edges)?;
    if num_nodes > u32::MAX as usize {
        return Err(GraphError::format(dir, format!("{num_nodes} nodes are more than 2^32 - 1")));
    }
    let nodes = RowCount::nodes_of_type(num_nodes, name);
    let labels = read_labels(space, &label_file, nodes)?;
    let mut data = NodeData {
        name: name.into(),
        num_nodes,
        features: read_features(space, &feature_file, nodes)?,
        num_classes: labels.as_deref().map_or(Ok(0), |labels| count_classes(&label_file, labels))?,
        labels,
        times: read_times(space, &year_file, nodes)?,
        ..NodeData::default()
    };
    data.splits = read_splits(&dir, nodes, &data)?;
    Ok(data)
}

//! The arrays of MAG240M, OGB's large-scale challenge for nodes.

use super::npy_folder::{
    EdgeFiles, Integers, edge_shape, feature_shape, num_rows, read_features, read_labels, read_splits, read_times,
};
use super::row_count::RowCount;
use super::seen_ids::SeenIds;
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
/// | `TYPE/num_nodes.npy` | the number of nodes; optional |
/// | `TYPE/train_idx.npy`, `valid_idx.npy`, `test_idx.npy` | splits; optional |
///
/// OGB stores the splits and the numbers of nodes as PyTorch files, which are not read. Save the splits as arrays. A
/// type without `num_nodes.npy` and without an array has one node more than the largest id of its edges. Types are in the order of their names.
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
    let seen = ids_by_edges(&relations)?;
    let mut node_types = Vec::with_capacity(seen.len());
    for (node_type, by_edges) in &seen {
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
    for (name, by_edges) in &ids_by_edges(&relations)? {
        let dir = root.join(name);
        let mut num_in_splits = 0;
        for split in ["train", "valid", "test"] {
            num_in_splits += num_rows(&dir, &format!("{split}_idx.npy"))?;
        }
        shape.node_types.push(NodeShape {
            name: (*name).to_owned(),
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

/// Returns the ids of the nodes of each type that the edges name.
fn ids_by_edges(relations: &[Relation]) -> Result<BTreeMap<&str, SeenIds>, GraphError> {
    let mut seen: BTreeMap<&str, SeenIds> = BTreeMap::new();
    for Relation { names: [src, _, dst], dir } in relations {
        let path = dir.join("edge_index.npy");
        let (num_edges, largest) = largest_ids(&path)?;
        for (node_type, largest) in [src, dst].into_iter().zip(largest) {
            seen.entry(node_type).or_default().add(&path, largest, num_edges);
        }
    }
    Ok(seen)
}

/// Returns the number of nodes that `num_nodes.npy` states, or the number of rows of the arrays of a type, or the number of
/// nodes that its edges name.
fn count_nodes(dir: &Path, by_edges: &SeenIds) -> Result<usize, GraphError> {
    let stated = dir.join("num_nodes.npy");
    let files = ["node_feat", "node_label", "node_year"].map(|stem| dir.join(stem).with_extension("npy"));
    let count = if stated.exists() {
        let (_, number) = Integers::open(&stated)?;
        if number.len() != 1 {
            return Err(GraphError::format(stated, format!("it has {} numbers, expected one", number.len())));
        }
        number.get(0)?
    } else if let Some(path) = files.iter().find(|path| path.exists()) {
        npy_shape(path)?.0.first().map_or(0, |&rows| rows as i64)
    } else {
        by_edges.count(&format!("save {} with the number of nodes", stated.display()))?
    };
    match u32::try_from(count) {
        Ok(count) => Ok(count as usize),
        Err(_) => Err(GraphError::format(dir, format!("{count} nodes, expected 0 to 2^32 - 1"))),
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

/// Returns the number of edges, and the largest source and the largest destination.
fn largest_ids(path: &Path) -> Result<(usize, [Option<i64>; 2]), GraphError> {
    let (shape, ends) = Integers::open(path)?;
    let [2, num_edges] = shape[..] else {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [2, number of edges]")));
    };
    Ok((num_edges, [ends.max_of(0..num_edges)?, ends.max_of(num_edges..2 * num_edges)?]))
}

fn read_nodes(space: &Workspace, root: &Path, name: &str, by_edges: &SeenIds) -> Result<NodeData, GraphError> {
    let dir = root.join(name);
    let [feature_file, label_file, year_file] =
        ["node_feat", "node_label", "node_year"].map(|n| dir.join(n).with_extension("npy"));
    let num_nodes = count_nodes(&dir, by_edges)?;
    let nodes = RowCount::nodes_of_type(num_nodes, name);
    let labels = read_labels(space, &label_file, nodes)?;
    let mut data = NodeData {
        name: name.into(),
        num_nodes,
        features: read_features(space, &feature_file, nodes)?,
        num_classes: labels.as_deref().map_or(Ok(0), |labels| count_classes(&label_file, labels, "node"))?,
        labels,
        times: read_times(space, &year_file, nodes)?,
        ..NodeData::default()
    };
    data.splits = read_splits(&dir, nodes)?;
    Ok(data)
}

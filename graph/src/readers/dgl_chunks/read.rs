//! Reading of chunked graphs.

use super::arrays;
use super::metadata::{Chunks, METADATA_FILE, Metadata};
use crate::dataset::{Dataset, EdgeData, NodeData, Split};
use crate::memory::Buffer;
use crate::readers::row_count::RowCount;
use crate::readers::splits::{checked_split, count_classes};
use crate::{GraphError, NodeTypeId};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a graph in DGL's chunked format, whose `metadata.json` is in `folder`. Returns the graph, and a sentence for
/// each attribute that is not read.
///
/// | entry of `metadata.json` | content |
/// |---|---|
/// | `edges` | CSV files of pairs of ids (`"name": "csv"`), or arrays `[E, 2]` (`"numpy"`) |
/// | `node_data`: `feat`, `features` or `x` | features |
/// | `node_data`: `label`, `labels` or `y` | classes, -1 or NaN if unlabeled |
/// | `node_data`: `train_mask`, `val_mask` or `valid_mask`, `test_mask` | splits |
/// | `node_data`: `year` or `time`; `edge_data`: `time` | times |
/// | `edge_data`: `feat` or `features`, `weight` or `weights` | features and weights |
///
/// Attributes are NumPy arrays. Types are in the order of the file, and paths are relative to `folder`.
///
/// # Errors
/// Fails for files that are missing or damaged, for counts that contradict `metadata.json`, for ids out of range, and for
/// values that [`read_npy_folder`](crate::readers::read_npy_folder) refuses.
pub fn read_dgl_chunks(name: &str, folder: &Path) -> Result<(Dataset, Vec<String>), GraphError> {
    let metadata = Metadata::read(folder)?;
    let path = folder.join(METADATA_FILE);
    let mut unread = Vec::new();
    let mut node_types = Vec::with_capacity(metadata.node_type.len());
    for (node_type, chunks) in metadata.node_type.iter().zip(&metadata.num_nodes_per_chunk) {
        let count: u64 = chunks.iter().sum();
        let Ok(count @ 1..) = u32::try_from(count) else {
            let why = format!("node type {node_type} has {count} nodes, expected 1 to 2^32 - 1");
            return Err(GraphError::format(path, why));
        };
        let nodes = RowCount::nodes_of_type(count as usize, node_type);
        node_types.push(read_nodes(folder, node_type, nodes, metadata.node_data.get(node_type), &mut unread)?);
    }
    let mut edge_types = Vec::with_capacity(metadata.edge_type.len());
    for (edge_type, chunks) in metadata.edge_type.iter().zip(&metadata.num_edges_per_chunk) {
        let names: Vec<&str> = edge_type.split(':').collect();
        let find = |wanted: &str| metadata.node_type.iter().position(|name| name == wanted);
        let ends = if let [src, _, dst] = names[..] { find(src).zip(find(dst)) } else { None };
        let Some((src, dst)) = ends else {
            let why = format!("{edge_type:?} is not an edge type of its node types, such as author:writes:paper");
            return Err(GraphError::format(path, why));
        };
        let Some(files) = metadata.edges.get(edge_type) else {
            return Err(GraphError::format(path, format!("edges has no entry {edge_type:?}")));
        };
        let counts = [src, dst].map(|t| RowCount::nodes_of_type(node_types[t].num_nodes, &node_types[t].name));
        let ends = arrays::ends(folder, files, counts)?;
        let expected: u64 = chunks.iter().sum();
        if ends.src.len() as u64 != expected {
            let why = format!("{edge_type} has {} edges, but num_edges_per_chunk says {expected}", ends.src.len());
            return Err(GraphError::format(path, why));
        }
        let types = [src, dst].map(|t| NodeTypeId(t as u16));
        let mut edges = EdgeData::new(types[0], names[1], types[1], ends.src.into(), ends.dst.into());
        read_edge_data(folder, edge_type, &mut edges, metadata.edge_data.get(edge_type), &mut unread)?;
        edge_types.push(edges);
    }
    Ok((Dataset { name: name.into(), node_types, edge_types }, unread))
}

fn read_nodes(
    folder: &Path,
    name: &str,
    nodes: RowCount,
    data: Option<&BTreeMap<String, Chunks>>,
    unread: &mut Vec<String>,
) -> Result<NodeData, GraphError> {
    let mut features = None;
    let mut labels: Option<Buffer<i64>> = None;
    let mut times = None;
    let mut masks = Vec::new();
    let mut num_classes = 0;
    for (key, chunks) in with_one_key_each(folder, name, data)? {
        let path = chunks.data.first().map_or_else(|| folder.join(METADATA_FILE), |path| folder.join(path));
        match meaning(key) {
            "feat" => features = arrays::features(folder, chunks, nodes)?,
            "label" => {
                let classes = arrays::labels(folder, chunks, nodes)?;
                num_classes = count_classes(&path, &classes, "node")?;
                labels = Some(classes.into());
            }
            "time" => times = Some(arrays::times(folder, chunks, nodes)?.into()),
            "train_mask" => masks.push((Split::Train, path, arrays::mask(folder, chunks, nodes)?)),
            "val_mask" => masks.push((Split::Valid, path, arrays::mask(folder, chunks, nodes)?)),
            "test_mask" => masks.push((Split::Test, path, arrays::mask(folder, chunks, nodes)?)),
            _ => unread.push(format!("node_data {key:?} of {name} is not read, because its name has no meaning")),
        }
    }
    let mut data = NodeData {
        name: name.into(),
        num_nodes: nodes.number,
        features,
        labels,
        num_classes,
        times,
        ..NodeData::default()
    };
    for (split, path, ids) in masks {
        let ids = checked_split(&path, ids)?;
        data.splits.set(split, ids);
    }
    Ok(data)
}

/// Returns the first of the names that mean the same as `key`.
fn meaning(key: &str) -> &str {
    match key {
        "features" | "x" => "feat",
        "labels" | "y" => "label",
        "year" => "time",
        "valid_mask" => "val_mask",
        "weights" => "weight",
        other => other,
    }
}

/// Returns the arrays of a type, of which each meaning has one.
fn with_one_key_each<'a>(
    folder: &Path,
    name: &str,
    data: Option<&'a BTreeMap<String, Chunks>>,
) -> Result<Vec<(&'a str, &'a Chunks)>, GraphError> {
    let mut found: Vec<(&str, &Chunks)> = Vec::new();
    for (key, chunks) in data.into_iter().flatten() {
        if let Some((other, _)) = found.iter().find(|(other, _)| meaning(other) == meaning(key)) {
            let why = format!("{name} has data {other:?} and {key:?}, which mean the same; keep one of them");
            return Err(GraphError::format(folder.join(METADATA_FILE), why));
        }
        found.push((key, chunks));
    }
    Ok(found)
}

fn read_edge_data(
    folder: &Path,
    name: &str,
    edges: &mut EdgeData,
    data: Option<&BTreeMap<String, Chunks>>,
    unread: &mut Vec<String>,
) -> Result<(), GraphError> {
    let rows = RowCount::edges(edges.src.len());
    for (key, chunks) in with_one_key_each(folder, name, data)? {
        match meaning(key) {
            "feat" => edges.attributes.features = arrays::features(folder, chunks, rows)?,
            "weight" => edges.attributes.weights = Some(arrays::weights(folder, chunks, rows)?.into()),
            "time" => edges.attributes.times = Some(arrays::times(folder, chunks, rows)?.into()),
            _ => unread.push(format!("edge_data {key:?} of {name} is not read, because its name has no meaning")),
        }
    }
    Ok(())
}

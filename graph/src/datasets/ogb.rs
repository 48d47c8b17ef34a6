//! The raw CSV layout of the Open Graph Benchmark's homogeneous node datasets.

use super::blocks::{find_csv, require_csv};
use super::count::Count;
use super::csv::{read_counts, read_edges, read_ids, read_labels, read_rows, read_times};
use super::splits::{checked_split, count_classes};
use crate::{Buffer, DEFAULT_NODE_TYPE, Dataset, Features, GraphError, NodeData, Split, Splits};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

/// Reads a homogeneous graph from `folder` in the raw CSV layout of OGB's node property prediction datasets.
///
/// Each file is `NAME.csv.gz` or `NAME.csv`. If both exist, the compressed file is read. No file has a header.
///
/// | file | content |
/// |---|---|
/// | `raw/num-node-list` | the number of nodes |
/// | `raw/num-edge-list` | the number of edges |
/// | `raw/edge` | `source,destination` per line, ids from 0 |
/// | `raw/node-feat` | a row of numbers per node; optional |
/// | `raw/node-label` | a class per node; `nan`, `-1` or empty if unlabeled; optional |
/// | `raw/node_year` | a time per node, a whole number; optional |
/// | `raw/edge-feat` | a row of numbers per edge; optional |
/// | `split/SCHEME/{train,valid,test}` | a node id per line, in any order; optional |
///
/// Other files are ignored. If `split/` has a single scheme, `split` may be `None`. Files are decompressed
/// concurrently, most of them on a thread of their own. Edges keep the order of the file.
///
/// # Errors
/// Fails if a file is missing or truncated, if a count contradicts another file, if the split scheme does not exist or
/// is ambiguous, and for any bad line: an id out of range, a value that is not a finite number, or a row of another
/// length. Each error names the file and the line, counted from 1.
pub fn read_ogb(name: &str, folder: &Path, split: Option<&str>) -> Result<Dataset, GraphError> {
    let raw = folder.join("raw");
    let edge_file = edge_file(&raw)?;
    let (num_nodes, node_file) = read_count(&raw, "num-node-list")?;
    let nodes = Count::nodes(node_count(num_nodes, &node_file, "the graph")?);
    let (edges, count_file) = read_num_edges(&raw)?;
    let scheme = split_scheme(folder, split)?;

    std::thread::scope(|scope| {
        let features = scope.spawn(|| read_features(&raw, "node-feat", nodes));
        let edge_features = scope.spawn(|| read_features(&raw, "edge-feat", edges));
        let labels = scope.spawn(|| read_node_labels(&raw, nodes));
        let splits = scope.spawn(|| scheme.as_deref().map(|dir| read_splits(dir, nodes)).transpose());
        let (src, dst) = read_edges(&edge_file, nodes, nodes)?;
        check_num_edges(&edge_file, src.len(), edges, &count_file)?;

        let NodeLabels { labels, num_classes } = join(labels)?;
        let splits = check_splits(join(splits)?, labels.as_ref())?;
        let node_data = NodeData {
            name: DEFAULT_NODE_TYPE.into(),
            num_nodes: nodes.number,
            features: join(features)?,
            num_classes,
            labels,
            splits,
            times: read_node_years(&raw, nodes)?,
        };
        let mut dataset = Dataset::homogeneous(name, node_data, src.into(), dst.into());
        dataset.edge_types[0].attributes.features = join(edge_features)?;
        Ok(dataset)
    })
}

pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns `raw/edge.csv.gz`, or an error that recognizes OGB's other layouts.
fn edge_file(raw: &Path) -> Result<PathBuf, GraphError> {
    require_csv(raw, "edge").map_err(|absent| {
        let other = if raw.join("relations").exists() || find_csv(raw, "num-node-dict").is_some() {
            "it is a heterogeneous graph of OGB; read_ogb_hetero reads those"
        } else if raw.join("data.npz").exists() {
            "it is in OGB's binary layout; save its arrays as edge_index.npy, x.npy and y.npy and read that folder"
        } else {
            return absent;
        };
        GraphError::format(raw, other)
    })
}

/// Reads the single number in `raw/stem`.
fn read_count(raw: &Path, stem: &str) -> Result<(u64, PathBuf), GraphError> {
    let path = require_csv(raw, stem)?;
    match read_counts(&path)?[..] {
        [count] => Ok((count, path)),
        [] => Err(GraphError::format(path, "it is empty, expected one number")),
        [_, ..] => {
            let why = "it counts several graphs: this is OGB's graph classification layout, expected a single graph";
            Err(GraphError::format(path, why))
        }
    }
}

pub(super) fn node_count(count: u64, path: &Path, of: &str) -> Result<usize, GraphError> {
    match count {
        0 => Err(GraphError::format(path, format!("{of} has no nodes"))),
        1..=0xffff_ffff => Ok(count as usize),
        _ => Err(GraphError::format(path, format!("{count} nodes are more than 2^32 - 1"))),
    }
}

/// Returns the number of edges in `raw/num-edge-list`, and the path of that file.
pub(super) fn read_num_edges(dir: &Path) -> Result<(Count<'static>, PathBuf), GraphError> {
    let (number, path) = read_count(dir, "num-edge-list")?;
    let number = usize::try_from(number).map_err(|_| GraphError::format(&path, "more edges than can be addressed"))?;
    Ok((Count::edges(number), path))
}

pub(super) fn check_num_edges(
    edge_file: &Path,
    found: usize,
    expected: Count,
    count_file: &Path,
) -> Result<(), GraphError> {
    if expected.number != found {
        let why = format!("it has {found} edges, but {} says {}", count_file.display(), expected.number);
        return Err(GraphError::format(edge_file, why));
    }
    Ok(())
}

pub(super) fn read_features(dir: &Path, stem: &str, rows: Count) -> Result<Option<Features>, GraphError> {
    let Some(path) = find_csv(dir, stem) else { return Ok(None) };
    let (values, dim) = read_rows(&path)?;
    rows.check_rows(&path, values.len().checked_div(dim).unwrap_or(0))?;
    Ok((dim > 0).then(|| Features::F32 { values: values.into(), dim }))
}

/// The labels of a node type, if any, and the number of their classes.
#[derive(Default)]
pub(super) struct NodeLabels {
    pub(super) labels: Option<Buffer<i64>>,
    pub(super) num_classes: usize,
}

pub(super) fn read_node_labels(dir: &Path, nodes: Count) -> Result<NodeLabels, GraphError> {
    let Some(path) = find_csv(dir, "node-label") else { return Ok(NodeLabels::default()) };
    let labels = read_labels(&path, nodes.number)?;
    nodes.check_rows(&path, labels.len())?;
    let num_classes = count_classes(&path, &labels)?;
    Ok(NodeLabels { labels: Some(labels.into()), num_classes })
}

pub(super) fn read_node_years(dir: &Path, nodes: Count) -> Result<Option<Buffer<i64>>, GraphError> {
    let Some(path) = find_csv(dir, "node_year") else { return Ok(None) };
    let years = read_times(&path)?;
    nodes.check_rows(&path, years.len())?;
    Ok(Some(years.into()))
}

/// Returns the folder of the split scheme to read, if the dataset has any.
pub(super) fn split_scheme(folder: &Path, wanted: Option<&str>) -> Result<Option<PathBuf>, GraphError> {
    let dir = folder.join("split");
    let mut schemes = Vec::new();
    if dir.is_dir() {
        for entry in fs::read_dir(&dir).map_err(|e| GraphError::io(&dir, e))? {
            let entry = entry.map_err(|e| GraphError::io(&dir, e))?;
            if entry.path().is_dir() {
                schemes.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    schemes.sort();
    match (wanted, &schemes[..]) {
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(dir.join(only))),
        (None, several) => Err(GraphError::format(
            &dir,
            format!("it has several split schemes, choose one of: {}", several.join(", ")),
        )),
        (Some(wanted), schemes) if schemes.iter().any(|s| s == wanted) => Ok(Some(dir.join(wanted))),
        (Some(wanted), []) => {
            Err(GraphError::format(&dir, format!("split scheme {wanted} was requested, but there are none")))
        }
        (Some(wanted), schemes) => {
            let why = format!("it has no split scheme {wanted}; choose one of: {}", schemes.join(", "));
            Err(GraphError::format(&dir, why))
        }
    }
}

type SplitFiles = Vec<(Split, PathBuf, Vec<u32>)>;

pub(super) fn read_splits(scheme: &Path, nodes: Count) -> Result<SplitFiles, GraphError> {
    Split::ALL
        .into_iter()
        .map(|split| {
            let path = require_csv(scheme, split.name())?;
            let ids = read_ids(&path, nodes)?;
            Ok((split, path, ids))
        })
        .collect()
}

pub(super) fn check_splits(files: Option<SplitFiles>, labels: Option<&Buffer<i64>>) -> Result<Splits, GraphError> {
    let mut splits = Splits::default();
    for (split, path, ids) in files.unwrap_or_default() {
        splits.set(split, checked_split(&path, ids, labels)?);
    }
    Ok(splits)
}

//! The files that the homogeneous and the heterogeneous layout share.

use crate::GraphError;
use crate::dataset::{Split, Splits, TargetKind, Targets};
use crate::memory::{Buffer, Features};
use crate::readers::row_count::RowCount;
use crate::readers::splits::{checked_split, count_classes};
use crate::readers::text::{
    find_csv, first_line, read_counts, read_ids, read_labels, read_rows, read_rows_with_gaps, read_times, require_csv,
};
use edgecut_settings::counted;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

/// Waits for a thread, and passes on its panic.
pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads the single number in `raw/stem`.
pub(super) fn read_count(raw: &Path, stem: &str) -> Result<(u64, PathBuf), GraphError> {
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

/// Checks a number of nodes.
///
/// # Errors
/// Fails for 0 nodes, and for more than ids can number.
pub(super) fn node_count(count: u64, path: &Path, of: &str) -> Result<usize, GraphError> {
    match count {
        0 => Err(GraphError::format(path, format!("{of} has no nodes"))),
        1..=0xffff_ffff => Ok(count as usize),
        _ => Err(GraphError::format(path, format!("{count} nodes are more than 2^32 - 1"))),
    }
}

/// Returns the number of edges in `raw/num-edge-list`, and the path of that file.
pub(super) fn read_num_edges(dir: &Path) -> Result<(RowCount<'static>, PathBuf), GraphError> {
    let (number, path) = read_count(dir, "num-edge-list")?;
    let number = usize::try_from(number).map_err(|_| GraphError::format(&path, "more edges than can be addressed"))?;
    Ok((RowCount::edges(number), path))
}

pub(super) fn check_num_edges(
    edge_file: &Path,
    found: usize,
    expected: RowCount,
    count_file: &Path,
) -> Result<(), GraphError> {
    if expected.number != found {
        let edges = counted(found, "edge", "edges");
        let why = format!("it has {edges}, but {} says {}", count_file.display(), expected.number);
        return Err(GraphError::format(edge_file, why));
    }
    Ok(())
}

pub(super) fn read_features(dir: &Path, stem: &str, rows: RowCount) -> Result<Option<Features>, GraphError> {
    let Some(path) = find_csv(dir, stem) else { return Ok(None) };
    let (values, dim) = read_rows(&path)?;
    rows.check_rows(&path, values.len().checked_div(dim).unwrap_or(0))?;
    Ok((dim > 0).then(|| Features::F32 { values: values.into(), dim }))
}

/// The labels of a node type, if any: a class per node with the number of classes, or several labels per node.
#[derive(Default)]
pub(super) struct Labels {
    pub(super) labels: Option<Buffer<i64>>,
    pub(super) num_classes: usize,
    pub(super) targets: Option<Targets>,
}

impl Labels {
    /// Returns the number of labels per node, if there are any.
    pub(super) fn per_node(&self) -> Option<usize> {
        match &self.targets {
            Some(targets) => Some(targets.dim),
            None => self.labels.as_ref().map(|_| 1),
        }
    }
}

/// Reads a class per node, or several labels per node if the first line has several columns.
pub(super) fn read_node_labels(dir: &Path, nodes: RowCount) -> Result<Labels, GraphError> {
    let Some(path) = find_csv(dir, "node-label") else { return Ok(Labels::default()) };
    if first_line(&path)?.contains(&b',') {
        let (values, dim) = read_rows_with_gaps(&path)?;
        nodes.check_rows(&path, values.len().checked_div(dim).unwrap_or(0))?;
        let targets = Targets { kind: TargetKind::of(&values), values: values.into(), dim };
        return match targets.problem(nodes.number, nodes.item()) {
            Some(why) => Err(GraphError::format(path, why)),
            None => Ok(Labels { targets: Some(targets), ..Labels::default() }),
        };
    }
    let labels = read_labels(&path, nodes.number)?;
    nodes.check_rows(&path, labels.len())?;
    let num_classes = count_classes(&path, &labels, "node")?;
    Ok(Labels { labels: Some(labels.into()), num_classes, targets: None })
}

pub(super) fn read_node_years(dir: &Path, nodes: RowCount) -> Result<Option<Buffer<i64>>, GraphError> {
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

pub(super) fn read_splits(scheme: &Path, nodes: RowCount) -> Result<SplitFiles, GraphError> {
    Split::ALL
        .into_iter()
        .map(|split| {
            let path = require_csv(scheme, split.name())?;
            let ids = read_ids(&path, nodes)?;
            Ok((split, path, ids))
        })
        .collect()
}

pub(super) fn check_splits(files: Option<SplitFiles>) -> Result<Splits, GraphError> {
    let mut splits = Splits::default();
    for (split, path, ids) in files.unwrap_or_default() {
        splits.set(split, checked_split(&path, ids)?);
    }
    Ok(splits)
}

//! Checking parts without the graph that they were made of.

use crate::PartitionError;
use crate::measure::{self, EdgeSlice, PartMeasure};
use edgecut_graph::{GraphError, META_FILE, Meta, NodeTypeId, Part, PartitionId, Split, edge_dir, node_dir, part_dir};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was found to be in order.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// The description of the partitioned graph.
    #[serde(skip)]
    pub meta: Meta,
    /// Array files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Checks the partitioned graph in `dir` against `docs/format.md`: size and checksum of every file, no file too many,
/// and every invariant of arrays within and across parts, up to the report, which is computed again. Reads everything
/// about twice, and writes nothing.
///
/// # Errors
/// The first thing that is wrong, with the file it is in.
pub fn verify(dir: &Path) -> Result<VerifyReport, PartitionError> {
    let meta = Meta::read(dir)?;
    meta.verify_files(dir, None)?;
    check_unlisted(dir, dir, &meta)?;
    let mut seen: Vec<Vec<bool>> = meta.node_types.iter().map(|t| vec![false; t.book.num_nodes()]).collect();
    let mut splits = vec![[0_u64; 3]; meta.node_types.len()];
    let mut edges = vec![0_u64; meta.edge_types.len()];
    let mut parts = Vec::with_capacity(meta.num_parts as usize);
    for id in (0..meta.num_parts).map(PartitionId) {
        let part = Part::open(dir, id, false)?;
        let mut train = 0;
        for t in 0..meta.node_types.len() {
            check_nodes(dir, &part, t, &mut seen[t])?;
            let nodes = part.nodes(NodeTypeId(t as u16));
            Split::ALL.iter().zip(&mut splits[t]).for_each(|(s, n)| *n += nodes.splits.get(*s).len() as u64);
            train += nodes.splits.train.len() as u64;
        }
        for (e, sum) in part.edge_type_ids().zip(&mut edges) {
            *sum += part.edges(e).csc.num_edges() as u64;
        }
        parts.push(measure_part(&part, train));
    }
    check_sums(dir, &meta, &splits, &edges)?;
    if measure::report(&parts) != meta.report {
        return wrong(dir.join(META_FILE), "its report is not what its parts add up to".into());
    }
    Ok(VerifyReport { files: meta.files.len(), bytes: meta.files.values().map(|f| f.bytes).sum(), meta })
}

fn wrong<T>(path: PathBuf, why: String) -> Result<T, PartitionError> {
    Err(GraphError::format(path, why).into())
}

/// Fails on whatever is in a part's folder, or looks like one, and is not listed.
fn check_unlisted(root: &Path, dir: &Path, meta: &Meta) -> Result<(), PartitionError> {
    let mut entries: Vec<_> =
        std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|e| GraphError::io(dir, e))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let listed = path.strip_prefix(root).ok().and_then(Path::to_str);
        if dir == root && !listed.is_some_and(|name| name.starts_with("part_")) {
            continue;
        }
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            let prefix = listed.map(|name| format!("{name}/"));
            if prefix.is_none_or(|prefix| !meta.files.keys().any(|file| file.starts_with(&prefix))) {
                return wrong(path, format!("{META_FILE} lists nothing in this folder"));
            }
            check_unlisted(root, &path, meta)?;
        } else if listed.is_none_or(|name| !meta.files.contains_key(name)) {
            return wrong(path, format!("{META_FILE} does not list this file"));
        }
    }
    Ok(())
}

/// Checks what [`Part::open`] does not of the nodes of one type in one part, and marks their original ids in `seen`.
fn check_nodes(root: &Path, part: &Part, t: usize, seen: &mut [bool]) -> Result<(), PartitionError> {
    let (meta, nodes) = (&part.meta().node_types[t], part.nodes(NodeTypeId(t as u16)));
    let file = |name: &str| root.join(part_dir(part.id())).join(node_dir(&meta.name)).join(name);
    for &id in nodes.original_ids.iter() {
        match seen.get_mut(id as usize) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return wrong(file("original_ids.npy"), format!("node {id} is in another part as well")),
            None => return wrong(file("original_ids.npy"), format!("node {id} is past the last of {}", seen.len())),
        }
    }
    if let Some((row, column)) = nodes.features.as_ref().and_then(|f| f.first_not_finite()) {
        return wrong(file("features.npy"), format!("feature {column} of row {row} is NaN or infinite"));
    }
    let Some(labels) = &nodes.labels else { return Ok(()) };
    for split in Split::ALL {
        if let Some(row) = nodes.splits.get(split).iter().find(|&&row| labels[row as usize] < 0) {
            return wrong(file(&format!("{}.npy", split.name())), format!("row {row} has no label"));
        }
    }
    Ok(())
}

/// Checks that the parts together have as many as `META.json` says. Each part's ids are new ones in range, and the
/// books say how many there are, so that all were seen.
fn check_sums(dir: &Path, meta: &Meta, splits: &[[u64; 3]], edges: &[u64]) -> Result<(), PartitionError> {
    for (t, found) in meta.node_types.iter().zip(splits) {
        if t.split_sizes != *found {
            let why = format!("split sizes of node type {} are {:?}, but parts have {found:?}", t.name, t.split_sizes);
            return wrong(dir.join(META_FILE), why);
        }
    }
    for (e, &found) in meta.edge_types.iter().zip(edges) {
        if e.num_edges != found {
            let why = format!("{} has {} edges, but parts have {found}", edge_dir(e), e.num_edges);
            return wrong(dir.join(META_FILE), why);
        }
    }
    Ok(())
}

fn measure_part(part: &Part, train: u64) -> (u64, u64, PartMeasure) {
    let meta = part.meta();
    let owned: Vec<_> = (0..meta.node_types.len())
        .map(|t| part.owned(NodeTypeId(t as u16)))
        .map(|range| range.start as usize..range.end as usize)
        .collect();
    let num_nodes: Vec<usize> = meta.node_types.iter().map(|t| t.book.num_nodes()).collect();
    let slice = |e| {
        let edges = part.edges(e);
        let (src_type, dst_type) = (edges.src_type.index(), edges.dst_type.index());
        EdgeSlice { src_type, dst_type, indptr: edges.csc.indptr(), indices: edges.csc.indices() }
    };
    let slices: Vec<EdgeSlice> = part.edge_type_ids().map(slice).collect();
    let nodes = owned.iter().map(|range| range.len() as u64).sum();
    (nodes, train, PartMeasure::new(&owned, &num_nodes, &slices))
}
